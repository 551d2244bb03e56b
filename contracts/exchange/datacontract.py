"""Convert the Data Contract Specification of datacontract.com to the Open Data Contract Standard (ODCS).

Every key of the specification is either converted or listed as left out.

Source: Data Contract Specification 0.9 to 1.2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from tidegate.contracts.document.fields import tokens, value_at
from tidegate.contracts.document.json_source import read_json
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.converted import (
    SourcePlaces,
    is_known_type,
    logical_type,
    mapping,
    sequence,
    unjudged_size,
    unread,
    unread_of_checks,
)
from tidegate.contracts.exchange.imported import LeftOut, pointer

_DOCUMENT: Final = frozenset(
    {
        "dataContractSpecification",
        "id",
        "info",
        "servers",
        "models",
        "definitions",
        "servicelevels",
        "quality",
    }
)
_INFO: Final = frozenset({"title", "version", "status", "description", "owner", "contact"})
_CONTACT: Final = ("email", "url", "name")
"""Ways to contact a team, in order of preference; a contract has only one."""
_SERVER: Final = frozenset({"type", "topic", "format"})
_MODEL: Final = frozenset({"description", "fields", "primaryKey", "quality"})
_OPTIONS: Final = (
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
)
_WORDS: Final = {
    "description": "description",
    "title": "businessName",
    "unique": "unique",
    "required": "required",
}
_FIELD: Final = frozenset(
    {*_OPTIONS, *_WORDS, "$ref", "type", "format", "primaryKey", "primary", "classification", "pii", "enum"}
    | {"references", "example", "examples", "quality", "fields", "items", "values"}
)
_INSTEAD: Final = (("pii", "classification"), ("primary", "primaryKey"), ("example", "examples"))
"""Keys of a field that are read only if the other key is missing."""
_CONVERTED: Final = {
    **{name: f"logicalTypeOptions/{name}" for name in (*_OPTIONS, "format")},
    "references": "relationships",
}
"""Where a key of a field is in the standard, if not under the same name."""
_OF_TYPE: Final[dict[str, set[type]]] = {
    "string": {str},
    "boolean": {bool},
    "integer": {int},
    "number": {int, float},
}
"""The Python types of the values of a logical type."""


def convert_datacontract(document: dict[str, Any]) -> tuple[dict[str, Any], SourcePlaces, list[LeftOut]]:
    """Return the document as one of the standard, the sources of its parts, and the parts left out.

    Raises ContractError for a document that does not have the form of the specification.
    """
    converter = _Converter(document)
    info = mapping(document.get("info"), "/info")
    contact = mapping(info.get("contact"), "/info/contact")
    way = next((name for name in _CONTACT if contact.get(name)), None)
    topic = converter.topic()
    converted: dict[str, Any] = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": document.get("id"),
        "name": info.get("title"),
        "version": info.get("version"),
        "status": info.get("status", "active"),
        "description": {"purpose": info.get("description")},
        "schema": [
            converter.model(index, name, model, topic)
            for index, (name, model) in enumerate(mapping(document.get("models"), "/models").items())
        ],
    }
    converter.places.note("/version", "/info/version")
    converter.places.note("/status", "/info/status")
    converter.places.note("/schema", "/models")
    converted |= {"team": {"name": info["owner"]}} if info.get("owner") else {}
    converted |= {"support": [{"channel": contact[way]}]} if way else {}
    is_title_read = not document.get("id") or (way and not info.get("owner"))
    converter.left_out += unread(document, _DOCUMENT, "")
    converter.left_out += unread(info, _INFO if is_title_read else _INFO - {"title"}, "/info")
    converter.left_out += unread(contact, {str(way)}, "/info/contact")
    converter.list_checks_and_promises()
    return converted, converter.places, converter.left_out


class _Converter:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.places = SourcePlaces()
        self.left_out: list[LeftOut] = []
        self._definitions: set[str] = set()
        """Pointers of the definitions that fields refer to."""
        self._open: list[str] = []
        """Pointers of the definitions that are being resolved around the current field, to detect recursion."""

    def topic(self) -> str | None:
        """Return the topic of the first Kafka server if there is only one model, else None.

        All other servers are listed as left out.
        """
        topic = None
        is_alone = len(self._document.get("models") or ()) == 1
        for name, each in mapping(self._document.get("servers"), "/servers").items():
            source = pointer("servers", name)
            server = mapping(each, source)
            if topic or not is_alone or server.get("type") != "kafka" or not server.get("topic"):
                reason = (
                    "of servers, a contract has the topic of the first one of Kafka, if there is one model"
                )
                self._leave(source, reason)
                continue
            topic = str(server["topic"])
            self.left_out += unread(server, _SERVER, source)
            if (written := str(server.get("format", "json"))).lower() not in {"json", "json-schema"}:
                reason = f"the records are {written}, and the contract describes JSON; give it their schema"
                self._leave(f"{source}/format", reason)
        return topic

    def list_checks_and_promises(self) -> None:
        """List service levels, top-level checks, and definitions that no field refers to as left out."""
        for name in mapping(self._document.get("servicelevels"), "/servicelevels"):
            reason = "a service level is not judged; a rule of kind `freshness` may be meant"
            self._leave(pointer("servicelevels", name), reason)
        if checks := self._document.get("quality"):
            kind = checks.get("type") if isinstance(checks, dict) else None
            self._leave("/quality", f"checks of the kind `{kind}` are not read; write them as rules")
        for name in mapping(self._document.get("definitions"), "/definitions"):
            if (source := pointer("definitions", name)) not in self._definitions:
                self._leave(source, "no field refers to it")

    def model(self, index: int, name: str, written: Any, topic: str | None) -> dict[str, Any]:
        """Return a model as an object of the standard; `topic` is its physical name, if known."""
        place, source = pointer("schema", index), pointer("models", name)
        self.places.note(place, source)
        model = mapping(written, source)
        texts = (mapping(self._document.get("info"), "/info").get("description"), model.get("description"))
        converted: dict[str, Any] = {
            "name": name,
            "description": "\n\n".join(str(each).strip() for each in texts if each),
            "properties": self._properties(model.get("fields"), f"{place}/properties", f"{source}/fields"),
        }
        converted |= {"physicalName": topic} if topic else {}
        named = {each["name"]: each for each in converted["properties"]}
        for at, key in enumerate(sequence(model.get("primaryKey"), f"{source}/primaryKey")):
            if key in named:
                named[key] |= {"primaryKey": True, "primaryKeyPosition": at + 1}
            else:
                self._leave(f"{source}/primaryKey/{at}", f"the model has no field `{key}`")
        if checks := self._checks(model.get("quality"), f"{source}/quality"):
            converted["quality"] = checks
        self.left_out += unread(model, _MODEL, source)
        return converted

    def _properties(self, written: Any, place: str, source: str) -> list[dict[str, Any]]:
        return [
            {"name": name, **self._property(field, f"{place}/{index}", source + pointer(name))}
            for index, (name, field) in enumerate(mapping(written, source).items())
        ]

    def _property(self, written: Any, place: str, source: str) -> dict[str, Any]:
        enclosing = len(self._open)
        field, origins = self._resolved(written, source)
        self.places.note(place, source)
        for name, origin in origins.items():
            self.places.note(f"{place}/{_CONVERTED.get(name, name)}", origin)
        kind = field.get("type")
        if kind is not None and not is_known_type(kind):
            self._leave(origins["type"], f"the type `{kind}` is not known; any value passes")
        self.left_out += unjudged_size(kind, origins.get("type", source))
        converted = logical_type(kind) | {
            name: field[word] for word, name in _WORDS.items() if field.get(word) is not None
        }
        converted |= self._options(field, origins, converted.get("logicalTypeOptions", {}))
        for name, other in _INSTEAD:
            if field.get(name) and field.get(other):
                self._leave(origins[name], f"`{other}` is read instead")
        converted |= _labels(field)
        if field.get("enum"):
            listed = sequence(field["enum"], origins["enum"])
            converted["enum"] = [
                {"value": self._of_type(value, converted.get("logicalType"), f"{origins['enum']}/{index}")}
                for index, value in enumerate(listed)
            ]
        if checks := self._checks(field.get("quality"), origins.get("quality", source)):
            converted["quality"] = checks
        converted |= self._members(field, place, origins)
        del self._open[enclosing:]
        return converted

    def _options(
        self, field: dict[str, Any], origins: dict[str, str], of_type: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the options of a field and of its type as `logicalTypeOptions`; {} if there are none."""
        options = of_type | {name: field[name] for name in _OPTIONS if name in field}
        if field.get("format") and of_type.get("format", field["format"]) != field["format"]:
            self._leave(origins["format"], f"the type `{field['type']}` has its own format")
        elif field.get("format"):
            options["format"] = field["format"]
        return {"logicalTypeOptions": options} if options else {}

    def _of_type(self, value: Any, logical: str | None, source: str) -> Any:
        """Return a listed value, which the specification writes as text, in the type of its field.

        A value that the type does not have stays, and is listed.
        """
        kinds = _OF_TYPE.get(logical or "")
        if kinds is None or value is None:
            return value
        read = value
        if isinstance(value, str) and logical != "string":
            with suppress(ContractError):
                read = read_json("enum", value).value
        if logical == "string" and type(read) is int:
            read = str(read)
        elif logical == "integer" and type(read) is float and read.is_integer():
            read = int(read)
        if type(read) in kinds:
            return read
        self._leave(source, f"the type of the field is {logical}, so no value is `{value}`")
        return value

    def _resolved(self, written: Any, source: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a field with the keys that it inherits from definitions, and the source pointer of each key."""
        field: dict[str, Any] = {}
        origins: dict[str, str] = {}
        place = source
        while True:
            part = mapping(written, place)
            self.left_out += unread(part, _FIELD, place)
            field = part | field
            origins = {name: place + pointer(name) for name in part} | origins
            if (reference := part.get("$ref")) is None:
                return field, origins
            place = str(reference).removeprefix("#")
            written = value_at(self._document, tokens(place))
            if not isinstance(written, dict):
                raise ContractError.at(source, f"the definition `{reference}` is not in the document")
            if place in self._open:
                raise ContractError.at(source, f"`{reference}` refers to itself")
            self._open.append(place)
            self._definitions.add(place)

    def _members(self, field: dict[str, Any], place: str, origins: dict[str, str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if field.get("fields"):
            members["properties"] = self._properties(
                field["fields"], f"{place}/properties", origins["fields"]
            )
        if field.get("items"):
            members["items"] = self._property(field["items"], f"{place}/items", origins["items"])
        if field.get("values"):
            members["map"] = {
                "value": self._property(field["values"], f"{place}/map/value", origins["values"])
            }
        return members

    def _checks(self, written: Any, source: str) -> list[Any]:
        """Return the quality rules, which have the form of the standard; list parts that a contract's rules lack."""
        checks = sequence(written, source)
        self.left_out += unread_of_checks(checks, source)
        return checks

    def _leave(self, source: str, reason: str) -> None:
        self.left_out.append(LeftOut(source, reason))


def _labels(field: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a field that do not restrict its values: primary key, class, references, examples."""
    labels: dict[str, Any] = {}
    if field.get("primaryKey") or field.get("primary"):
        labels["primaryKey"] = True
    if label := field.get("classification") or ("pii" if field.get("pii") else None):
        labels["classification"] = label
    if field.get("references"):
        labels["relationships"] = [{"to": field["references"]}]
    if examples := field.get("examples") or [each for each in (field.get("example"),) if each]:
        labels["examples"] = examples
    return labels
