"""Convert properties of the Open Data Contract Standard to JSON Schemas, and back.

Source: Open Data Contract Standard 3.0 to 3.2, sections *Schema* and *Logical Type Options*.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import LeftOut
from tidegate.contracts.exchange.odcs_quality import forbids_nulls

KEPT: Final = "x-odcs"
"""The keyword under which an imported property is kept. The judge ignores keywords with a prefix."""

_TYPES: Final = {
    "string": {"type": "string"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?$"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "map": {"type": "object"},
    "array": {"type": "array"},
}
_OPTIONS: Final = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems"),
    "object": ("minProperties", "maxProperties"),
    "map": ("minProperties", "maxProperties"),
}
"""The options of logical types that are also keywords of JSON Schema with the same meaning."""
_TEXT_FORMATS: Final = frozenset(
    {"email", "hostname", "ipv4", "ipv6", "uri", "uuid", "date", "date-time", "duration"}
)
_INTEGERS: Final = {
    f"{sign}{bits}": ((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1))
    for sign in "iu"
    for bits in (8, 16, 32, 64)
}
_TIME_FORMATS: Final = {
    "yyyy-MM-dd": "date",
    "yyyy-MM-dd'T'HH:mm:ss": "date-time-local",
    "yyyy-MM-dd'T'HH:mm:ssXXX": "date-time",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX": "date-time",
    "YYYY-MM-DDTHH:mm:ss.SSSZ": "date-time",
}
"""Date formats that have a name in JSON Schema. With any other format, a date is any text."""
_NOT_NULL: Final = ("string", "number", "boolean", "object", "array")
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}
_TEXTS: Final = {"description": "description", "businessName": "title"}
_AS_THEY_ARE: Final = ("examples", "deprecated")
MEMBERS: Final = frozenset({"properties", "items", "map"})
"""Keys with nested properties, which keep their own parts. Of these keys, only a map's key and empty values are kept."""


@dataclass(slots=True)
class PropertyReader:
    """Reads properties, and collects what a JSON Schema cannot express. `source` pointers are into the source."""

    left_out: list[LeftOut] = field(default_factory=list)
    times: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    """Field, bounds and source pointer of dates with bounds, for which JSON Schema has no keyword."""
    classes: dict[str, str] = field(default_factory=dict)
    """Classification by field."""
    fields: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Source pointer, field and property, for every property."""

    def object_schema(self, properties: list[dict[str, Any]], source: str, place: str) -> dict[str, Any]:
        """Return the schema of an object with these properties. Raises ContractError for a duplicate name."""
        named: dict[str, Any] = {}
        required: list[str] = []
        for index, each in enumerate(properties):
            name = name_of(each)
            if name in named:
                raise ContractError.at(
                    f"{source}/{index}",
                    f"another property is named `{name}` in the records; rename one of them",
                )
            step = name.replace("~", "~0").replace("/", "~1")
            named[name] = self.schema(each, f"{source}/{index}", f"{place}/{step}")
            if is_required(each):
                required.append(name)
        schema: dict[str, Any] = {"type": "object", "properties": named}
        return schema | ({"required": required} if required else {})

    def schema(self, given: dict[str, Any], source: str, place: str) -> dict[str, Any]:
        """Return the schema of one property; the property itself is kept in it under `x-odcs`."""
        self.fields.append((source, place, given))
        logical = given.get("logicalType")
        schema: dict[str, Any] = dict(_TYPES.get(logical, {})) if isinstance(logical, str) else {}
        if logical is not None and not schema:
            self._leave(source, "logicalType", f"the logical type `{logical}` is not known; any value passes")
        if logical is None and given.get("physicalType"):
            reason = "without a `logicalType` any value passes: a physical type is not judged"
            self._leave(source, "physicalType", reason)
        self._add_members(schema, given, source, place)
        self._add_options(schema, given, source, place)
        schema |= {word: given[name] for name, word in _TEXTS.items() if given.get(name)}
        schema |= {name: given[name] for name in _AS_THEY_ARE if given.get(name)}
        values = [each.get("value") for each in given.get("enum") or () if isinstance(each, dict)]
        if values:
            schema["enum"] = values
        if not is_required(given):
            schema |= {"type": [schema["type"], "null"]} if "type" in schema else {}
            schema |= {"enum": [*(each for each in values if each is not None), None]} if values else {}
        if is_required(given) and not {"type", "enum"} & schema.keys():
            schema["type"] = list(_NOT_NULL)
        if given.get("classification"):
            self.classes[place] = str(given["classification"])
        if given.get("unique"):
            self._leave(
                source, "unique", "uniqueness concerns the whole table; use a primary key and upserts"
            )
        if given.get("relationships"):
            self._leave(
                source,
                "relationships",
                "other data is not looked up; use a reference set and a rule `one_of`",
            )
        return schema | {KEPT: copy.deepcopy(dict(_kept(given)))}

    def _add_members(self, schema: dict[str, Any], given: dict[str, Any], source: str, place: str) -> None:
        if given.get("properties"):
            schema |= {"type": "object"} | self.object_schema(
                given["properties"], f"{source}/properties", place
            )
        if isinstance(given.get("items"), dict):
            schema |= {"type": "array", "items": self.schema(given["items"], f"{source}/items", f"{place}/*")}
        entry = given.get("map") or {}
        key = entry.get("key") or {"logicalType": "string"}
        if key.get("logicalType") != "string" or key.keys() & {"logicalTypeOptions", "enum", "quality"}:
            self._leave(source, "map/key", "names within an object are text; what they are is not judged")
        if isinstance(values := entry.get("value"), dict):
            schema["additionalProperties"] = self.schema(values, f"{source}/map/value", f"{place}/*")

    def _add_options(self, schema: dict[str, Any], given: dict[str, Any], source: str, place: str) -> None:
        logical, options = str(given.get("logicalType")), dict(given.get("logicalTypeOptions") or {})
        self._list_brackets(given, options, source)
        for name in _OPTIONS.get(logical, ()):
            if isinstance(value := options.pop(name, None), bool) and name.startswith("exclusive"):
                self._add_flag(schema, name, is_set=value)  # 3.0 has flags, like draft 4 of JSON Schema
            elif value is not None:
                schema[name] = value
        if isinstance(required := options.pop("required", None), list):
            schema["required"] = list(dict.fromkeys([*schema.get("required", ()), *required]))
        self._add_format(schema, logical, options, f"{source}/logicalTypeOptions")
        if logical in {"date", "timestamp"}:
            bounds = dict(_bounds(options))
            if bounds and schema.get("format"):
                self.times.append((place, bounds, f"{source}/logicalTypeOptions"))
            elif bounds:
                self._leave(
                    source, "logicalTypeOptions", "bounds of a date that is not written as in RFC 3339"
                )
        for name, value in options.items():
            if not isinstance(value, bool) and name not in {"timezone", "defaultTimezone"}:
                self._leave(f"{source}/logicalTypeOptions", name, f"no record is judged by `{name}`")

    def _list_brackets(self, given: dict[str, Any], options: dict[str, Any], source: str) -> None:
        """List the length or digits of a physical type, unless another part of the property says them."""
        physical = str(given.get("physicalType"))
        is_said_again = "maxLength" in options or given.keys() & {*MEMBERS, "enum"}
        if given.get("logicalType") and set(physical) & set("(<") and not is_said_again:
            reason = f"of the type `{physical}`, what is in brackets is not judged; write it as a rule"
            self._leave(source, "physicalType", reason)

    def _add_flag(self, schema: dict[str, Any], name: str, *, is_set: bool) -> None:
        bound = name.replace("exclusiveM", "m")
        if is_set and bound in schema:
            schema[name] = schema.pop(bound)

    def _add_format(self, schema: dict[str, Any], logical: str, options: dict[str, Any], source: str) -> None:
        written = options.pop("format", None)
        if written is None:
            return
        if logical == "integer" and written in _INTEGERS:
            low, high = _INTEGERS[written]
            schema.setdefault("minimum", low) if "exclusiveMinimum" not in schema else None
            schema.setdefault("maximum", high) if "exclusiveMaximum" not in schema else None
        elif logical == "string" and written in _TEXT_FORMATS:
            schema["format"] = written
        elif logical in {"date", "timestamp", "time"}:
            schema.pop("pattern", None)
            schema.pop("format", None)
            if written in _TIME_FORMATS:
                schema["format"] = _TIME_FORMATS[written]
            else:
                self._leave(source, "format", f"JSON Schema has no format for `{written}`; any text passes")
        elif written not in {"f32", "f64"}:
            self._leave(source, "format", f"the format `{written}` is not checked")

    def _leave(self, source: str, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(f"{source}/{name}", reason))


def write_property(
    name: str | None, schema: Any, *, required: bool, label: str | None = None
) -> dict[str, Any]:
    """Return the property for a schema, without what the standard cannot express; `name` is None for items."""
    schema = schema if isinstance(schema, dict) else {}
    types = schema.get("type")
    plain = [each for each in (types if isinstance(types, list) else [types]) if each not in {None, "null"}]
    if not plain and isinstance(schema.get("enum"), list):
        plain = list({_JSON_TYPES[type(value)] for value in schema["enum"] if type(value) in _JSON_TYPES})
    logical = _logical_type(plain[0], schema) if len(plain) == 1 else None
    written: dict[str, Any] = {"name": name} if name is not None else {}
    written |= {"logicalType": logical} if logical else {}
    written |= {"required": True} if required and name is not None else {}
    written |= {name: schema[word] for name, word in _TEXTS.items() if word in schema}
    written |= {name: schema[name] for name in _AS_THEY_ARE if name in schema}
    written |= {"classification": label} if label else {}
    if isinstance(schema.get("enum"), list):
        written["enum"] = [{"value": value} for value in schema["enum"] if value is not None]
    options = {name: schema[name] for name in _OPTIONS.get(logical or "", ()) if name in schema}
    if logical == "object" and (
        more := [each for each in schema.get("required", ()) if each not in schema.get("properties", {})]
    ):
        options["required"] = more
    if logical == "string" and schema.get("format") in _TEXT_FORMATS:
        options["format"] = schema["format"]
    if logical == "timestamp" and schema.get("format") == "date-time-local":
        options["format"] = "yyyy-MM-dd'T'HH:mm:ss"
    return written | ({"logicalTypeOptions": options} if options else {})


def _logical_type(plain: str, schema: dict[str, Any]) -> str | None:
    match plain, schema.get("format"):
        case "string", "date":
            return "date"
        case "string", "date-time" | "date-time-local":
            return "timestamp"
        case "string", _ if schema.get("pattern") == _TYPES["time"]["pattern"]:
            return "time"
        case "object", _ if isinstance(schema.get("additionalProperties"), dict):
            return "map"
        case _:
            return plain if plain in _TYPES else None


def name_of(given: dict[str, Any]) -> str:
    """Return the name of a property in the records: its physical name if it has one."""
    return str(given.get("physicalName") or given.get("name") or "")


def is_required(given: dict[str, Any]) -> bool:
    """Return whether a property must be present and not null; a primary key always must."""
    return bool(given.get("required") or given.get("primaryKey") or forbids_nulls(given.get("quality") or []))


def _kept(given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a property keeps of itself: all but the properties within it."""
    for name, part in given.items():
        if name not in MEMBERS or not part:
            yield name, part
        elif name == "map":
            yield name, {name: each for name, each in part.items() if name != "value"}


def _bounds(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Remove the bounds of a date from its options, and yield them as bounds of a rule of kind `range`."""
    for low_or_high, inside, outside in (
        ("Minimum", "not_before", "after"),
        ("Maximum", "not_after", "before"),
    ):
        bound = options.pop(low_or_high.lower(), None)
        exclusive = options.pop(f"exclusive{low_or_high}", None)
        if isinstance(bound, str):
            yield (outside if exclusive is True else inside), bound
        if isinstance(exclusive, str):
            yield outside, exclusive
