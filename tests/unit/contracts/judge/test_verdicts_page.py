"""Runs every row of every table of docs/explanation/verdicts.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests import documents
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition, Verdict

PAGE = (Path(__file__).parents[4] / "docs" / "explanation" / "verdicts.md").read_text(encoding="utf-8")
RULE_FIELDS = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])


def rows(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    assert len(cells) > 2, heading
    return cells[2:]


def code(cell: str) -> str:
    return re.fullmatch(r"`(.*)`", cell)[1]  # type: ignore[index] # a cell without code is a mistake in the page


def value_of(cell: str) -> bytes | None:
    return eval(code(cell), {"__builtins__": {}})  # type: ignore[no-any-return] # noqa: S307 - our own page


def said(verdict: Verdict) -> str:
    if verdict.disposition is Disposition.ACCEPTED:
        return "accepted"
    assert verdict.disposition is Disposition.QUARANTINED
    first = verdict.violations[0]
    return f"{first.stage} `{first.code}`"


def check(plan: EnforcementPlan, value: bytes | None, *, typed: bool = False) -> str:
    """Judge with the fast path and without, among other values and alone, and give what all of them say."""
    strict = documents.strict(plan)
    verdict = strict.explain(value, typed=typed)
    assert verdict == plan.explain(value, typed=typed)
    stages = {violation.stage for violation in verdict.violations}
    for kind in (pa.binary(), pa.large_binary()):
        values = pa.array([b"", value, b"{}", None, value], kind)
        for way in (plan, strict):
            judged = (way.judge_typed(values) if typed else way.judge(values)).to_pylist()
            for each in (judged[1], judged[4]):
                assert each["disposition"] == verdict.disposition
                assert {slot.stage for slot in plan.failed_slots(each["failed"])} == stages
    return said(verdict)


@pytest.mark.parametrize(("what", "schema", "value", "verdict"), rows("JSON"))
def test_json(make_plan: Any, what: str, schema: str, value: str, verdict: str) -> None:
    assert verdict == check(make_plan(json.loads(code(schema))), value_of(value)), what


@pytest.mark.parametrize(("what", "framing", "tombstones", "value", "verdict"), rows("Framing and null"))
def test_framing(make_plan: Any, what: str, framing: str, tombstones: str, value: str, verdict: str) -> None:
    plan = make_plan(True, framing=code(framing), tombstones=code(tombstones))
    assert verdict == check(plan, value_of(value), typed=True), what


@pytest.mark.parametrize(("what", "schema", "value", "verdict"), rows("Avro"))
def test_avro(make_plan: Any, what: str, schema: str, value: str, verdict: str) -> None:
    assert verdict == check(make_plan(json.loads(code(schema)), kind="avro"), value_of(value)), what


WRITTEN = PAGE.partition("\n## Records that name their schema\n")[2]
VERSIONS = dict(re.findall(r"^\* (\d): `?(.*?)`?$", WRITTEN.partition("\n## ")[0], re.MULTILINE))


def test_the_versions_of_the_page_are_read() -> None:
    assert list(VERSIONS) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("what", "framing", "value", "header", "verdict"), rows("Records that name their schema")
)
def test_written(make_plan: Any, what: str, framing: str, value: str, header: str, verdict: str) -> None:
    rule = json.loads(WRITTEN.partition("rule is `")[2].partition("`")[0])
    kinds = {
        number: "json-schema" if text == "a JSON Schema" else "avro" for number, text in VERSIONS.items()
    }
    writers = tuple(
        WriterSchema(int(number), UUID(int=int(number)), kinds[number], text)  # type: ignore[arg-type] # one of the two
        for number, text in VERSIONS.items()
    )
    plan = make_plan(json.loads(VERSIONS["1"]), rule, kind="avro", framing=code(framing), columns=[COLUMN_A])
    plan = plan.with_writers(WriterSchemas(writers, is_current=True))
    bytes_of, header_of = value_of(value), value_of(header)
    headers = pa.array([header_of] * 30, pa.binary())
    for way in (plan, documents.strict(plan)):
        judged = way.judge_typed(pa.array([bytes_of] * 30, pa.binary()), headers=headers).to_pylist()
        explained = way.explain(bytes_of, header_of, typed=True)
        assert {each["disposition"] for each in judged} == {explained.disposition}, what
        assert verdict == said(explained), what


COLUMN_A = {"name": "a", "from": "/a", "type": "long"}


@pytest.mark.parametrize(("rule", "value", "verdict"), rows("Rules and nulls"))
def test_rules(make_plan: Any, rule: str, value: str, verdict: str) -> None:
    plan = make_plan(RULE_FIELDS, json.loads(code(rule)), formats="annotate")
    assert verdict == check(plan, value_of(value)).removesuffix(" `rule-0`")


@pytest.mark.parametrize(("kind", "value", "verdict"), rows("Columns"))
def test_columns(make_plan: Any, kind: str, value: str, verdict: str) -> None:
    columns = [{"name": "v", "from": "/v", "type": code(kind)}]
    plan = make_plan({"properties": {"v": True}}, columns=columns)
    field = value_of(value)
    assert field is not None
    assert verdict == check(plan, b'{"v":' + field + b"}", typed=True).removesuffix(" `v`")
