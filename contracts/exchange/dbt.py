"""Convert models of dbt (`schema.yml`) to the Open Data Contract Standard (ODCS).

Every key of a model is either converted or listed as left out.

Source: dbt 1.11, model properties: `columns`, `constraints`, `data_tests`; packages dbt_utils and dbt_expectations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.converted import (
    SourcePlaces,
    is_known_type,
    logical_type,
    mapping,
    sequence,
    type_of_rule,
    unjudged_size,
    unread,
)
from tidegate.contracts.exchange.imported import LeftOut, pointer

_ONE_COLUMN: Final = "expect_column_"
_RANGE: Final = "accepted_range"
_MODEL: Final = frozenset({"name", "description", "columns", "constraints", "data_tests", "tests"})
_COLUMN: Final = _MODEL - {"columns"} | {"data_type"}
_TESTS: Final = ("data_tests", "tests")
_LABELS: Final = frozenset({"name", "description", "severity"})
_OF_EVERY_TEST: Final = frozenset({"config", "arguments", "test_name", "type"})
_SEVERITIES: Final = frozenset({"warn", "error"})


def convert_dbt(document: dict[str, Any]) -> tuple[dict[str, Any], SourcePlaces, list[LeftOut]]:
    """Return the document as one of the standard, the sources of its parts, and the parts left out.

    Raises ContractError for a document that does not have the form of dbt's models, or for duplicate columns.
    """
    converter = _Converter()
    converter.left_out += unread(document, {"version", "models"}, "")
    models = converter.named(document.get("models"), "/models")
    names = [str(each["name"]) for _, each in models]
    converted = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": names[0] if len(names) == 1 else "dbt",
        "version": "1.0.0",
        "status": "active",
        "schema": [converter.model(at, source, each) for at, (source, each) in enumerate(models)],
    }
    converter.places.note("/schema", "/models")
    return converted, converter.places, converter.left_out


@dataclass(frozen=True, slots=True)
class _Test:
    """A test or constraint of a column: its arguments and settings, which are one mapping for a constraint."""

    name: str
    source: str
    given: dict[str, Any]
    given_at: str
    arguments: dict[str, Any]
    config: dict[str, Any]

    @property
    def labels(self) -> dict[str, Any]:
        """Return the name, description and severity of the test, as keys of a quality rule."""
        severity = str(self.config.get("severity", self.given.get("severity", "error"))).lower()
        return {"severity": severity} | {
            name: self.given[name] for name in ("name", "description") if self.given.get(name)
        }

    def why_not_judged(self) -> str | None:
        """Return why records cannot be judged by the test as written; None if they can."""
        settings = self.given | self.config
        if settings.get("where") or settings.get("row_condition") or self.arguments.get("row_condition"):
            return f"`{self.name}` with a condition is not judged; write a rule of kind `cel`"
        if str(settings.get("enabled", True)).lower() == "false":
            return f"`{self.name}` is switched off by `enabled`"
        if not self.name.endswith(_RANGE) and "{{" in str(self.own()):
            return f"`{self.name}` has an expression `{{{{ }}}}`, which only dbt can evaluate"
        return None

    def own(self) -> dict[str, Any]:
        """Return the arguments that only this kind of test has."""
        others = _OF_EVERY_TEST | _LABELS
        return {name: value for name, value in self.arguments.items() if name not in others}

    def place(self, argument: str) -> str:
        """Return the pointer to an argument of the test."""
        within = "/arguments" if argument in (self.given.get("arguments") or {}) else ""
        return f"{self.given_at}{within}/{argument}"

    def unread(self, read: Collection[str], labels: Collection[str] = _LABELS) -> Iterator[LeftOut]:
        """Yield the parts of the test other than the arguments in `read` and the `labels`."""
        given = {
            name: value
            for name, value in self.given.items()
            if (name, value) != ("severity", "error")  # the default
        }
        yield from unread(given, {*_OF_EVERY_TEST, *read, *labels}, self.given_at)
        yield from unread(
            mapping(self.given.get("arguments"), self.given_at), read, f"{self.given_at}/arguments"
        )
        config = {
            name: value for name, value in self.config.items() if (name, value) != ("severity", "error")
        }
        yield from unread(config, set(labels) & {"severity"}, f"{self.given_at}/config")
        if (severity := self.labels["severity"]) not in _SEVERITIES:
            place = f"{self.given_at}/config" if "severity" in self.config else self.given_at
            yield LeftOut(f"{place}/severity", f"the severity `{severity}` is not known; records are refused")


class _Converter:
    """Converts models one by one, and collects the sources of their parts, and the parts left out."""

    def __init__(self) -> None:
        self.places = SourcePlaces()
        self.left_out: list[LeftOut] = []
        self._untyped: list[LeftOut] = []
        """Tests of the current column that give it no type; left out unless another test does."""

    def named(self, written: Any, source: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the items of a list that have a name, with their pointers; list the others as left out."""
        found = []
        for at, each in enumerate(sequence(written, source)):
            if isinstance(each, dict) and each.get("name"):
                found.append((f"{source}/{at}", each))
            else:
                self._leave(f"{source}/{at}", "it has no name")
        return found

    def _columns(self, model: dict[str, Any], source: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the columns of a model with their pointers; parts of columns, such as `payload.a`, are left out."""
        found = []
        for where, each in self.named(model.get("columns"), f"{source}/columns"):
            name = str(each["name"])
            if "." in name and each.get("quote") is not True:
                parts = pointer(*name.split("."))
                self._leave(where, f"`{name}` is a part of a column; write rules for the pointer {parts}")
            else:
                found.append((where, each))
        return found

    def model(self, index: int, source: str, model: dict[str, Any]) -> dict[str, Any]:
        """Return the schema object of a model."""
        place = pointer("schema", index)
        self.places.note(place, source)
        self.left_out += unread(model, _MODEL, source)
        properties = [
            self._property(each, f"{place}/properties/{at}", where)
            for at, (where, each) in enumerate(self._columns(model, source))
        ]
        named: dict[str, dict[str, Any]] = {}
        for at, each in enumerate(properties):
            if each["name"] in named:
                where = self.places.of(f"{place}/properties/{at}")
                raise ContractError.at(where, f"another column is named `{each['name']}`; rename one of them")
            named[each["name"]] = each
        for at, each in enumerate(sequence(model.get("constraints"), f"{source}/constraints")):
            where = f"{source}/constraints/{at}"
            keys = mapping(each, where).get("columns") or []
            if each.get("type") == "primary_key" and set(keys) <= named.keys():
                for position, key in enumerate(keys, 1):
                    named[key] |= {"primaryKey": True, "primaryKeyPosition": position}
                self.left_out += unread(each, {"type", "columns"}, where)
            else:
                self._leave(where, f"a constraint `{each.get('type')}` of the model is not judged")
        for word in _TESTS:
            for at, each in enumerate(sequence(model.get(word), f"{source}/{word}")):
                where = f"{source}/{word}/{at}"
                self._leave(where, f"the test `{self._test(each, where).name}` of the model is not judged")
        return {"name": model["name"], **self._description(model, source), "properties": properties}

    def _description(self, part: dict[str, Any], source: str) -> dict[str, Any]:
        """Return the description of a model or column, unless only dbt can evaluate its text."""
        text = part.get("description")
        if "{{" in str(text):
            self._leave(
                f"{source}/description", f"only dbt can evaluate `{text}`; write the description yourself"
            )
            return {}
        return {"description": text} if text else {}

    def _property(self, column: dict[str, Any], place: str, source: str) -> dict[str, Any]:
        self.places.note(place, source)
        self.left_out += unread(column, _COLUMN, source)
        written = column.get("data_type")
        if written is not None and not is_known_type(written):
            self._leave(f"{source}/data_type", f"the type `{written}` is not known; any value passes")
        self.left_out += unjudged_size(written, f"{source}/data_type")
        found: dict[str, Any] = {"name": column["name"], **logical_type(written), "quality": []}
        found |= self._description(column, source)
        for at, each in enumerate(sequence(column.get("constraints"), f"{source}/constraints")):
            where = f"{source}/constraints/{at}"
            given = mapping(each, where)
            self._add(found, _Test(str(given.get("type")), where, given, where, given, {}), place)
        for word in _TESTS:
            for at, each in enumerate(sequence(column.get(word), f"{source}/{word}")):
                self._add(found, self._test(each, f"{source}/{word}/{at}"), place)
        self.left_out += [] if "logicalType" in found else self._untyped
        self._untyped = []
        return found

    def _add(self, found: dict[str, Any], test: _Test, place: str) -> None:
        """Add one test or constraint to a property, or list it as left out."""
        if (reason := test.why_not_judged()) is not None:
            self._leave(test.source, reason)
            return
        quality, given = found["quality"], test.arguments
        plain = test.name.rpartition(".")[2]
        self.places.note(f"{place}/quality/{len(quality)}", test.source)
        match plain:
            case "not_null":
                found["required"] = True
                self.left_out += test.unread((), ())
            case "primary_key":
                found["primaryKey"] = True
                self.left_out += test.unread((), ())
            case "unique":
                found["unique"] = True
                self.places.note(f"{place}/unique", test.source)
            case "accepted_values":
                valid = {"validValues": given.get("values") or []}
                if given.get("values"):
                    self._imply_type(found, test, {"kind": "one_of", "values": given["values"]}, "values")
                quality.append({"metric": "invalidValues", "mustBe": 0, "arguments": valid, **test.labels})
                self.left_out += test.unread({"values"})
            case "relationships" | "foreign_key":
                found["relationships"] = [{"to": str(given.get("to"))}]
                self.places.note(f"{place}/relationships", test.source)
            case _ if plain == _RANGE:
                self._add_range(found, test)
            case _ if plain.startswith(_ONE_COLUMN):
                written = {"type": plain, "kwargs": {"column": found["name"], **test.own()}}
                custom = {"type": "custom", "engine": "greatExpectations", "implementation": written}
                quality.append(custom | test.labels)
                self.left_out += test.unread(test.own())
            case _:
                self._leave(test.source, f"`{test.name}` is not judged; write it as a rule")

    def _add_range(self, found: dict[str, Any], test: _Test) -> None:
        """Add a range of numbers; list any other bound, such as a column or an expression, as left out."""
        rule: dict[str, Any] = {"kind": "range"}
        for name, inside, outside in (
            ("min_value", "minimum", "exclusive_minimum"),
            ("max_value", "maximum", "exclusive_maximum"),
        ):
            bound = test.arguments.get(name)
            if isinstance(bound, int | float) and not isinstance(bound, bool):
                rule[inside if test.arguments.get("inclusive", True) else outside] = bound
            elif bound is not None:
                reason = f"`{bound}` is no number, so no value is judged by it; write a rule"
                self._leave(test.place(name), reason)
        if len(rule) > 1:
            bound = "min_value" if {"minimum", "exclusive_minimum"} & rule.keys() else "max_value"
            self._imply_type(found, test, rule, bound)
            found["quality"].append(_rule(rule, found["name"], test.labels))
            self.left_out += test.unread({"min_value", "max_value", "inclusive"})
        else:
            self._leave(test.source, f"`{test.name}` has no bound that is a number; write a rule")

    def _imply_type(self, found: dict[str, Any], test: _Test, rule: dict[str, Any], argument: str) -> None:
        """Set the type of an untyped column to the one that a rule implies.

        The rule alone accepts values of other types.
        """
        if "logicalType" in found:
            return
        # A type refuses records, which a test that warns does not.
        implied = {} if test.labels["severity"] == "warn" else type_of_rule(rule)
        if not implied:
            reason = "it gives the column no type, so values of other types pass; give it a `data_type`"
            self._untyped.append(LeftOut(test.place(argument), reason))
        found |= implied

    def _test(self, written: Any, source: str) -> _Test:
        """Return a test, which is written as a name, or as a mapping from the name to the arguments."""
        name, given, given_at = str(written), {}, source
        if isinstance(written, dict) and isinstance(written.get("test_name"), str):
            name, given = written["test_name"], written
        elif isinstance(written, dict) and written:
            name = str(
                next((each for each in written if each not in _OF_EVERY_TEST | _LABELS), next(iter(written)))
            )
            given_at = source + pointer(name)
            given = mapping(written[name], given_at)
            self.left_out += unread(written, {name}, source)
        arguments = given | mapping(given.get("arguments"), f"{given_at}/arguments")
        return _Test(
            name, source, given, given_at, arguments, mapping(given.get("config"), f"{given_at}/config")
        )

    def _leave(self, source: str, reason: str) -> None:
        self.left_out.append(LeftOut(source, reason))


def _rule(rule: dict[str, Any], column: str, labels: dict[str, Any]) -> dict[str, Any]:
    written = {"id": labels.get("name") or f"{column}-in-range", **rule, "field": pointer(column)}
    written |= {"description": labels["description"]} if "description" in labels else {}
    written |= {"severity": "warning"} if labels["severity"] == "warn" else {}
    return {"type": "custom", "engine": "tidegate", "implementation": written}
