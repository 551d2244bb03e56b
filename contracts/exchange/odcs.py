"""Import from and export to the Open Data Contract Standard (ODCS), below "the standard".

No part of a document is lost. Parts that a contract does not use are kept in its schema under `x-odcs`, next to what they
belong to, and `write_odcs` restores them. Parts of a contract that the standard lacks are written as custom properties and
as quality rules of the engine `tidegate`.

Source: Open Data Contract Standard 3.0 to 3.2.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pydantic import ValidationError

from tidegate.contracts.columns.typed import column_name
from tidegate.contracts.document.fields import objects_of, value_at
from tidegate.contracts.document.load import dump_contract
from tidegate.contracts.document.model import SCHEMA_KEY, DataContract
from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import Imported, LeftOut, identifier, pointer, semantic_version
from tidegate.contracts.exchange.odcs_properties import KEPT, MEMBERS, PropertyReader, name_of, write_property
from tidegate.contracts.exchange.odcs_quality import ENGINE, QualityReader, as_quality

API_VERSION: Final = "v3.1.0"
"""Version of the standard in exported documents, unless they were imported with another one."""
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_STATUS: Final = {
    "active": "active",
    "production": "active",
    "draft": "draft",
    "proposed": "draft",
    "development": "draft",
    "in development": "draft",
    "test": "draft",
    "deprecated": "deprecated",
    "retired": "retired",
}
_UNFIT: Final = "unfit"
"""Key in a kept document for ids of rules and expectations that did not fit their field on import."""
_OURS: Final = "tidegate"
"""Name of the custom property for parts of a contract that the standard lacks."""
_JOINED: Final = ("customProperties", "quality")
"""Lists to which an export adds its own entries."""
_STANDARD: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "id",
        "version",
        "status",
        "topic",
        "domain",
        "description",
        "team",
        "primary_key",
        "rules",
    }
    | {"classification", "schema", "expectations"}
)
"""Fields of a contract that are not written into the custom property."""
_SAID_BY_PROPERTIES: Final = frozenset({"schema", "classification", "primary_key"})
"""Fields that are written into the custom property only if properties of the standard cannot express them."""


def is_odcs(document: object) -> bool:
    """Return whether a document declares itself as one of the standard, of any version."""
    if not isinstance(document, dict) or document.get("kind") != "DataContract":
        return False
    version = str(document.get("apiVersion"))
    return version.startswith(("v3.", "v2.", "3.", "2."))


def objects_of_odcs(document: dict[str, Any]) -> list[str]:
    """Return the names of the objects that a document describes."""
    return [str(each.get("name")) for each in document.get("schema") or [] if isinstance(each, dict)]


def read_odcs(document: dict[str, Any], chosen: str | None = None) -> Imported:
    """Return the contract for one object of a document of the standard; `chosen` names it if there are several.

    Raises ContractError for a version before 3.0, if it is unclear which object is meant, and for duplicate names.
    """
    require_version(document)
    return _read(document, _chosen(document, chosen))


def require_version(document: dict[str, Any]) -> None:
    """Raise ContractError for a version of the standard before 3.0."""
    if not str(document.get("apiVersion")).lstrip("v").startswith("3."):
        raise ContractError.at(
            "/apiVersion", "only versions 3.0 to 3.2 of the Open Data Contract Standard are read"
        )


def _read(document: dict[str, Any], index: int) -> Imported:
    part = document["schema"][index]
    source = pointer("schema", index)
    reader, quality = PropertyReader(), QualityReader()
    properties = part.get("properties") or []
    schema = {SCHEMA_KEY: _DIALECT} | reader.object_schema(properties, f"{source}/properties", "")
    if part.get("quality"):
        quality.read(part["quality"], f"{source}/quality", "")
    for where, place, given in reader.fields:
        quality.read(given.get("quality") or [], f"{where}/quality", place)
    for place, bounds, where in reader.times:
        quality.read_bounds(place, bounds, where)
    ours, edited = _custom(document, schema)
    contract = _head(document, part) | {"schema": {"type": "json-schema", "definition": schema}}
    contract |= {"primary_key": keys} if (keys := _primary_key(properties)) else {}
    contract |= {"rules": quality.rules} if quality.rules else {}
    contract |= {"expectations": quality.expectations} if quality.expectations else {}
    contract |= {"classification": reader.classes} if reader.classes else {}
    contract |= ours
    definition = contract["schema"].get("definition")
    if isinstance(definition, dict):
        contract["schema"] = {**contract["schema"], "definition": definition | {KEPT: _kept(document, index)}}
    left_out = (*edited, *reader.left_out, *quality.left_out, *_not_judged(document, part, source))
    return Imported(contract, left_out, quality.places)


def _chosen(document: dict[str, Any], chosen: str | None) -> int:
    names = objects_of_odcs(document)
    if not names:
        raise ContractError.at(
            "/schema", "the document describes no object; a contract needs the schema of its records"
        )
    if chosen is None and len(names) > 1:
        raise ContractError.at(
            "/schema", f"the document describes several objects; choose one of {', '.join(names)}"
        )
    if chosen is not None and chosen not in names:
        raise ContractError.at("/schema", f"there is no object `{chosen}`; choose one of {', '.join(names)}")
    return names.index(chosen) if chosen is not None else 0


def _head(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the descriptive fields of a contract: id, version, status, description, topic, domain and team."""
    topic = identifier(part.get("physicalName") or part.get("name"))
    several = len(document["schema"]) > 1
    name = document.get("id") or document.get("name") or topic
    head: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": identifier(name, part.get("name") if several else None),
        "version": semantic_version(document.get("version")) or "1.0.0",
        "status": _STATUS.get(str(document.get("status")).lower(), "draft"),
    }
    description = document.get("description")
    purpose = description.get("purpose") if isinstance(description, dict) else None
    if text := part.get("description") or purpose:
        head["description"] = text
    head["topic"] = topic
    if document.get("domain"):
        head["domain"] = document["domain"]
    if team := _team(document):
        head["team"] = team
    return head


def _team(document: dict[str, Any]) -> dict[str, Any]:
    team = document.get("team")
    name = team.get("name") if isinstance(team, dict) else None
    channels = [each.get("url") or each.get("channel") for each in document.get("support") or []]
    contact = next((each for each in channels if each), None)
    if not name and not contact:
        return {}
    named = {"name": str(name or document.get("domain") or document.get("name") or document.get("id"))}
    return named | ({"contact": str(contact)} if contact else {})


def _primary_key(properties: list[dict[str, Any]]) -> list[str]:
    keys = [each for each in properties if each.get("primaryKey")]
    ordered = sorted(keys, key=lambda each: each.get("primaryKeyPosition") or 0)
    return [column_name(name_of(each)) for each in ordered]


def _custom(document: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    """Return the content of our custom property; properties that have changed since replace the schema in it."""
    for index, each in enumerate(document.get("customProperties") or []):
        if isinstance(each, dict) and each.get("property") == _OURS and isinstance(each.get("value"), dict):
            ours = copy.deepcopy(each["value"])
            told = ours.get("schema", {})
            if told.get("type", "json-schema") == "json-schema" and "schema" in ours:
                classes = ours.get("classification", {})
                read = PropertyReader().object_schema(_properties_of(told.get("definition"), classes), "", "")
                if _without_kept({"schema": {SCHEMA_KEY: _DIALECT} | read}) != _without_kept(
                    {"schema": schema}
                ):
                    reason = (
                        "the properties were changed since this schema was written; the contract has theirs"
                    )
                    kept = {name: value for name, value in ours.items() if name not in _SAID_BY_PROPERTIES}
                    return kept, (LeftOut(pointer("customProperties", index, "value", "schema"), reason),)
            return ours, ()
    return {}, ()


def _not_judged(document: dict[str, Any], part: dict[str, Any], source: str) -> Iterator[LeftOut]:
    """Yield the parts of a document by which no record is judged, such as service levels."""
    for index, each in enumerate(document.get("servers") or []):
        if each.get("type") == "kafka" and str(each.get("format", "json")).lower() not in {
            "json",
            "json-schema",
        }:
            reason = (
                f"the records are {each['format']}, and the contract describes JSON; give it their schema"
            )
            yield LeftOut(pointer("servers", index, "format"), reason)
    for index, each in enumerate(document.get("slaProperties") or []):
        reason = f"the service level `{each.get('property')}` is not judged; a rule of kind `freshness` may be meant"
        yield LeftOut(pointer("slaProperties", index), reason)
    if part.get("relationships"):
        yield LeftOut(f"{source}/relationships", "other data is not looked up")
    if not part.get("properties"):
        yield LeftOut(
            "", f"`{part.get('name')}` names no fields, so every record passes; add them to the schema"
        )
    if str(document.get("status")).lower() not in _STATUS:
        yield LeftOut(
            "/status", f"the status `{document.get('status')}` is not known; the contract is a draft"
        )
    if semantic_version(document.get("version")) is None:
        yield LeftOut(
            "/version", f"`{document.get('version')}` is not a semantic version; the contract has 1.0.0"
        )


def _kept(document: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the parts of a document to keep: all except the properties of the object and our own parts."""
    part = document["schema"][index]
    others = [each for place, each in enumerate(document["schema"]) if place != index]
    rest = _without_ours({name: value for name, value in document.items() if name != "schema"})
    mine = _without_ours({name: value for name, value in part.items() if name not in MEMBERS or not value})
    return copy.deepcopy({"document": rest, "object": mine, "position": index, "others": others})


def with_unfit(contract: dict[str, Any], ids: Iterable[str]) -> dict[str, Any]:
    """Return a contract that remembers the `ids` of rules and expectations left out, so that an export restores them.

    A contract that was not imported from the standard is returned unchanged.
    """
    definition = contract["schema"].get("definition")
    kept = definition.get(KEPT) if isinstance(definition, dict) else None
    if kept is None:
        return contract
    kept = kept | {_UNFIT: [*kept.get(_UNFIT, ()), *ids]}
    return contract | {"schema": contract["schema"] | {"definition": definition | {KEPT: kept}}}


def _without_ours(level: dict[str, Any]) -> dict[str, Any]:
    kept = dict(level)
    for name, word, ours in (("customProperties", "property", _OURS), ("quality", "engine", ENGINE)):
        if any(each.get(word) == ours for each in kept.get(name) or ()):
            kept[name] = [each for each in kept[name] if each.get(word) != ours]
            kept.pop(name) if not kept[name] else None
    return kept


def write_odcs(contract: DataContract) -> dict[str, Any]:
    """Return a contract as a document of the standard, from which `read_odcs` returns the same contract.

    Parts that an import kept are restored if they still agree with the contract.
    """
    written = _plain(contract)
    definition = written["schema"].get("definition")
    kept = definition.get(KEPT) if isinstance(definition, dict) else None
    document = _document_of(written)
    if kept is None:
        return document
    part, index = document["schema"][0], kept["position"]
    if kept["others"]:  # with several objects, the contract's id includes the name of its object
        document["id"] = kept["document"].get("id", document["id"])
        part |= {"name": kept["object"]["name"], "physicalName": part["name"]}
    document["schema"] = [
        *copy.deepcopy(kept["others"][:index]),
        part,
        *copy.deepcopy(kept["others"][index:]),
    ]
    levels = [(document, kept["document"]), (part, kept["object"])]
    levels += _kept_properties(part["properties"], definition)
    rules = {each["id"] for each in (*written.get("rules", ()), *written.get("expectations", ()))}
    unfit = frozenset(kept.get(_UNFIT, ())) - rules
    writer = _Writer(document, index, _without_kept(written), unfit)
    writer.put_back(levels)
    writer.drop_doubles(levels)
    return document


Level = tuple[dict[str, Any], dict[str, Any]]
"""A part of the document that is written, and the same part as an import kept it."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """Restores kept parts in a document as long as its object at `index` is read as the `wanted` contract."""

    document: dict[str, Any]
    index: int
    wanted: dict[str, Any]
    unfit: frozenset[str]
    """Ids of rules and expectations that the import left out because they do not fit their field."""

    def put_back(self, levels: list[Level]) -> None:
        """Restore kept parts: all of them or, if the contract has changed, those that still agree with it."""
        if self._replace(levels):
            return
        for target, kept in levels:
            if not self._replace([(target, kept)]):
                for name in kept:
                    self._replace([(target, {**target, name: kept[name]})])

    def drop_doubles(self, levels: list[Level]) -> None:
        """Remove our own parts that the standard's parts also express: rules of engine `tidegate`, the schema."""
        part = levels[1][0]
        for each in self.document.get("customProperties") or ():
            if each.get("property") == _OURS and _SAID_BY_PROPERTIES & each["value"].keys():
                before = each["value"]
                each["value"] = {
                    name: value for name, value in before.items() if name not in _SAID_BY_PROPERTIES
                }
                if not self._agrees():
                    each["value"] = before
        if custom := self.document.get("customProperties"):
            self.document["customProperties"] = _without_empty(custom)
        for each in [each for each in part.get("quality") or () if each.get("engine") == ENGINE]:
            before = part["quality"]
            part["quality"] = [other for other in before if other is not each]
            if not self._agrees():
                part["quality"] = before
        for target, kept in levels:
            for name in [name for name in _JOINED if target.get(name) == []]:
                del target[name]
            target |= {
                name: kept[name] for name in _JOINED if not kept.get(name, True) and name not in target
            }

    def _replace(self, levels: list[Level]) -> bool:
        before = [dict(target) for target, _ in levels]
        for target, kept in levels:
            ours = {name: target[name] for name in MEMBERS & target.keys() if target[name]}
            ours |= {"schema": target["schema"]} if target is self.document else {}
            joined = {
                name: [
                    *(kept.get(name) or ()),
                    *(each for each in target[name] if each not in (kept.get(name) or ())),
                ]
                for name in _JOINED
                if name in target
            }
            target.clear()
            target.update(copy.deepcopy(kept) | joined | ours)
        if self._agrees():
            return True
        for (target, _), old in zip(levels, before, strict=True):
            target.clear()
            target.update(old)
        return False

    def _agrees(self) -> bool:
        found = _read(self.document, self.index).document
        for kind in {"rules", "expectations"} & found.keys():
            found[kind] = [each for each in found[kind] if each["id"] not in self.unfit]
        try:
            read = DataContract.model_validate_json(json.dumps(found))
        except ValidationError:
            return False
        return _without_kept(_plain(read)) == self.wanted


def _without_empty(custom: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in custom if each.get("property") != _OURS or each.get("value")]


def _plain(contract: DataContract) -> dict[str, Any]:
    """Return a contract as JSON data, without default values."""
    plain: dict[str, Any] = json.loads(dump_contract(contract))
    return plain


def _without_kept(contract: dict[str, Any]) -> dict[str, Any]:
    """Return a contract for comparison: without kept parts, and with its rules and expectations sorted by id."""
    plain = copy.deepcopy(contract)
    for each in objects_of(plain["schema"]):
        each.pop(KEPT, None)
    return plain | {
        name: sorted(plain.get(name, ()), key=itemgetter("id")) for name in ("rules", "expectations")
    }


def _document_of(contract: dict[str, Any]) -> dict[str, Any]:
    """Return a contract as a document of the standard, without kept parts."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "DataContract",
        "id": contract["id"],
        "version": contract["version"],
    }
    document["status"] = contract.get("status", "active")
    document |= {"domain": contract["domain"]} if "domain" in contract else {}
    team = contract.get("team", {})
    document |= {"team": {"name": team["name"]}} if team else {}
    document |= {"support": [{"channel": team["contact"]}]} if "contact" in team else {}
    definition = contract["schema"].get("definition")
    part: dict[str, Any] = {"name": contract["topic"], "physicalType": "topic", "logicalType": "object"}
    part |= {"description": contract["description"]} if "description" in contract else {}
    classes, keys = contract.get("classification", {}), contract.get("primary_key", ())
    part["properties"] = (
        _properties_of(definition, classes) if contract["schema"]["type"] == "json-schema" else []
    )
    marked = {column_name(each["name"]): each for each in part["properties"]}
    for position, name in enumerate(keys, 1):
        marked.get(name, {}).update({"primaryKey": True, "primaryKeyPosition": position})
    quality = [as_quality(each) for each in (*contract.get("rules", ()), *contract.get("expectations", ()))]
    document["schema"] = [part | ({"quality": quality} if quality else {})]
    ours = {name: value for name, value in contract.items() if name not in _STANDARD}
    if _needs_schema(contract, part):
        ours |= {name: contract[name] for name in _SAID_BY_PROPERTIES if name in contract}
    elif not set(keys) <= marked.keys():
        ours["primary_key"] = keys
    document |= {"customProperties": [{"property": _OURS, "value": ours}]} if ours else {}
    return document


def _needs_schema(contract: dict[str, Any], part: dict[str, Any]) -> bool:
    """Return whether the properties cannot express the whole schema of the contract."""
    if contract["schema"]["type"] != "json-schema" or len(contract["schema"]) > len(("type", "definition")):
        return True
    definition = contract["schema"]["definition"]
    if not isinstance(definition, dict):
        return True
    read = {SCHEMA_KEY: _DIALECT} | PropertyReader().object_schema(part["properties"], "", "")
    return _without_kept({"schema": read}) != _without_kept({"schema": definition})


def _properties_of(definition: Any, classes: dict[str, str], place: str = "") -> list[dict[str, Any]]:
    """Return the properties of an object schema; an empty list for any other schema."""
    members = definition.get("properties") if isinstance(definition, dict) else None
    required = definition.get("required", ()) if isinstance(definition, dict) else ()
    return [
        _property_of(name, schema, classes, f"{place}/{escape(name)}", required=name in required)
        for name, schema in (members.items() if isinstance(members, dict) else ())
    ]


def _property_of(
    name: str | None, schema: Any, classes: dict[str, str], place: str, *, required: bool
) -> dict[str, Any]:
    written = write_property(name, schema, required=required, label=classes.get(place))
    if not isinstance(schema, dict):
        return written
    if members := _properties_of(schema, classes, place):
        written["properties"] = members
    if isinstance(schema.get("items"), dict):
        written["items"] = _property_of(None, schema["items"], classes, f"{place}/*", required=True)
    if written.get("logicalType") == "map":
        value = _property_of(None, schema["additionalProperties"], classes, f"{place}/*", required=True)
        key = schema.get(KEPT, {}).get("map") or {"key": {"logicalType": "string"}}
        written["map"] = {**key, "value": value}
    return written


def _kept_properties(
    properties: list[dict[str, Any]], definition: Any
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each property at any depth, together with the parts of it that an import kept."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    waiting = [(each, value_at(definition, ("properties", each["name"]))) for each in properties]
    while waiting:
        each, schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        kept = schema.get(KEPT, {})
        found.append((each, {name: part for name, part in kept.items() if name not in MEMBERS or not part}))
        waiting += [
            (child, value_at(schema, ("properties", child["name"]))) for child in each.get("properties", ())
        ]
        waiting += [(each["items"], schema.get("items"))] if "items" in each else []
        waiting += [(each["map"]["value"], schema.get("additionalProperties"))] if "map" in each else []
    return found
