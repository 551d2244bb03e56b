"""Fixes: what each step does to a record, what stays byte for byte, and mistakes in the document."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.errors import ContractError
from tidegate.contracts.fix.apply import CompiledFix
from tidegate.contracts.fix.load import load_fix, parse_fix
from tidegate.contracts.fix.model import MOST_STEPS


def fix(*steps: dict[str, Any]) -> CompiledFix:
    document = json.dumps({"fix": "a-fix", "steps": list(steps)})
    return CompiledFix(parse_fix(document, name="fix.json"))


def applied(record: str, *steps: dict[str, Any]) -> str:
    patched = fix(*steps).apply(record.encode())
    assert patched is not None
    return patched.decode()


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ({"action": "set", "field": "/a", "value": None}, '{"a":999}', '{"a":null}'),
        ({"action": "set", "field": "/b/c", "value": "x"}, '{"b":{}}', '{"b":{"c":"x"}}'),
        ({"action": "set", "field": "/b/c", "value": "x"}, '{"b":1}', '{"b":1}'),
        ({"action": "set", "field": "/l/*/c", "value": 1}, '{"l":[{},{"c":2}]}', '{"l":[{"c":1},{"c":1}]}'),
        ({"action": "set", "field": "/t/*", "value": "x"}, '{"t":{"a":1}}', '{"t":{"a":1}}'),
        ({"action": "set", "field": "/t/*/c", "value": 1}, '{"t":{"*":{}}}', '{"t":{"*":{}}}'),
        ({"action": "set", "field": "/*", "value": "x"}, '{"a":1}', '{"a":1}'),
        ({"action": "default", "field": "/t/*", "value": "x"}, '{"t":{}}', '{"t":{}}'),
        ({"action": "default", "field": "/t/*/*", "value": 0}, '{"t":[[null],{}]}', '{"t":[[0],{}]}'),
        ({"action": "default", "field": "/a", "value": 0}, "{}", '{"a":0}'),
        ({"action": "default", "field": "/a", "value": 0}, '{"a":null}', '{"a":0}'),
        ({"action": "default", "field": "/a", "value": 0}, '{"a":{"b":1}}', '{"a":{"b":1}}'),
        (
            {"action": "map", "field": "/a", "values": [{"from": 999, "to": None}]},
            '{"a":999.0}',
            '{"a":null}',
        ),
        ({"action": "map", "field": "/a", "values": [{"from": 1, "to": 2}]}, '{"a":true}', '{"a":true}'),
        (
            {"action": "map", "field": "/a", "values": [{"from": "F", "to": "female"}]},
            '{"a":"F"}',
            '{"a":"female"}',
        ),
        (
            {"action": "map", "field": "/t/*", "values": [{"from": "", "to": None}]},
            '{"t":["",1]}',
            '{"t":[null,1]}',
        ),
        ({"action": "map", "field": "/a", "values": [{"from": None, "to": 0}]}, "{}", "{}"),
        ({"action": "cast", "field": "/a", "to": "integer"}, '{"a":"42"}', '{"a":42}'),
        ({"action": "cast", "field": "/a", "to": "integer"}, '{"a":42.0}', '{"a":42}'),
        ({"action": "cast", "field": "/a", "to": "integer"}, '{"a":42.5}', '{"a":42.5}'),
        ({"action": "cast", "field": "/a", "to": "integer"}, '{"a":1e999999}', '{"a":1e999999}'),
        ({"action": "cast", "field": "/a", "to": "integer"}, '{"a":"042"}', '{"a":"042"}'),
        ({"action": "cast", "field": "/a", "to": "number"}, '{"a":"1.50"}', '{"a":1.50}'),
        ({"action": "cast", "field": "/a", "to": "number"}, '{"a":"NaN"}', '{"a":"NaN"}'),
        ({"action": "cast", "field": "/a", "to": "string"}, '{"a":1.50}', '{"a":"1.50"}'),
        ({"action": "cast", "field": "/a", "to": "string"}, '{"a":true}', '{"a":"true"}'),
        ({"action": "cast", "field": "/a", "to": "string"}, '{"a":[1]}', '{"a":[1]}'),
        ({"action": "cast", "field": "/a", "to": "boolean"}, '{"a":"False"}', '{"a":false}'),
        ({"action": "cast", "field": "/a", "to": "boolean"}, '{"a":1}', '{"a":true}'),
        ({"action": "rename", "field": "/a", "to": "z"}, '{"a":1,"b":2}', '{"z":1,"b":2}'),
        ({"action": "rename", "field": "/a", "to": "b"}, '{"a":1,"b":2}', '{"a":1,"b":2}'),
        ({"action": "drop", "field": "/a"}, '{"a":1,"b":2}', '{"b":2}'),
        ({"action": "drop", "field": "/x"}, '{"a":1}', '{"a":1}'),
        ({"action": "trim", "field": "/a"}, '{"a":" x\\t"}', '{"a":"x"}'),
        ({"action": "date", "field": "/a", "form": "DD.MM.YYYY"}, '{"a":"31.12.2025"}', '{"a":"2025-12-31"}'),
        ({"action": "date", "field": "/a", "form": "DD.MM.YYYY"}, '{"a":"31.02.2025"}', '{"a":"31.02.2025"}'),
        (
            {"action": "date", "field": "/a", "form": "MM/DD/YYYY HH:mm", "zone": "+02:00"},
            '{"a":"12/31/2025 23:59"}',
            '{"a":"2025-12-31T23:59:00+02:00"}',
        ),
    ],
)
def test_a_step_changes_what_it_says(step: dict[str, Any], before: str, after: str) -> None:
    assert applied(before, step) == after


@pytest.mark.parametrize("index", ["²", "٣", "9" * 5_000, "-1", "3"])
def test_a_step_whose_place_is_no_item_leaves_the_other_steps(index: str) -> None:
    step = {"action": "set", "field": f"/l/{index}", "value": 0}
    assert applied('{"l":[1,2,3],"a":" x"}', step, {"action": "trim", "field": "/a"}) == (
        '{"l":[1,2,3],"a":"x"}'
    )


def test_steps_follow_each_other_and_conditions_are_those_of_the_rules() -> None:
    steps = [
        {"action": "set", "field": "/l/*/net", "value": 0, "when": {"field": "/l/*/kind", "equals": "free"}},
        {
            "action": "default",
            "field": "/note",
            "value": "mended",
            "when": {"field": "/l/0/net", "equals": 0},
        },
    ]
    record = '{"l":[{"kind":"free","net":null},{"kind":"sold","net":null}]}'
    assert applied(record, *steps) == (
        '{"l":[{"kind":"free","net":0},{"kind":"sold","net":null}],"note":"mended"}'
    )


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"equals": 1}, True),
        ({"equals": None}, False),
        ({"one_of": [3, 1.0]}, True),
        ({"not_equals": 1}, False),
        ({"not_equals": 2}, True),
        ({"not_equals": None}, True),
        ({"present": True}, True),
    ],
)
def test_a_step_without_its_condition_changes_nothing(when: dict[str, Any], *, holds: bool) -> None:
    step = {"action": "set", "field": "/a", "value": "new", "when": {"field": "/b", **when}}
    assert ("new" in applied('{"b":1}', step)) is holds


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"no json",
        b"\xff\xfe",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        b"[" * 100_000,
        b'{"b": 1}',
    ],
)
def test_what_a_fix_cannot_read_or_change_stays_byte_for_byte(value: bytes | None) -> None:
    steps = {"action": "set", "field": "/b", "value": 1}, {"action": "trim", "field": "/x"}
    assert fix(*steps).apply(value) == value


def test_numbers_that_are_not_touched_stay_as_they_were_written() -> None:
    record = '{"a":" x ","b":1.10,"c":123456789012345678901234567890,"d":1E+2,"e":-0.0}'
    assert applied(record, {"action": "trim", "field": "/a"}) == record.replace(" x ", "x")


def test_the_schema_id_before_a_payload_stays() -> None:
    framed = b"\0\0\0\0\x07" + b'{"a":1}'
    assert fix({"action": "drop", "field": "/a"}).apply(framed) == b"\0\0\0\0\x07{}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abcd"), json_values))
def test_a_fix_of_one_field_leaves_all_others_as_they_are(record: dict[str, Any]) -> None:
    before = json.dumps(record)
    after = applied(before, {"action": "set", "field": "/e", "value": "e"})
    assert json.loads(after) == {**record, "e": "e"}


def test_a_fix_is_the_same_after_it_was_pickled_and_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "fix.yaml"
    path.write_text(
        "fix: age-sentinel\nsteps:\n  - action: map\n    field: /age\n    values: [{from: 999, to: null}]\n"
    )
    loaded = load_fix(path)
    again = parse_fix(loaded.text, name="again.json")
    assert again == loaded
    assert again.fingerprint == loaded.fingerprint
    copy = pickle.loads(pickle.dumps(CompiledFix(loaded)))  # noqa: S301 - pickled here
    assert copy.apply(b'{"age":999}') == b'{"age":null}'
    assert parse_fix(loaded.text.replace("999", "998"), name="x.json").fingerprint != loaded.fingerprint


field_names = st.sampled_from(["/a", "/b/c", "/l/*/a"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([1.0, -0.5]) | st.text(max_size=3)
new_values = st.fixed_dictionaries({"value": scalars})
conditions = st.one_of(
    st.fixed_dictionaries({"equals": scalars}),
    st.fixed_dictionaries({"one_of": st.lists(scalars, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"not_equals": scalars}),
    st.just({"present": True}),
)
steps = st.builds(
    lambda field, action, when: {"field": field, **action, **when},
    field_names,
    st.one_of(
        new_values.map(lambda new: {"action": "set", **new}),
        new_values.map(lambda new: {"action": "default", **new}),
        st.lists(
            st.fixed_dictionaries({"from": scalars, "to": scalars}),
            min_size=1,
            max_size=3,
            unique_by=lambda each: (isinstance(each["from"], bool), each["from"]),
        ).map(lambda values: {"action": "map", "values": values}),
        st.sampled_from(["integer", "number", "string", "boolean"]).map(
            lambda to: {"action": "cast", "to": to}
        ),
        st.just({"action": "rename", "to": "z"}),
        st.just({"action": "drop"}),
        st.just({"action": "trim"}),
        st.sampled_from(["Z", "+02:00"]).map(
            lambda zone: {"action": "date", "form": "DD.MM.YYYY", "zone": zone}
        ),
    ),
    conditions.map(lambda test: {"when": {"field": "/c", **test}}) | st.just({}),
)


@given(st.lists(steps, min_size=1, max_size=3), st.dictionaries(st.sampled_from("abcl"), json_values))
def test_a_fix_reads_back_from_its_text_and_its_pickle(
    listed: list[dict[str, Any]], record: dict[str, Any]
) -> None:
    written = parse_fix(json.dumps({"fix": "f", "steps": listed}), name="fix.json")
    again = parse_fix(written.text, name="again.json")
    assert (again, again.text) == (written, written.text)
    given_tests, read_tests = (
        [each.when.model_fields_set if each.when else None for each in one.steps] for one in (written, again)
    )
    assert given_tests == read_tests  # which test is given shows in no value
    compiled = CompiledFix(written)
    copy = pickle.loads(pickle.dumps(compiled))  # noqa: S301 - pickled here
    value = json.dumps(record).encode()
    assert copy.apply(value) == compiled.apply(value)


@pytest.mark.parametrize("name", ["one_of", "present"])
def test_only_values_of_a_condition_may_be_null(name: str) -> None:
    step = {"action": "trim", "field": "/a", "when": {"field": "/b", name: None}}
    with pytest.raises(ContractError, match="give exactly one of"):
        fix(step)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("steps: []", "1:1: `fix` is missing"),
        ("fix: x\nsteps: []", "2:1: `steps` needs at least 1 item"),
        (
            "fix: x\nsteps:\n  - action: sett\n    field: /a",
            "3:13: unknown action `sett`; did you mean `set`?",
        ),
        ("fix: x\nsteps:\n  - action: drop\n    feild: /a", "unknown key `feild`; did you mean `field`?"),
        ("fix: x\nsteps:\n  - action: drop\n    field: a", "must be a JSON Pointer"),
        ("fix: x\nsteps:\n  - action: drop\n    field: /a/*", "4:12: name a member of an object"),
        (
            "fix: x\nsteps:\n  - {action: date, field: /a, form: DD.MM}",
            "a form has YYYY, MM and DD once each",
        ),
        (
            "fix: x\nsteps:\n  - {action: date, field: /a, form: 'YYYY-MM-DD HH'}",
            "a time of day has HH and mm",
        ),
        (
            "fix: x\nsteps:\n  - {action: date, field: /a, form: DD.MM.YYYY HH:mm, zone: CET}",
            "3:61: `zone` must be Z or an offset such as +02:00, not `CET`",
        ),
        (
            "fix: x\nsteps:\n  - {action: date, field: /a, form: DD.MM.YYYY HH:mm, zone: '+24:00'}",
            "`zone` must be Z or an offset such as +02:00, not `+24:00`",
        ),
        (
            "fix: x\nsteps:\n  - {action: drop, field: /a, when: {field: /b}}",
            "give exactly one of `equals`, `one_of`, `not_equals` and `present`",
        ),
        (
            "fix: x\nsteps:\n  - {action: trim, field: /a/*/b, when: {field: /c/*/d, present: true}}",
            "goes through other arrays than the field",
        ),
        ("fix: x\nsteps:\n  - {action: trim, field: /**/a}", "3:27: `**` is for fields of rules only"),
        ("fix: x\nsteps:\n  - {action: trim, field: /a/**/b}", "3:27: `**` is for fields of rules only"),
        (
            "fix: x\nsteps:\n  - {action: trim, field: /a, when: {field: /**/b, present: true}}",
            "3:45: `**` is for fields of rules only",
        ),
        (
            "fix: x\nsteps:\n  - {action: map, field: /a, values: [{from: 999, to: null}, {from: 999.0, to: 0}]}",
            "3:69: the value is given twice; delete one",
        ),
        ("- 1", "a fix is a mapping"),
    ],
)
def test_mistakes_are_located(document: str, message: str) -> None:
    with pytest.raises(ContractError) as raised:
        parse_fix(document, name="fix.yaml")
    assert message in str(raised.value)


def test_true_is_not_one_and_text_is_no_number() -> None:
    values = [{"from": each, "to": place} for place, each in enumerate((1, True, "1", None))]
    assert applied('{"a":[1.0,true,"1"]}', {"action": "map", "field": "/a/*", "values": values}) == (
        '{"a":[0,1,2]}'
    )


def test_a_fix_is_bounded() -> None:
    steps = [{"action": "drop", "field": "/a"}] * (MOST_STEPS + 1)
    with pytest.raises(ContractError, match="at most 100"):
        parse_fix(json.dumps({"fix": "x", "steps": steps}), name="fix.json")
    with pytest.raises(ContractError, match="larger than 256 KiB"):
        parse_fix(" " * 300_000, name="fix.json")
