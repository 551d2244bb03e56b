"""TIDEGATE_FASTPATH switches off all generated code and every shortcut, and changes no verdict."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests import documents
from tidegate.contracts import fastpath
from tidegate.contracts.judge.plan import EnforcementPlan

FOLDER = str(Path(fastpath.__file__).parent)
RULES = [
    {"id": "range", "kind": "range", "field": "/n", "minimum": 0},
    {"id": "lowered", "kind": "cel", "expr": "this.n < 10"},
    {"id": "library", "kind": "cel", "expr": "[this.n].all(n, n != 5)"},
]
JSON_PARTS: dict[str, Any] = {
    "definition": {"type": "object", "properties": {"n": {"type": "integer"}, "x": {"maximum": 9.5}}},
    "columns": [{"name": "n", "from": "/n", "type": "long"}, {"name": "x", "from": "/x", "type": "json"}],
}
MASKED_PARTS = JSON_PARTS | {"mask": {"/x": "redact"}}
JSON_VALUES = [b'{"n": %d, "x": %d}' % (n, x) for n, x in ((1, 1), (-1, 1), (5, 2), (11, 0), (1, 10))]
AVRO_PARTS: dict[str, Any] = {
    "definition": {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]},
    "kind": "avro",
}
AVRO_VALUES = [b"\x02", b"\x01", b"\x0a", b"\x16", b""] * 20


def called(plan: EnforcementPlan, values: pa.Array) -> tuple[list[list[dict[str, Any]]], set[str]]:
    """Judge in every way; return the verdicts, and the files and generated texts whose functions were called."""
    files: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        judged = [plan.judge(values), plan.judge_typed(values)]
        explained = [plan.explain(value).disposition for value in values.to_pylist()]
    finally:
        sys.setprofile(None)
    assert explained == judged[0].field("disposition").to_pylist()
    return [each.to_pylist() for each in judged], {
        name for name in files if name.startswith((FOLDER, "<contract>"))
    }


@pytest.mark.parametrize(
    ("parts", "values"),
    [(JSON_PARTS, JSON_VALUES), (MASKED_PARTS, JSON_VALUES), (AVRO_PARTS, AVRO_VALUES)],
    ids=["json", "masked", "avro"],
)
def test_off_calls_nothing_of_the_fast_path_and_gives_the_same_verdicts(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, Any], values: list[bytes]
) -> None:
    array = pa.array(values, pa.binary())
    on, generated = called(documents.plan_with(**parts, rules=RULES), array)
    monkeypatch.setenv("TIDEGATE_FASTPATH", "off")
    off, nothing = called(documents.plan_with(**parts, rules=RULES), array)
    assert "<contract>" in generated
    assert nothing == set()
    assert off == on


def test_a_plan_brings_the_setting_to_where_it_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    array = pa.array(JSON_VALUES, pa.binary())
    monkeypatch.setenv("TIDEGATE_FASTPATH", "off")
    sent = pickle.dumps(documents.plan_with(**JSON_PARTS, rules=RULES))
    monkeypatch.delenv("TIDEGATE_FASTPATH")
    assert called(pickle.loads(sent), array)[1] == set()  # noqa: S301 - our own plan
    again = pickle.loads(pickle.dumps(documents.plan_with(**JSON_PARTS, rules=RULES)))  # noqa: S301 - our own plan
    assert called(again, array)[1] != set()


def test_another_setting_names_the_variable_and_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_FASTPATH", "false")
    with pytest.raises(ValueError, match="TIDEGATE_FASTPATH is `false`; write `on` or `off`"):
        documents.plan_with(True)
