"""Convert suites of Great Expectations to the Open Data Contract Standard (ODCS).

An expectation about every value (without `mostly`) becomes a part of the schema or a rule, which refuses single records.
Any other stays an expectation about a batch. Each column of the suite becomes a field of the same name. An expectation
names the column that a contract derives from the field (`guest-id` becomes `guest_id`).

Source: Great Expectations 1.x and 0.18, `ExpectationSuite.to_json_dict`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from tidegate.contracts.columns.typed import column_name
from tidegate.contracts.document.model import Expectation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.converted import (
    SourcePlaces,
    logical_type,
    type_of_rule,
    unjudged_size,
    unread,
)
from tidegate.contracts.exchange.imported import LeftOut, identifier, pointer
from tidegate.contracts.exchange.odcs_quality import ENGINE
from tidegate.contracts.expectations.library import read_suite
from tidegate.contracts.expectations.vocabulary import REFUSED, VOCABULARY
from tidegate.contracts.verdict import Severity

_OF_ONE_COLUMN: Final = ("column", "column_A", "column_B")
_OF_SEVERAL: Final = ("column_list", "column_set")
_TYPES: Final = ("type_", "type")
_OF_THE_SCHEMA: Final = frozenset(
    {"expect_column_to_exist", "expect_column_values_to_not_be_null"}
    | {"expect_column_values_to_be_of_type", "expect_column_type_to_be"}
)
"""Expectations that become a part of the schema, which cannot keep their description and severity."""


_NEEDED: Final = frozenset({"column"})


def convert_suite(document: dict[str, Any]) -> tuple[dict[str, Any], SourcePlaces, list[LeftOut]]:
    """Return the document as one of the standard, the sources of its parts, and the parts left out.

    Raises ContractError for entries that are not expectations, or that lack a required argument.
    """
    converter = _Converter()
    converter.left_out += _unread_around(document)
    for index, expectation in enumerate(read_suite(json.dumps(document))):
        converter.add(expectation, document["expectations"][index], pointer("expectations", index))
    name = identifier(document.get("name") or document.get("expectation_suite_name")) or "suite"
    converted = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": name,
        "version": "1.0.0",
        "status": "active",
        "schema": [
            {"name": name, "properties": [*converter.properties.values()], "quality": converter.of_table}
        ],
    }
    converter.places.note("/schema", "/expectations")
    return converted, converter.places, converter.left_out


class _Converter:
    def __init__(self) -> None:
        self.places = SourcePlaces()
        self.left_out: list[LeftOut] = []
        self.properties: dict[str, dict[str, Any]] = {}
        self.of_table: list[dict[str, Any]] = []

    def add(self, expectation: Expectation, written: dict[str, Any], source: str) -> None:
        """Add an expectation; `written` is its entry in the suite, `source` the pointer to it."""
        if expectation.kwargs.get("row_condition"):
            reason = f"`{expectation.type}` with a condition is not judged; write a rule of kind `cel`"
            self.left_out.append(LeftOut(source, reason))
            return
        needed = VOCABULARY[expectation.type].required if expectation.type in VOCABULARY else _NEEDED
        if expectation.type in _OF_THE_SCHEMA or expectation.type in VOCABULARY:
            for name in sorted(needed - expectation.kwargs.keys()):
                raise ContractError.at(source, f"`{expectation.type}` needs the argument `{name}`")
        is_schema = expectation.type in _OF_THE_SCHEMA and expectation.kwargs.get("mostly", 1) == 1
        self.left_out += _unread(expectation, written, source, is_schema=is_schema)
        for name in _columns(expectation):
            if name not in self.properties:
                self.properties[name] = {"name": name, "quality": []}
                self.places.note(pointer("schema", 0, "properties", len(self.properties) - 1), source)
        if expectation.kwargs.get("mostly", 1) == 1 and self._of_each_value(expectation, source):
            return
        if expectation.type not in VOCABULARY:
            reason = REFUSED.get(expectation.type, "it is not known")
            self.left_out.append(LeftOut(source, f"`{expectation.type}` is not judged: {reason}"))
            return
        named = with_derived_columns(expectation)
        self._quality(
            source, expectation, "greatExpectations", {"type": named.type, "kwargs": dict(named.kwargs)}
        )

    def _of_each_value(self, expectation: Expectation, source: str) -> bool:
        """Add an expectation about every value to the schema or the rules; return False for any other expectation."""
        kwargs = expectation.kwargs
        found = self.properties.get(str(kwargs.get("column")), {})
        match expectation.type:
            case "expect_column_to_exist":
                pass
            case "expect_table_columns_to_match_set" | "expect_table_columns_to_match_ordered_list":
                reason = "the fields are read; that there are no others, and their order, is not judged"
                self.left_out.append(LeftOut(source, reason))
            case "expect_column_values_to_not_be_null":
                found["required"] = True
            case "expect_column_values_to_be_of_type" | "expect_column_type_to_be":
                self._type(found, kwargs, source)
            case "expect_column_values_to_be_between":
                self._rule(expectation, source, _range(kwargs))
            case "expect_column_values_to_be_in_set":
                self._rule(expectation, source, {"kind": "one_of", "values": _values(kwargs)})
            case "expect_column_values_to_not_be_in_set":
                self._rule(expectation, source, {"kind": "forbidden", "values": _values(kwargs)})
            case "expect_column_values_to_match_regex":
                self._rule(expectation, source, {"kind": "matches", "pattern": kwargs.get("regex")})
            case "expect_column_pair_values_a_to_be_greater_than_b" if not kwargs.get("ignore_row_if"):
                fields = [pointer(kwargs["column_B"]), pointer(kwargs["column_A"])]
                rule = {"kind": "ordered", "fields": fields, "strict": not kwargs.get("or_equal", False)}
                self._rule(expectation, source, rule)
            case _:
                return False
        return True

    def _type(self, found: dict[str, Any], kwargs: Any, source: str) -> None:
        written = next((kwargs[name] for name in _TYPES if name in kwargs), None)
        # The suite may name types of SQL, pandas or Spark, such as `INTEGER`, `int64` and `StringType`.
        converted = logical_type(str(written).removesuffix("Type"))
        if not converted:
            self.left_out.append(LeftOut(source, f"the type `{written}` is not known; any value passes"))
        self.left_out += unjudged_size(written, source)
        found |= converted

    def _rule(self, expectation: Expectation, source: str, rule: dict[str, Any]) -> None:
        if "fields" not in rule:
            column = str(expectation.kwargs.get("column"))
            rule["field"] = pointer(column)
            if not self.properties[column].get("logicalType"):
                self.properties[column] |= type_of_rule(rule)
        self._quality(source, expectation, ENGINE, {"id": expectation.id, **rule, **_words(expectation)})

    def _quality(self, source: str, expectation: Expectation, engine: str, written: dict[str, Any]) -> None:
        self.places.note(pointer("schema", 0, "quality", len(self.of_table)), source)
        quality = {"type": "custom", "engine": engine, "implementation": written}
        self.of_table.append({"name": expectation.id, **quality, **_words(expectation)})


def unread_of_suite(document: dict[str, Any], found: Iterable[Expectation]) -> Iterator[LeftOut]:
    """Yield the parts of a suite that a contract's expectations lack; `found` are the expectations read from it."""
    yield from _unread_around(document)
    for index, expectation in enumerate(found):
        yield from _unread(expectation, document["expectations"][index], pointer("expectations", index))


def _unread_around(document: dict[str, Any]) -> Iterator[LeftOut]:
    named = next((each for each in ("name", "expectation_suite_name") if document.get(each)), "name")
    yield from unread(document, {named, "expectations"}, "")


def _unread(
    expectation: Expectation, written: dict[str, Any], source: str, *, is_schema: bool = False
) -> Iterator[LeftOut]:
    """Yield the parts of an expectation that a contract lacks."""
    name = "type" if "type" in written else "expectation_type"
    given = {key: value for key, value in written.items() if (key, value) != ("severity", "critical")}
    labels = () if is_schema else ("description", "severity")
    yield from unread(given, {name, "kwargs", "meta", *labels}, source)
    meta = written.get("meta")
    yield from unread(meta if isinstance(meta, dict) else {}, {ENGINE}, f"{source}/meta")
    known = VOCABULARY[expectation.type].arguments if expectation.type in VOCABULARY else ("column", *_TYPES)
    read = set(known) - ({"column_index"} if is_schema else set())
    yield from unread(written["kwargs"], {*read, "mostly"}, f"{source}/kwargs")


def _columns(expectation: Expectation) -> list[str]:
    kwargs = expectation.kwargs
    found = [kwargs[name] for name in _OF_ONE_COLUMN if isinstance(kwargs.get(name), str)]
    for name in _OF_SEVERAL:
        if isinstance(kwargs.get(name), (list, tuple)):
            found += [each for each in kwargs[name] if isinstance(each, str)]
    return found


def with_derived_columns(expectation: Expectation, known: Collection[str] = ()) -> Expectation:
    """Return an expectation with the names of the columns that a contract derives from its fields.

    The columns in `known` keep their name.
    """
    kwargs = dict(expectation.kwargs)
    for name in _OF_ONE_COLUMN:
        if isinstance(kwargs.get(name), str):
            kwargs[name] = _derived(kwargs[name], known)
    for name in _OF_SEVERAL:
        if isinstance(kwargs.get(name), (list, tuple)):
            kwargs[name] = [_derived(str(each), known) for each in kwargs[name]]
    return expectation.model_copy(update={"kwargs": kwargs})


def _derived(name: str, known: Collection[str]) -> str:
    return name if name in known else column_name(name)


def _words(expectation: Expectation) -> dict[str, Any]:
    words = {"description": expectation.description} if expectation.description else {}
    return words | ({"severity": "warning"} if expectation.severity is Severity.WARNING else {})


def _values(kwargs: Any) -> Any:
    """Return the set of values without nulls, because the library does not compare nulls."""
    values = kwargs.get("value_set")
    return [each for each in values if each is not None] if isinstance(values, list | tuple) else values


def _range(kwargs: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"kind": "range"}
    for side, number, strict_number, day, strict_day in (
        ("min", "minimum", "exclusive_minimum", "not_before", "after"),
        ("max", "maximum", "exclusive_maximum", "not_after", "before"),
    ):
        bound, is_strict = kwargs.get(f"{side}_value"), kwargs.get(f"strict_{side}")
        if isinstance(bound, str):
            rule[strict_day if is_strict else day] = bound
        elif bound is not None:
            rule[strict_number if is_strict else number] = bound
    return rule
