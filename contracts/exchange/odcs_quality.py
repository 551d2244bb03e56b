"""Convert quality rules of the Open Data Contract Standard to rules and expectations.

Source: Open Data Contract Standard 3.0 to 3.2, section *Data Quality*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.columns.typed import column_name
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import LeftOut, rule_id

ENGINE: Final = "tidegate"
"""The `engine` of a custom quality rule whose `implementation` is a rule or an expectation of a contract."""
_WARNINGS: Final = frozenset({"warning", "warn", "info", "low"})
_ALL_ROWS: Final = (("mustBe", 0), ("mustBeLessOrEqualTo", 0), ("mustBeLessThan", 1))
"""Limits that mean that no row may be bad."""
_LIBRARY: Final = frozenset({"greatexpectations", "great-expectations", "great_expectations"})
_OF_THE_TABLE: Final = "this concerns the whole table, and the stream sees one batch; "


@dataclass(slots=True)
class QualityReader:
    """Collects rules and expectations, and quality rules that are neither. Pointers are into the source."""

    rules: list[dict[str, Any]] = field(default_factory=list)
    expectations: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """The source pointer of each rule and expectation, by id."""
    _where: str = ""

    def read(self, listed: list[dict[str, Any]], source: str, place: str) -> None:
        """Read the quality rules of a property, or of the object (`place` is "")."""
        for index, each in enumerate(listed):
            self._where = f"{source}/{index}"
            try:
                self._read_one(each, place)
            except _NotJudgedError as error:
                self.left_out.append(LeftOut(self._where, str(error)))

    def read_bounds(self, place: str, bounds: dict[str, str], source: str) -> None:
        """Add a rule for a range of dates or timestamps, for which JSON Schema has no keyword."""
        self._where = source
        name = f"{place.rpartition('/')[2]}-in-range"
        self._add(self.rules, {"id": name, "kind": "range", "field": place, **bounds})

    def _add(self, to: list[dict[str, Any]], part: dict[str, Any]) -> None:
        """Add a rule or an expectation, unless an equal one exists.

        Its id may be any text, and is made valid and unique.
        """
        plain = rule_id(str(part["id"]), ())
        numbered = re.compile(re.escape(plain) + r"(-[0-9]+)?")
        if any({**each, "id": ""} == {**part, "id": ""} and numbered.fullmatch(each["id"]) for each in to):
            return
        taken = [each["id"] for each in (*self.rules, *self.expectations)]
        name = rule_id(plain, taken)
        to.append({**part, "id": name})
        self.places[name] = self._where

    def _read_one(self, each: dict[str, Any], place: str) -> None:
        kind = each.get("type") or "library"
        if kind == "custom":
            self._add_custom(each)
        elif kind == "library":
            self._add_metric(each, place)
        elif kind == "sql":
            raise _NotJudgedError("SQL is not run on a stream; write a rule of kind `cel`, or an expectation")
        else:
            raise _NotJudgedError("a text is not judged; write it as a rule")

    def _add_custom(self, each: dict[str, Any]) -> None:
        engine, written = str(each.get("engine")), _mapping(each.get("implementation"))
        if engine == ENGINE and "kind" in written:
            self._add(self.rules, written)
        elif engine == ENGINE and "type" in written:
            self._add(self.expectations, written)
        elif engine.lower() in _LIBRARY and (name := written.get("type") or written.get("expectation_type")):
            title = each.get("name") or each.get("id") or name.removeprefix("expect_").replace("_", "-")
            found = {"id": title, "type": name, "kwargs": written.get("kwargs", {}), **_words(each)}
            self._add(self.expectations, found)
        else:
            raise _NotJudgedError(f"a rule of the engine `{engine}` is not judged")

    def _add_metric(self, each: dict[str, Any], place: str) -> None:
        metric = str(each.get("metric") or each.get("rule"))
        make = _METRICS.get(metric)
        if make is None:
            reason = f"the standard does not define the metric `{metric}`; write a rule"
            raise _NotJudgedError(_REFUSED.get(metric, reason))
        if not place:
            raise _NotJudgedError(f"the metric `{metric}` needs a property")
        if not _holds_for_all(each):
            self._add_share(metric, each, place)
            return
        if metric == "nullValues" and "severity" in _words(each):
            reason = "a null refuses the record, because the schema requires the field and has no severity"
            self.left_out.append(LeftOut(f"{self._where}/severity", reason))
        name = str(each.get("name") or each.get("id") or f"{place.rpartition('/')[2]}-{metric}")
        for rule in make(each.get("arguments") or {}):
            self._add(self.rules, {"id": name, **rule, "field": place, **_words(each)})

    def _add_share(self, metric: str, each: dict[str, Any], place: str) -> None:
        field_name = place.removeprefix("/")
        column = column_name(field_name.replace("~1", "/").replace("~0", "~"))
        limit = each.get("mustBeLessOrEqualTo")
        if each.get("unit") != "percent" or not isinstance(limit, int | float) or "/" in field_name:
            raise _NotJudgedError(
                _OF_THE_TABLE + "only `percent` with `mustBeLessOrEqualTo` is judged, by batch"
            )
        arguments = each.get("arguments") or {}
        listed = arguments.get("validValues")
        values = [value for value in listed if value is not None] if isinstance(listed, list) else []
        kwargs: dict[str, Any] = {}
        match metric:
            case "nullValues":
                kind = "expect_column_values_to_not_be_null"
            case "invalidValues" if values:
                kind, kwargs = "expect_column_values_to_be_in_set", {"value_set": values}
            case "invalidValues" if arguments.get("pattern"):
                kind, kwargs = "expect_column_values_to_match_regex", {"regex": arguments["pattern"]}
            case _:
                raise _NotJudgedError(f"a share of `{metric}` is not judged by batch")
        mostly = round(1 - limit / 100, 12)
        name = str(each.get("name") or each.get("id") or f"{field_name}-{metric}")
        kwargs = {"column": column, **kwargs, "mostly": mostly}
        self._add(self.expectations, {"id": name, "type": kind, "kwargs": kwargs, **_words(each)})


class _NotJudgedError(ValueError):
    """A quality rule that cannot be converted; the message is the reason."""


def _words(each: dict[str, Any]) -> dict[str, Any]:
    words = {"description": each["description"]} if each.get("description") else {}
    return words | ({"severity": "warning"} if str(each.get("severity")).lower() in _WARNINGS else {})


def _mapping(written: Any) -> dict[str, Any]:
    if isinstance(written, str):
        try:
            written = read_yaml("implementation", written).value
        except ContractError:
            return {}
    return written if isinstance(written, dict) else {}


def _valid(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    values = arguments.get("validValues")
    rules: list[dict[str, Any]] = []
    if isinstance(values, list):
        listed = [value for value in values if value is not None]
        rules.append({"kind": "one_of", "values": listed} if listed else {})
    if isinstance(arguments.get("pattern"), str):
        rules.append({"kind": "matches", "pattern": f"^(?:{arguments['pattern']})$"})
    if not rules or {} in rules:
        raise _NotJudgedError("`invalidValues` needs the argument `validValues` or `pattern`")
    return rules


def _missing(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    values = arguments.get("missingValues")
    listed = [value for value in values if value is not None] if isinstance(values, list) else []
    if not listed:
        raise _NotJudgedError("`missingValues` needs the argument `missingValues` with a value")
    nulls = {"nulls": "violate"} if isinstance(values, list) and None in values else {}
    return [{"kind": "forbidden", "values": listed, **nulls}]


def forbids_nulls(listed: list[dict[str, Any]]) -> bool:
    """Return whether any quality rule of a property forbids nulls; the schema then requires the field."""
    return any(
        str(each.get("metric") or each.get("rule")) == "nullValues" and _holds_for_all(each)
        for each in listed
        if isinstance(each, dict)
    )


def _holds_for_all(each: dict[str, Any]) -> bool:
    return each.get("unit", "rows") == "rows" and any(each.get(name) == limit for name, limit in _ALL_ROWS)


_METRICS: Final[dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]]] = {
    "nullValues": lambda _arguments: [],  # no rule, because the schema requires the field
    "invalidValues": _valid,
    "validValues": _valid,
    "missingValues": _missing,
}
_REFUSED: Final = {
    "nullCheck": "the standard does not define the metric `nullCheck`; write `required: true` or the metric `nullValues`",
    "duplicateValues": _OF_THE_TABLE + "use a primary key and upserts",
    "duplicateCount": _OF_THE_TABLE + "use a primary key and upserts",
    "rowCount": _OF_THE_TABLE + "write an expectation about the rows of a batch",
}


def as_quality(written: dict[str, Any]) -> dict[str, Any]:
    """Return a rule or an expectation of a contract as a custom quality rule."""
    name = {"name": written["id"], "description": written.get("description")}
    plain = json.loads(json.dumps(written))
    return {
        "type": "custom",
        **{key: value for key, value in name.items() if value},
        "severity": written.get("severity", "error"),
        "engine": ENGINE,
        "implementation": plain,
    }
