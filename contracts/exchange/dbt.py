"""Models of dbt (`schema.yml`), read as a document of the Open Data Contract Standard.

Source: dbt 1.11, model properties: `columns`, `constraints`, `data_tests`; packages dbt_utils and dbt_expectations.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.exchange.converted import Places, is_known_type, logical_type, unread
from tidegate.contracts.exchange.imported import LeftOut, pointer

_ONE_COLUMN: Final = "expect_column_"
_TESTED: Final = frozenset({"name", "description", "constraints", "data_tests", "tests"})


def convert_dbt(document: dict[str, Any]) -> tuple[dict[str, Any], Places, list[LeftOut]]:
    """Return the document in the standard, the places of its parts, and the parts that have no counterpart."""
    converter = _Converter()
    converter.left_out += unread(document, {"version", "models"}, "")
    models = converter.named(document, "models", "")
    names = [str(each["name"]) for each in models.values()]
    converted = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": names[0] if len(names) == 1 else "dbt",
        "version": "1.0.0",
        "status": "active",
        "schema": [converter.model(index, *each) for index, each in enumerate(models.items())],
    }
    converter.places.note("/schema", "/models")
    return converted, converter.places, converter.left_out


class _Converter:
    """Converts models one by one; collects the places of their parts, and the parts that are left out."""

    def __init__(self) -> None:
        self.places = Places()
        self.left_out: list[LeftOut] = []

    def named(self, part: dict[str, Any], key: str, source: str) -> dict[str, dict[str, Any]]:
        """Return the elements of a list by their places; those without a name are left out."""
        found = {}
        for at, each in enumerate(part.get(key) or []):
            place = f"{source}/{key}/{at}"
            if isinstance(each, dict) and each.get("name"):
                found[place] = each
            else:
                self._leave(place, "it has no name")
        return found

    def model(self, index: int, source: str, model: dict[str, Any]) -> dict[str, Any]:
        """Return the schema object of a model."""
        place = pointer("schema", index)
        self.places.note(place, source)
        self.left_out += unread(model, _TESTED | {"columns"}, source)
        properties = [
            self._property(each, f"{place}/properties/{at}", where)
            for at, (where, each) in enumerate(self.named(model, "columns", source).items())
        ]
        named = {each["name"]: each for each in properties}
        for at, each in enumerate(model.get("constraints") or []):
            keys = each.get("columns") or []
            if each.get("type") == "primary_key" and set(keys) <= named.keys():
                for position, key in enumerate(keys, 1):
                    named[key] |= {"primaryKey": True, "primaryKeyPosition": position}
            else:
                self._leave(
                    f"{source}/constraints/{at}",
                    f"a constraint `{each.get('type')}` of the model is not judged",
                )
        for word in ("data_tests", "tests"):
            for at, each in enumerate(model.get(word) or []):
                self._leave(
                    f"{source}/{word}/{at}", f"the test `{_named(each)[0]}` of the model is not judged"
                )
        return {"name": model["name"], "description": model.get("description"), "properties": properties}

    def _property(self, column: dict[str, Any], place: str, source: str) -> dict[str, Any]:
        self.places.note(place, source)
        self.left_out += unread(column, _TESTED | {"data_type"}, source)
        written = column.get("data_type")
        if written is not None and not is_known_type(written):
            self._leave(f"{source}/data_type", f"the type `{written}` is not known; any value passes")
        found: dict[str, Any] = {"name": column["name"], **logical_type(written), "quality": []}
        found |= {"description": column["description"]} if column.get("description") else {}
        for at, each in enumerate(column.get("constraints") or []):
            self._add(found, str(each.get("type")), each, f"{source}/constraints/{at}", place)
        for word in ("data_tests", "tests"):
            for at, each in enumerate(column.get(word) or []):
                name, arguments = _named(each)
                self._add(found, name, arguments, f"{source}/{word}/{at}", place)
        return found

    def _add(
        self, found: dict[str, Any], name: str, arguments: dict[str, Any], source: str, place: str
    ) -> None:
        """Add one test or constraint to a property."""
        labels = {
            "severity": str(
                (arguments.get("config") or {}).get("severity", arguments.get("severity", "error"))
            )
        }
        labels |= {"name": arguments["name"]} if arguments.get("name") else {}
        given = {**arguments, **(arguments.get("arguments") or {})}
        quality = found["quality"]
        plain = name.rpartition(".")[2]
        if given.get("where") or (given.get("config") or {}).get("where"):
            self._leave(source, f"`{name}` with `where` is not judged; write a rule of kind `cel`")
            return
        self.places.note(f"{place}/quality/{len(quality)}", source)
        match plain:
            case "not_null" if labels["severity"].lower() == "warn":
                self._leave(source, "`not_null` as a warning is not judged; write a rule of kind `cel`")
            case "not_null":
                found["required"] = True
            case "primary_key":
                found["primaryKey"] = True
            case "unique":
                found["unique"] = True
                self.places.note(f"{place}/unique", source)
            case "accepted_values":
                valid = {"validValues": given.get("values") or []}
                quality.append({"metric": "invalidValues", "mustBe": 0, "arguments": valid, **labels})
            case "relationships" | "foreign_key":
                found["relationships"] = [{"to": str(given.get("to"))}]
                self.places.note(f"{place}/relationships", source)
            case "accepted_range":
                quality += self._range_rule(given, found["name"], labels, source)
            case _ if plain.startswith(_ONE_COLUMN):
                kwargs = {
                    key: value
                    for key, value in given.items()
                    if key not in {"config", "name", "arguments", "severity"}
                }
                written = {"type": plain, "kwargs": {"column": found["name"], **kwargs}}
                quality.append(
                    {"type": "custom", "engine": "greatExpectations", "implementation": written, **labels}
                )
            case _:
                self._leave(source, f"`{name}` is not judged; write it as a rule")

    def _range_rule(
        self, given: dict[str, Any], column: str, labels: dict[str, Any], source: str
    ) -> list[dict[str, Any]]:
        """Return the rule of an accepted range, if it has a bound that is a number."""
        inclusive = given.get("inclusive", True)
        names = ("minimum", "maximum") if inclusive else ("exclusive_minimum", "exclusive_maximum")
        bounds = {}
        for name, word in zip(names, ("min_value", "max_value"), strict=True):
            value = given.get(word)
            if isinstance(value, int | float):
                bounds[name] = value
            elif value is not None:
                self._leave(source, f"the bound `{word}: {value}` is no number, and is not judged")
        return [_rule({"kind": "range", **bounds}, column, labels)] if bounds else []

    def _leave(self, source: str, reason: str) -> None:
        self.left_out.append(LeftOut(source, reason))


def _named(test: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a test, which is a name, or a mapping from the name to the arguments."""
    if isinstance(test, dict) and test:
        if isinstance(test.get("test_name"), str):
            return test["test_name"], test
        name, arguments = next(iter(test.items()))
        return str(name), arguments if isinstance(arguments, dict) else {}
    return str(test), {}


def _rule(rule: dict[str, Any], column: str, labels: dict[str, Any]) -> dict[str, Any]:
    is_warning = labels["severity"].lower() == "warn"
    written = {"id": labels.get("name") or f"{column}-in-range", **rule, "field": pointer(column)}
    written |= {"severity": "warning"} if is_warning else {}
    return {"type": "custom", "engine": "tidegate", "implementation": written}
