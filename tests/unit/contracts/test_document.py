"""From a file to a contract and back, and the messages to its author."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.document.fingerprint import canonical_bytes, fingerprint
from tidegate.contracts.document.load import (
    MAX_YAML_BYTES,
    LoadedContract,
    dump_contract,
    load_contract,
    parse_contract,
)
from tidegate.contracts.document.rule_model import Condition, Forbidden, RequiredWhen
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.lint.lint import lint

HEAD = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.admissions
version: 1.2.0
topic: hospital.admissions
schema: {type: json-schema, definition: {properties: {age: {type: integer}, admitted: {type: string}}}}
"""
EXAMPLES = sorted(Path("schemas/examples").glob("*/contract.yaml"))


def parse(text: str) -> LoadedContract:
    return parse_contract(text, name="c.yaml", read_schema=None)


def problems(text: str, name: str = "c.yaml") -> list[str]:
    with pytest.raises(ContractError) as caught:
        parse_contract(text, name=name, read_schema=None)
    return str(caught.value).splitlines()


def assert_one_problem(marked: str, expected: str) -> None:
    """Assert the only problem of a document: its place, marked by ¶, and how its message begins."""
    before, _, after = marked.partition("¶")
    (message,) = problems(before + after)
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    assert message.startswith(f"c.yaml:{line}:{column}: {expected}")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_contracts_and_survive_writing(path: Path) -> None:
    loaded = lint(path)
    written = dump_contract(loaded.contract)
    again = parse_contract(written, name="body", read_schema=None).contract
    assert again == loaded.contract
    assert fingerprint(again) == fingerprint(loaded.contract)
    assert dump_contract(again) == written


def test_dates_and_numbers_are_what_was_written() -> None:
    rule = parse(
        HEAD + "rules: [{id: r, kind: forbidden, field: /a, values: [1900-01-01, 999, 0.5, no, null]}]"
    )
    assert rule.contract.rules == (
        Forbidden(id="r", kind="forbidden", field="/a", values=("1900-01-01", 999, 0.5, "no", None)),
    )


def test_yaml_and_json_say_the_same() -> None:
    document = {
        "version": "1.2.0",
        "id": "hospital.admissions",
        "topic": "hospital.admissions",
        "kind": "DataContract",
        "apiVersion": "tidegate/v1",
        "status": "active",  # the default, said
        "schema": {
            "definition": {
                "properties": {"admitted": {"type": "string"}, "age": {"type": "integer"}},
            },
            "type": "json-schema",
        },
    }
    as_json = parse_contract(json.dumps(document, indent="\t"), name="c.json", read_schema=None)
    assert as_json.contract == parse(HEAD).contract
    assert fingerprint(as_json.contract) == fingerprint(parse(HEAD).contract)
    # The order of properties, which derived columns follow, is kept nevertheless.
    assert b'"admitted"' in dump_contract(as_json.contract).partition(b'"age"')[0]


def test_canonical_bytes_are_sorted_and_without_noise() -> None:
    assert canonical_bytes(parse(HEAD).contract).decode() == (
        '{"apiVersion":"tidegate/v1","id":"hospital.admissions","kind":"DataContract","schema":{"definition":'
        '{"properties":{"admitted":{"type":"string"},"age":{"type":"integer"}}},"type":"json-schema"},'
        '"topic":"hospital.admissions","version":"1.2.0"}'
    )
    assert fingerprint(parse(HEAD).contract) != fingerprint(parse(HEAD + "domain: hospital").contract)


def test_a_condition_on_null_is_kept() -> None:
    text = HEAD + "rules: [{id: r, kind: required_when, field: /age, when: {field: /admitted, equals: null}}]"
    written = dump_contract(parse(text).contract)
    again = parse_contract(written, name="body", read_schema=None).contract
    assert json.loads(written)["rules"][0]["when"] == {"field": "/admitted", "equals": None}
    match again.rules:
        case (RequiredWhen(when=Condition() as when),):
            assert when.model_fields_set == {"field", "equals"}
        case _:
            pytest.fail("not the rule that was written")


def test_a_json_document_may_name_its_meta_schema() -> None:
    document = {**json.loads(dump_contract(parse(HEAD).contract)), "$schema": "tidegate-v1.schema.json"}
    assert (
        parse_contract(json.dumps(document), name="c.json", read_schema=None).contract == parse(HEAD).contract
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("¶serverity: x", "unknown key `serverity`; use one of status, description, domain, team, framing, "),
        ("¶descripton: x", "unknown key `descripton`; did you mean `description`?"),
        ("on_violation: ¶Drop", "`on_violation` cannot be `Drop`; did you mean `drop`?"),
        ("on_violation: ¶3", "`on_violation` must be one of fail, drop, alert, quarantine, not the number 3"),
        ("status: ¶gone", "`status` cannot be `gone`; use one of draft, active, deprecated, retired"),
        ("compatibility: ¶backward", "`compatibility` cannot be `backward`; did you mean `BACKWARD`?"),
        ("team: {¶nam: Flow}", "unknown key `nam`; did you mean `name`?"),
        ("team: {name: Flow, ¶alert_chanel: flow}", "unknown key `alert_chanel`; did you mean `alert_channel`?"),
        ("error_budget: {ratio: 0.1, ¶min_recods: 5}", "unknown key `min_recods`; did you mean `min_records`?"),
        ("error_budget: {ratio: 0.1, ¶version: 5}", "unknown key `version`; use one of min_records, window_records, action"),
        ("columns: [{name: a, from: /age, ¶typ: int}]", "unknown key `typ`; did you mean `type`?"),
        ("reference_sets: {wards: {values: [a], ¶descripton: x}}", "unknown key `descripton`; did you mean `description`?"),
        ("reference_sets: {kind: {¶vals: [a]}}", "unknown key `vals`; did you mean `values`?"),
        ("producer_headers: [{name: a, ¶publik: true}]", "unknown key `publik`; did you mean `public`?"),
        ("¶team: {contact: x}", "`name` is missing"),
        ("team: ¶Flow", "`team` must be a mapping, not the text `Flow`"),
        ("¶rules:", "`rules` must be a list, not empty"),
        ("rules: [¶3]", "this must be a mapping, not the number 3"),
        ("rules: [{kind: ¶rang}]", "unknown kind `rang`; did you mean `range`?"),
        ("rules: [{kind: ¶x}]", "unknown kind `x`; use one of forbidden, range, freshness, ordered, matches, one_of, "),
        ("rules: [{¶knd: range}]", "unknown key `knd`; did you mean `kind`?"),
        ("rules: [¶{id: r}]", "`kind` is missing; use one of forbidden, range, freshness, ordered, matches, one_of, "),
        ("classification: {¶age: pii}", "the key must be a JSON Pointer such as /address/postcode, not `age`; did you mean `/age`?"),
        ("columns: [{name: a, from: ¶a.b, type: int}]", "`from` must be a JSON Pointer such as /address/postcode, not `a.b`; did you mean `/a/b`?"),
        ("columns: [{name: a, from: ¶$.Species, type: int}]", "`from` must be a JSON Pointer such as /address/postcode, not `$.Species`; did you mean `/Species`?"),
        ("columns: [{name: a, from: ¶$/a/b, type: int}]", "`from` must be a JSON Pointer such as /address/postcode, not `$/a/b`; did you mean `/a/b`?"),
        ("columns: [{name: ¶1a, from: /a, type: int}]", "`name` must be a name of letters, digits and `_` that begins with a letter, not `1a`"),
        ("error_budget: {ratio: ¶2}", "`ratio` must be at most 1"),
        ("error_budget: {ratio: 0.1, min_records: ¶0}", "`min_records` must be at least 1"),
        ("error_budget: {ratio: ¶'0.1'}", "`ratio` must be a number, not the text `0.1`"),
        ("domain: ¶true", "`domain` must be text, not true; put it in quotes"),
        ("¶domain: [a]", "`domain` must be text, not a list"),
        ("¶id: other", "key `id` is given twice; the first is at 3:1"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_sentence(line: str, expected: str) -> None:
    assert_one_problem(HEAD + line, expected)


RULE = "rules:\n- {id: r, %s}"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("kind: range, field: ¶age, minimum: 0", "`field` must be a JSON Pointer such as /address/postcode, not `age`; did you mean `/age`?"),
        ("kind: range, ¶fild: /age, minimum: 0", "unknown key `fild`; did you mean `field`?"),
        ("kind: range, field: /age, minimum: ¶'0'", "`minimum` must be a number, or in quotes a duration such as PT15M or a number that no double is, not `0`"),
        ("kind: range, field: /age, minimum: 0, ¶serverity: error", "unknown key `serverity`; did you mean `severity`?"),
        ("kind: range, field: /age, minimum: 0, severity: ¶eror", "`severity` cannot be `eror`; did you mean `error`?"),
        ("kind: range, field: /age, minimum: 2, maximum: ¶1", "no value lies between `minimum` and `maximum`"),
        ("kind: range, field: /age, minimum: 1, exclusive_maximum: ¶1", "no value lies between `minimum` and `exclusive_maximum`"),
        ("kind: range, field: /age, minimum: 1, exclusive_minimum: ¶1", "`minimum` and `exclusive_minimum` bound the same side; keep one of them"),
        ("kind: range, field: /age, minimum: 1, after: ¶1900-01-01", "`after` bounds dates and `minimum` numbers; a range has one or the other"),
        ("kind: range, field: /age, after: 1900-01-01, before: ¶1900-01-01", "no value lies between `after` and `before`"),
        ("kind: range, field: /age, after: 2020-01-01T00:00:00Z, before: ¶2020-01-01T00:30:00+01:00", "no value lies between `after` and `before`"),
        ("kind: range, field: /age, after: ¶2020", "`after` must be text, not the number 2020; put it in quotes"),
        ("kind: forbidden, field: /age, ¶values: []", "`values` needs at least 1 item"),
        ("kind: forbidden, field: /age, values: [¶{}]", "this must be text or a number or true or false, not a mapping"),
        ("kind: ordered, ¶fields: [/age]", "`fields` needs at least 2 items"),
        ("kind: ordered, fields: [/age, ¶/age]", "field `/age` is used twice"),
        ("kind: required_when, field: /age, ¶when: {field: /admitted}", "give exactly one of `equals`, `one_of`, `not_equals` and `present`"),
        ("kind: required_when, field: /age, ¶when: {field: /admitted, equals: null, present: true}", "give exactly one of `equals`, `one_of`, `not_equals` and `present`"),
        ("kind: required_when, field: /age, when: {field: /admitted, ¶presnt: true}", "unknown key `presnt`; did you mean `present`?"),
        ("kind: required_when, field: /age, when: {field: /admitted, present: ¶false}", "`present` must be `true`, not false"),
        ("kind: cel, expr: this.age > 0, severity: warning, on_violation: ¶drop", "a warning is always written and counted; remove `on_violation`, or make the severity `error`"),
    ],
)  # fmt: skip
def test_one_mistake_in_a_rule_is_one_sentence(rule: str, expected: str) -> None:
    assert_one_problem(HEAD + RULE % rule, expected)


def test_a_problem_of_a_whole_rule_stands_where_the_rule_begins() -> None:
    assert_one_problem(
        HEAD + "rules:\n- ¶{id: r, kind: range, field: /age}",
        "a range needs a bound: `minimum`, `exclusive_minimum`, `maximum`, `exclusive_maximum`, `not_before`, ",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "rules: [{id: r, kind: cel, expr: 'true'}, {id: ¶r, kind: cel, expr: 'true'}]",
            "rule id `r` is used twice",
        ),
        (
            "columns: [{name: a, from: /a, type: int}, {name: ¶A, from: /a, type: int}]",
            "column `a` is used twice",
        ),
        ("primary_key: [age, ¶age]", "column `age` is used twice"),
        (
            "consumers: [{id: los}, {id: ¶los}]",
            "consumer id `los` is used twice",
        ),
    ],
)
def test_contradictions_between_parts(lines: str, expected: str) -> None:
    assert_one_problem(HEAD + lines, expected)


def test_every_mistake_is_reported_at_once_in_document_order(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    messages = linted(
        path,
        HEAD
        + """\
rules:
  - {id: one, kind: rnge, field: /age}
  - {id: two, kind: range, field: /aeg, minimum: 0}
  - {id: two, kind: range, field: /age, minimum: 3, maximum: 2}
  - {id: two, kind: range, field: /age, minimum: 3, seveity: error}
domian: hospital
""",
    )
    assert messages[0] == "8:21: unknown kind `rnge`; did you mean `range`?"
    assert messages[1].startswith("9:35: ")
    assert "`/age`" in messages[1]  # compiled, although the rule before is not even a rule
    assert messages[2:] == [
        "10:10: rule id `two` is used twice",
        "10:62: no value lies between `minimum` and `maximum`",
        "11:53: unknown key `seveity`; did you mean `severity`?",
        "12:1: unknown key `domian`; did you mean `domain`?",
    ]


FIVE_MISTAKES = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.admissions
version: one
topic: hospital.admissions
schema:
  type: json-schema
  definition:
    type: objct
    properties:
      age: {type: int}
      name: {minLength: "3", pattern: "(["}
      ward: {allOf: [{enum: 3}], items: {minimum: x}}
      tags: {items: {$ref: "#/nowhere"}}
    required: age
error_budget: {ratio: 3}
rules:
  - {id: one, kind: range, field: /aeg, minimum: 0}
"""


def linted(path: Path, text: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(ContractError) as caught:
        lint(path)
    return [message.removeprefix(f"{path}:") for message in str(caught.value).splitlines()]


def test_every_mistake_of_a_schema_is_reported_at_once(tmp_path: Path) -> None:
    found = linted(tmp_path / "c.yaml", FIVE_MISTAKES)
    assert found == [
        "4:10: `version` must be a semantic version such as 1.2.0, not `one`",
        "9:11: not a JSON Schema: there is no type `objct`; did you mean `object`?",
        "11:19: not a JSON Schema: there is no type `int`; did you mean `integer`?",
        '12:25: not a JSON Schema: "3" is not of type "integer"',
        '12:39: not a JSON Schema: "([" is not a "regex"',
        '13:29: not a JSON Schema: 3 is not of type "array"',
        '13:51: not a JSON Schema: "x" is not of type "number"',
        "14:28: the reference `#/nowhere` leads nowhere",
        '15:15: not a JSON Schema: "age" is not of type "array"',
        "16:23: `ratio` must be at most 1",
    ]


def test_rules_are_checked_beside_a_mistake_that_declares_no_field(tmp_path: Path) -> None:
    text = FIVE_MISTAKES.replace('      tags: {items: {$ref: "#/nowhere"}}\n', "")
    *_, last = linted(tmp_path / "c.yaml", text)
    assert last == "17:35: the schema declares no field `/aeg`; did you mean `/age`?"


@pytest.mark.parametrize("wrong", ["properties: 3", "properties: {b: 3}", "allOf: [3]", "$ref: nowhere"])
def test_a_field_that_a_wrong_part_may_declare_is_no_mistake(tmp_path: Path, wrong: str) -> None:
    text = HEAD.replace(
        "definition: {properties: {age: {type: integer}, admitted: {type: string}}", f"definition: {{{wrong}"
    )
    (only,) = linted(tmp_path / "c.yaml", text + "rules: [{id: r, kind: range, field: /b/a, minimum: 0}]")
    assert only.startswith("6:")


def test_a_schema_of_many_mistakes_is_reported_within_a_bound(tmp_path: Path) -> None:
    wrong = ", ".join(f"f{index}: {{type: int}}" for index in range(200))
    text = HEAD.replace("age: {type: integer}", wrong)
    assert len(linted(tmp_path / "c.yaml", text)) == 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", "c.yaml:1:1: a contract is a mapping; it begins with `apiVersion: tidegate/v1`"),
        (HEAD.replace("tidegate/v1", "tidegate/v2"), "c.yaml:1:13: `apiVersion` must be `tidegate/v1`, not the text `tidegate/v2`"),
        (HEAD.replace("1.2.0", "1.2"), "c.yaml:4:10: `version` must be a semantic version such as 1.2.0, not the number 1.2"),
        (HEAD.replace("1.2.0", "1.0"), "c.yaml:4:10: `version` must be a semantic version such as 1.2.0, not the number 1.0"),
        (HEAD.replace("1.2.0", "v1.2.0"), "c.yaml:4:10: `version` must be a semantic version such as 1.2.0, not `v1.2.0`"),
        (HEAD.replace("topic: ", "topc: "), "c.yaml:5:1: unknown key `topc`; did you mean `topic`?"),
        (HEAD.replace("topic: hospital.admissions\n", ""), "c.yaml:1:1: `topic` is missing"),
        (HEAD.replace("json-schema", "json"), "c.yaml:6:16: unknown type `json`; use one of json-schema, avro"),
        (HEAD.replace("json-schema, definition", "json-schema, file: a.json, definition"), "c.yaml:6:43: give the schema either by `file` or by `definition`, not by both"),
        (HEAD.replace("definition", "file: null, x"), "c.yaml:6:1: the schema is missing: name its `file`, or write it under `definition`"),
        (HEAD.replace("definition: {", "file: a.json, x: {"), "c.yaml:6:35: no file is read here; put the schema itself under `definition`"),
        (HEAD.replace("json-schema, definition", "avro, definition").replace("{properties", "3, x: {properties"), "c.yaml:6:34: `definition` must be a mapping or a list or text, not the number 3"),
    ],
)  # fmt: skip
def test_the_head_of_a_document(text: str, expected: str) -> None:
    assert problems(text)[0] == expected


@pytest.mark.parametrize("version", ["1.2", "1.0", "1", "v1.2.0", "'1.0'"])
def test_a_wrong_version_is_the_only_problem(version: str) -> None:
    text = HEAD.replace("1.2.0", f"¶{version}") + "rules: [{id: r, kind: range, field: /age, minimum: 0}]"
    assert_one_problem(text, "`version` must be a semantic version such as 1.2.0, not ")


def test_documents_are_bounded_and_unicode() -> None:
    assert problems("#" * (MAX_YAML_BYTES + 1)) == ["c.yaml:1:1: larger than 256 KiB"]
    with pytest.raises(ContractError, match=r"c\.yaml:2:4: not UTF-8; save the file in UTF-8"):
        parse_contract(b"a: 1\nb: \xff", name="c.yaml", read_schema=None)
    assert parse_contract(b"\xef\xbb\xbf" + HEAD.encode(), name="c.yaml", read_schema=None).contract.id


def test_a_body_without_a_name_is_read_by_its_first_character() -> None:
    assert problems(" {", "body") == ["body:1:3: not JSON: expected a key in double quotes"]
    assert problems("a: [", "body")[0].startswith("body:1:5: not YAML: ")


@pytest.fixture
def contract_file(tmp_path: Path) -> Path:
    folder = tmp_path / "contracts"
    folder.mkdir()
    path = folder / "contract.yaml"
    path.write_text(
        HEAD.replace(HEAD.splitlines()[5], "schema:\n  type: json-schema\n  file: schemas/age.json")
    )
    (folder / "schemas").mkdir()
    (folder / "schemas" / "age.json").write_text(
        '{\n  "properties": {\n    "age": {\n      "type": "integer"\n    }\n  }\n}'
    )
    return path


def test_numbers_of_any_size_survive() -> None:
    text = HEAD + f"rules: [{{id: r, kind: range, field: /age, maximum: 1{'0' * 4000}}}]"
    written = dump_contract(parse(text).contract)
    assert json.loads(written)["rules"][0]["maximum"] == 10**4000
    assert parse_contract(written, name="body", read_schema=None).contract == parse(text).contract


def test_bounds_that_are_no_times_are_reported_by_compiling() -> None:
    rule = "rules: [{id: r, kind: range, field: /admitted, after: soon, before: 1900-01-01}]"
    assert parse(HEAD + rule).contract.rules


def test_a_schema_file_becomes_the_definition(contract_file: Path) -> None:
    loaded = load_contract(contract_file)
    assert loaded.contract.schema_.definition == {"properties": {"age": {"type": "integer"}}}
    assert loaded.contract.schema_.file is None


def test_problems_are_located_in_the_file_that_holds_them(contract_file: Path) -> None:
    loaded = load_contract(contract_file)
    schema_file = str(contract_file.parent / "schemas" / "age.json")
    pointer = "/schema/definition/properties/age/type"
    assert loaded.locate(Problem(pointer, "m")) == Problem(pointer, "m", schema_file, 4, 15)
    assert loaded.locate(Problem("/schema/definition", "m")).file == schema_file
    assert loaded.locate(Problem("/schema/file", "m")) == Problem(
        "/schema/file", "m", str(contract_file), 8, 9
    )
    located = Problem("/topic", "m", "elsewhere", 1, 1)
    assert loaded.locate(located) is located


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("missing.json", "8:9: cannot read `missing.json`: No such file or directory"),
        ("../outside.json", "8:9: `../outside.json` is outside the contract's folder; keep the schema beside the contract"),
        ("/etc/hostname", "8:9: `/etc/hostname` is outside the contract's folder; keep the schema beside the contract"),
        ("link.json", "8:9: `link.json` is outside the contract's folder; keep the schema beside the contract"),
        ('"nul\\0.json"', "8:9: embedded null byte"),
    ],
)  # fmt: skip
def test_schema_files_that_are_not_read(contract_file: Path, file: str, expected: str) -> None:
    (contract_file.parent.parent / "outside.json").write_text("{}")
    (contract_file.parent / "link.json").symlink_to("../outside.json")
    contract_file.write_text(contract_file.read_text().replace("schemas/age.json", file))
    with pytest.raises(ContractError) as caught:
        load_contract(contract_file)
    assert str(caught.value) == f"{contract_file}:{expected}"


def test_a_broken_schema_file_does_not_hide_the_contract(contract_file: Path) -> None:
    (contract_file.parent / "schemas" / "age.json").write_text('{"properties": {"age": 1, "age": 2}, }')
    with contract_file.open("a") as stream:
        stream.write("\ndomian: x\n")
    with pytest.raises(ContractError) as caught:
        lint(contract_file)
    assert [message.partition("contracts/")[2] for message in str(caught.value).splitlines()] == [
        "contract.yaml:10:1: unknown key `domian`; did you mean `domain`?",
        "schemas/age.json:1:38: not JSON: expected a key in double quotes",
    ]


def test_a_missing_contract_file(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="cannot be read: No such file or directory"):
        load_contract(tmp_path / "none.yaml")


def test_an_avro_schema_may_be_a_name_a_union_or_a_record() -> None:
    definitions: tuple[Any, ...] = ("string", ["null", "string"], {"type": "long"})
    for definition in definitions:
        text = HEAD.replace(
            HEAD.splitlines()[5], f"schema: {json.dumps({'type': 'avro', 'definition': definition})}"
        )
        assert parse(text).contract.schema_.definition == definition
