"""Names that an expression or a schema uses and that nothing declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.lint.lint import check_spelling, lint

LINE = {
    "type": "object",
    "properties": {"net": {"type": "number"}, "gross": {"type": "number"}},
    "additionalProperties": False,
}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "notes": {"type": "object", "additionalProperties": {"$ref": "#/$defs/note"}},
        "extras": {"type": "object"},
    },
    "required": ["status"],
    "additionalProperties": False,
    "$defs": {"line": LINE, "note": NOTE},
}
OPEN = {
    **CLOSED,
    "additionalProperties": True,
    "$defs": {
        each: {**part, "additionalProperties": True} for each, part in (("line", LINE), ("note", NOTE))
    },
}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "status", "type": ["null", "string"]},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "L",
                    "fields": [{"name": "net", "type": "double"}, {"name": "gross", "type": "double"}],
                },
            },
        },
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {
            "name": "notes",
            "type": {
                "type": "map",
                "values": {"type": "record", "name": "N", "fields": [{"name": "text", "type": "string"}]},
            },
        },
    ],
}


def document(schema: Any, *rules: dict[str, Any], kind: str = "json-schema") -> dict[str, Any]:
    return {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": "1.0.0",
        "topic": "a.b",
        "schema": {"type": kind, "definition": schema},
        "rules": [{"id": f"r{index}", "kind": "cel", **rule} for index, rule in enumerate(rules)],
    }


def found(schema: Any, *rules: dict[str, Any], kind: str = "json-schema") -> tuple[list[str], list[str]]:
    text = json.dumps(document(schema, *rules, kind=kind))
    spelling = check_spelling(parse_contract(text, name="a.json", read_schema=None).contract)
    return (
        [f"{each.pointer} {each.message}" for each in spelling.errors],
        [f"{each.pointer} {each.message}" for each in spelling.warnings],
    )


def undeclared(pointer: str, near: str) -> str:
    return f"/rules/0/expr the schema declares no field `{pointer}`; did you mean `{near}`?"


MISSPELT = [
    ({"expr": 'this["staus"] == "a"'}, undeclared("/staus", "/status")),
    ({"expr": "has(this.lines[0].nett)"}, undeclared("/lines/0/nett", "/lines/0/net")),
    ({"expr": "this.lines[0].nett > 1.0"}, undeclared("/lines/0/nett", "/lines/0/net")),
    ({"expr": "this.lines.all(x, x.nett > 1.0)"}, undeclared("/lines/*/nett", "/lines/*/net")),
    ({"expr": "this.lines.exists(x, x.net > 1.0 && x.grss > 1.0)"}, undeclared("/lines/*/grss", "/lines/*/gross")),
    ({"expr": "this.lines.exists_one(x, x['nett'] == 1.0)"}, undeclared("/lines/*/nett", "/lines/*/net")),
    ({"expr": "this.lines.map(x, x.nett).size() > 0"}, undeclared("/lines/*/nett", "/lines/*/net")),
    ({"expr": "this.lines.filter(x, x.net > 0.0).all(y, y.grss > 0.0)"}, undeclared("/lines/*/grss", "/lines/*/gross")),
    ({"expr": "this.lines[size(this.lines) - 1].nett > 1.0"}, undeclared("/lines/*/nett", "/lines/*/net")),
    ({"expr": "this.lines.all(x, this['staus'] == 'a')"}, undeclared("/staus", "/status")),
    ({"expr": "{'a': this.lines[0].nett}['a'] > 0.0"}, undeclared("/lines/0/nett", "/lines/0/net")),
    ({"expr": "!('staus' in this)"}, undeclared("/staus", "/status")),
    ({"expr": "this.lines.exists(x, 'nett' in x)"}, undeclared("/lines/*/nett", "/lines/*/net")),
    ({"expr": "dyn(this).staus == 'a'"}, undeclared("/staus", "/status")),
    ({"expr": "this.notes['a'].txt == 'b'"}, undeclared("/notes/a/txt", "/notes/a/text")),
    ({"expr": "value.grss > 0.0", "field": "/lines/*"}, undeclared("/lines/*/grss", "/lines/*/gross")),
    ({"expr": "parent.grss > value", "field": "/lines/*/net"}, undeclared("/lines/*/grss", "/lines/*/gross")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "message"), MISSPELT)
def test_an_unknown_member_is_an_error_in_a_closed_object(rule: dict[str, Any], message: str) -> None:
    assert found(CLOSED, rule) == ([message], [])


@pytest.mark.parametrize(("rule", "message"), MISSPELT)
def test_an_unknown_member_is_a_warning_in_an_open_object(rule: dict[str, Any], message: str) -> None:
    assert found(OPEN, rule) == ([], [message])


@pytest.mark.parametrize(("rule", "message"), MISSPELT)
def test_an_avro_record_is_closed(rule: dict[str, Any], message: str) -> None:
    assert found(AVRO, rule, kind="avro") == ([message], [])


@pytest.mark.parametrize(
    "rule",
    [
        {"expr": 'this["status"] == "a"'},
        {"expr": "this.labels.anything == 'a' && this.labels['else'] == 'b'"},
        {"expr": "this.labels.all(k, k.size() > 1)"},
        {"expr": "'anything' in this.labels && 'status' in this && 'a' in ['b'] && 'x' in {'x': 1}"},
        {"expr": "this.lines.all(x, x.net in [1.0, 2.0]) && 'any' in this.notes"},
        {"expr": "this.lines.all(x, x.net > 1.0 && x['gross'] > 1.0)"},
        {"expr": "this.lines.map(x, {'a': x.net}).all(y, y.a > 1.0)"},
        {"expr": "this.lines.map(x, x.net).all(y, y > 1.0)"},
        {"expr": "value.net > parent.size()", "field": "/lines/*"},
    ],
)
@pytest.mark.parametrize("kind", ["json-schema", "avro"])
def test_what_is_declared_or_computed_is_left_alone(rule: dict[str, Any], kind: str) -> None:
    assert found(CLOSED if kind == "json-schema" else AVRO, rule, kind=kind) == ([], [])


def test_alternatives_are_closed_when_each_of_them_is() -> None:
    rule = {"expr": 'this.x["nett"] > 0.0'}
    other = {"type": "object", "properties": {"gros": {"type": "number"}}, "unevaluatedProperties": False}
    message = undeclared("/x/nett", "/x/net")
    closed = {"type": "object", "properties": {"x": {"anyOf": [LINE, other, {"type": "null"}]}}}
    assert found(closed, rule) == ([message], [])
    some_open = {"type": "object", "properties": {"x": {"anyOf": [LINE, {"type": "object"}]}}}
    assert found(some_open, rule) == ([], [message])


@pytest.mark.parametrize(
    ("part", "place", "message"),
    [
        ({"fromat": "date"}, "/fromat", "unknown keyword `fromat` refuses nothing; did you mean `format`?"),
        ({"minlength": 1}, "/minlength", "unknown keyword `minlength` refuses nothing; did you mean `minLength`?"),
        ({"nullable": True}, "/nullable", "unknown keyword `nullable` refuses nothing"),
        ({"format": "datetime"}, "/format", "unknown format `datetime` refuses nothing; did you mean `date-time`?"),
        ({"additionalItems": False}, "/additionalItems", "keyword `additionalItems` has no meaning in draft 2020-12, which this schema is written in"),
        ({"properties": {"age": {}}, "required": ["aeg"]}, "/required/0", "required property `aeg` is declared nowhere; did you mean `age`?"),
    ],
)  # fmt: skip
def test_words_of_a_schema(part: dict[str, Any], place: str, message: str) -> None:
    schema = {"type": "object", "properties": {"x": {"items": part}}}
    assert found(schema) == ([], [f"/schema/definition/properties/x/items{place} {message}"])


@pytest.mark.parametrize(
    "part",
    [
        {"x-unit": "kg", "connect.name": "x", "confluent:tags": ["PII"]},
        {"title": "a", "$comment": "b", "examples": [1], "deprecated": True, "default": 2},
        {"format": "int64"},
        {"enum": [{"fromat": 1}], "const": {"minlength": 1}, "default": {"fromat": 1}},
        {"properties": {"fromat": {}, "minlength": {}}, "required": ["fromat"]},
        {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "required": ["a"]},
        {"patternProperties": {"^a": {}}, "required": ["ab"]},
    ],
)
def test_words_that_are_known_or_somebodys_own(part: dict[str, Any]) -> None:
    assert found({"type": "object", "properties": {"x": part}}) == ([], [])


def test_at_most_a_hundred_unknown_words_of_a_schema_are_reported() -> None:
    schema = {"type": "object", "properties": {f"f{n}": {"foreign": 1} for n in range(1000)}}
    assert len(found(schema)[1]) == 100


def test_lint_refuses_the_errors_and_locates_the_warnings(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    path.write_text(json.dumps(document(CLOSED, MISSPELT[0][0]), indent=1))
    with pytest.raises(ContractError) as refused:
        lint(path)
    assert [problem.message for problem in refused.value.problems] == [MISSPELT[0][1].split(" ", 1)[1]]
    path.write_text(json.dumps(document(OPEN, MISSPELT[0][0]), indent=1))
    (warning,) = lint(path).warnings
    assert (warning.message, warning.file) == (MISSPELT[0][1].split(" ", 1)[1], str(path))
    assert warning.line is not None


FILE = """apiVersion: tidegate/v1
kind: DataContract
id: a.b
version: 1.0.0
topic: a.b
schema:
  type: json-schema
  definition:
    type: object
    properties:
      age: {type: %s}
"""


@pytest.mark.parametrize(
    ("written", "meant"), [("int", "integer"), ("float", "number"), ("[int, 'null']", "integer")]
)
def test_a_type_of_another_language_is_the_only_finding_and_leads_to_its_name(
    tmp_path: Path, written: str, meant: str
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(FILE % written)
    with pytest.raises(ContractError) as caught:
        lint(path)
    (problem,) = caught.value.problems
    assert problem.pointer.startswith("/schema/definition/properties/age/type")
    assert problem.message.endswith(f"did you mean `{meant}`?")
    assert problem.line == 11


def test_a_contract_for_a_topic_needs_no_columns(tmp_path: Path) -> None:
    """A field of several types has no natural column, and the Kafka sink has none at all."""
    path = tmp_path / "c.yaml"
    path.write_text(FILE % "[string, number, object, array]")
    assert lint(path).warnings == ()
