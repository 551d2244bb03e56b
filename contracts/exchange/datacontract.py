"""The Data Contract Specification of datacontract.com, read as a document of the Open Data Contract Standard.

Source: Data Contract Specification 0.9 to 1.2.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import tokens, value_at
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.converted import LOCAL_TIMESTAMP, Places, is_known_type, logical_type, unread
from tidegate.contracts.exchange.imported import LeftOut, pointer

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
_DOCUMENT: Final = frozenset(
    {"dataContractSpecification", "id", "info", "servers", "models", "definitions", "servicelevels"}
)
_INFO: Final = frozenset({"title", "version", "status", "description", "owner", "contact"})
_MODEL: Final = frozenset({"description", "fields", "primaryKey", "quality"})
_FIELD: Final = frozenset(
    {"type", "format", "primaryKey", "primary", "classification", "pii", "enum", "references", "examples"}
    | {"quality", "fields", "items", "values", *_OPTIONS, *_WORDS}
)
"""The keys that are read at each level; others are listed."""
_MOST_REFERENCES: Final = 20
"""How many definitions refer to each other at most."""


def convert_datacontract(document: dict[str, Any]) -> tuple[dict[str, Any], Places, list[LeftOut]]:
    """Return the document in the standard, the places of its parts, and what no part stands for. Raises ContractError."""
    converter = _Converter(document)
    info = document.get("info") or {}
    converted: dict[str, Any] = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": document.get("id"),
        "name": info.get("title"),
        "version": info.get("version"),
        "status": info.get("status", "active"),
        "description": {"purpose": info.get("description")},
        "schema": [converter.model(name, model) for name, model in (document.get("models") or {}).items()],
    }
    converter.places.note("/version", "/info/version")
    converter.places.note("/status", "/info/status")
    converter.places.note("/schema", "/models")
    contact = info.get("contact") or {}
    converted |= {"team": {"name": info["owner"]}} if info.get("owner") else {}
    used = next((word for word in ("email", "url", "name") if contact.get(word)), "")
    converted |= {"support": [{"channel": contact[used]}]} if used else {}
    converter.left_out += unread(document, _DOCUMENT, "")
    converter.left_out += unread(info, _INFO, "/info")
    converter.left_out += unread(contact, {used}, "/info/contact")
    for name, server in (document.get("servers") or {}).items():
        known = {"type", "topic", "format"} if server.get("type") == "kafka" else ()
        converter.left_out += unread(server, known, pointer("servers", name))
    for name in document.get("servicelevels") or {}:
        reason = "a service level is not judged; a rule of kind `freshness` may be meant"
        converter.left_out.append(LeftOut(pointer("servicelevels", name), reason))
    return converted, converter.places, converter.left_out


class _Converter:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.places = Places()
        self.left_out: list[LeftOut] = []
        self._models = 0

    def model(self, name: str, model: dict[str, Any]) -> dict[str, Any]:
        """Return a model as an object. Its topic is that of a Kafka server, if there is one model."""
        place, source = pointer("schema", self._models), pointer("models", name)
        self._models += 1
        self.places.note(place, source)
        self.left_out += unread(model, _MODEL, source)
        servers = (self._document.get("servers") or {}).values()
        topics = [each["topic"] for each in servers if each.get("type") == "kafka" and each.get("topic")]
        converted: dict[str, Any] = {"name": name, "description": model.get("description")}
        if topics and len(self._document["models"]) == 1:
            converted["physicalName"] = topics[0]
        converted["properties"] = self._properties(
            model.get("fields") or {}, f"{place}/properties", f"{source}/fields"
        )
        for position, key in enumerate(model.get("primaryKey") or (), 1):
            for each in converted["properties"]:
                if each["name"] == key:
                    each |= {"primaryKey": True, "primaryKeyPosition": position}
        if model.get("quality"):
            converted["quality"] = model["quality"]
        return converted

    def _properties(self, fields: dict[str, Any], place: str, source: str) -> list[dict[str, Any]]:
        return [
            {"name": name, **self._property(field, f"{place}/{index}", source + pointer(name))}
            for index, (name, field) in enumerate(fields.items())
        ]

    def _property(self, field: dict[str, Any], place: str, source: str, depth: int = 0) -> dict[str, Any]:
        self.places.note(place, source)
        if (reference := field.get("$ref")) is not None:
            if depth >= _MOST_REFERENCES:
                raise ContractError.at(source, f"`{reference}` refers to itself")
            found = value_at(self._document, tokens(str(reference).removeprefix("#")))
            if not isinstance(found, dict):
                raise ContractError.at(source, f"the definition `{reference}` is not in the document")
            inherited = {name: value for name, value in found.items() if name not in {"name", "domain"}}
            merged = inherited | {name: value for name, value in field.items() if name != "$ref"}
            return self._property(merged, place, source, depth + 1)
        self.left_out += unread(field, _FIELD, source)
        written = field.get("type")
        if written is not None and not is_known_type(written):
            self.left_out.append(
                LeftOut(f"{source}/type", f"the type `{written}` is not known; any value passes")
            )
        converted = logical_type(written) | {
            name: field[word] for word, name in _WORDS.items() if field.get(word) is not None
        }
        options = converted.pop("logicalTypeOptions", {}) | {
            name: field[name] for name in _OPTIONS if name in field
        }
        if field.get("format") and options.get("format") != LOCAL_TIMESTAMP:
            options["format"] = field["format"]
        converted |= {"logicalTypeOptions": options} if options else {}
        if field.get("primaryKey") or field.get("primary"):
            converted["primaryKey"] = True
        if label := field.get("classification") or ("pii" if field.get("pii") else None):
            converted["classification"] = label
        if field.get("enum"):
            converted["enum"] = [{"value": value} for value in field["enum"]]
        if field.get("references"):
            converted["relationships"] = [{"to": field["references"]}]
            self.places.note(f"{place}/relationships", f"{source}/references")
        converted |= {name: field[name] for name in ("examples", "quality") if field.get(name)}
        return converted | self._members(field, place, source)

    def _members(self, field: dict[str, Any], place: str, source: str) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if field.get("fields"):
            members["properties"] = self._properties(
                field["fields"], f"{place}/properties", f"{source}/fields"
            )
        if isinstance(field.get("items"), dict):
            members["items"] = self._property(field["items"], f"{place}/items", f"{source}/items")
        if isinstance(field.get("values"), dict):
            members["map"] = {
                "value": self._property(field["values"], f"{place}/map/value", f"{source}/values")
            }
        return members
