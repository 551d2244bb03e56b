"""The official JSON-Schema-Test-Suite through the judge, in Spark's Python workers.

Each schema is a contract; what cannot be one stands in docs/explanation/verdicts.md, section Conformance, and nothing else is
left out. Only records go the quick way, and only values of a known type are decoded into typed rows. So a schema that
holds no reference is judged again as a property of a record, and once more for each type of which it refuses a
document, with that type said beside it: a document is then valid if the suite says so and it is of the type.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests import documents
from tests.conformance.suite import (
    ARCHIVE,
    DRAFTS,
    Case,
    Group,
    default_cache,
    fetch,
    licence,
    read_groups,
    written,
)
from tests.marks import is_short
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition, Stage

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "verdicts.md").read_text(encoding="utf-8")
REFERRING = {
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "id",
}
"""A schema with one of these may mean something else when it is put into another."""
ESCAPED = "properties with escaped characters"
"""Its properties, such as foo\\nbar and foo\\tbar, would all be column foo_bar: the contract has to name its columns."""

TYPES = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How a schema becomes a contract: as it is, as a property of a record, or that with a type said beside it."""

    in_record: bool = False
    type: str | None = None

    def schema(self, group: Group) -> Any:
        """Return the schema of the contract."""
        if not self.in_record:
            return group.schema
        value = group.schema
        if isinstance(value, dict):
            value = {name: part for name, part in value.items() if name != "$schema"}
        if self.type is not None:
            value = {"type": self.type, **value}
        return {
            "$schema": DRAFTS[group.draft],
            "type": "object",
            "properties": {"value": value, "number": {"type": "number"}},
            "required": ["value"],
        }

    def record(self, case: Case) -> bytes:
        """Return the document as a record."""
        return (f'{{"value": {case.document}}}' if self.in_record else case.document).encode()

    def is_valid(self, case: Case) -> bool:
        """Return whether the record fits the schema."""
        return case.is_valid and self.type in {None, type_of(case)}


AS_IT_IS = Form()
IN_RECORD = Form(in_record=True)


@dataclass(frozen=True, slots=True)
class Judged:
    """A schema of the suite as a contract, with its plan."""

    group: Group
    form: Form
    plan: EnforcementPlan

    @property
    def values(self) -> list[bytes]:
        """The documents as records."""
        return [self.form.record(case) for case in self.group.cases]

    @property
    def cases(self) -> list[tuple[str, bool]]:
        """What each record is, and whether it is valid."""
        return [
            (f"{self.group}: {case.description} ({self.form})", self.form.is_valid(case))
            for case in self.group.cases
        ]


@dataclass(frozen=True, slots=True)
class Refused:
    """A schema of the suite that makes no contract: the document, and what is wrong with it."""

    group: Group
    document: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row of the page's table of what is left out, for one draft."""

    draft: str
    file: str
    schema: str
    cases: int


@dataclass(frozen=True, slots=True)
class Suite:
    """Every schema of the suite: judged, or refused."""

    judged: list[Judged]
    refused: list[Refused]


@pytest.fixture(scope="module")
def archive() -> Path:
    return fetch(default_cache())


@pytest.fixture(scope="module")
def suite(archive: Path) -> Suite:
    found = Suite([], [])
    for group in read_groups(archive):
        try:
            found.judged.append(Judged(group, AS_IT_IS, compiled(group, AS_IT_IS)))
        except ContractError as error:
            found.refused.append(Refused(group, document_of(group, AS_IT_IS), error.problems))
        else:
            found.judged.extend(
                Judged(group, form, compiled(group, form)) for form in forms_in_records(group)
            )
    return found


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, suite: Suite) -> list[list[dict[str, Any]]]:
    """Verdicts of each judged schema's cases: one job, each plan brought to a worker as the job brings it.

    `make test` takes only the schemas as they are to Spark, and judges the other forms here.
    """
    apart = [each for each in suite.judged if each.form.in_record] if is_short() else []
    there = [each for each in suite.judged if not (is_short() and each.form.in_record)]

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            plans, values = batch.column("plan"), batch.column("values")
            judged = [
                pickle.loads(plan.as_py()).judge(records.values)  # noqa: S301 - our own plan
                for plan, records in zip(plans, values, strict=True)
            ]
            yield pa.record_batch(
                {
                    "number": batch.column("number"),
                    "process": pa.array([os.getpid()] * len(judged), pa.int64()),
                    "verdicts": pa.array([each.to_pylist() for each in judged], verdicts_type),
                }
            )

    verdicts_type = pa.list_(pa.struct([("disposition", pa.int8()), ("failed", pa.binary())]))
    table = pa.table(
        {
            "number": pa.array(range(len(there)), pa.int64()),
            "plan": pa.array([pickle.dumps(each.plan) for each in there], pa.binary()),
            "values": pa.array([each.values for each in there], pa.list_(pa.binary())),
        }
    )
    result = "number long, process long, verdicts array<struct<disposition: byte, failed: binary>>"
    rows = spark.createDataFrame(table).repartition(4).mapInArrow(judge, result).toArrow().sort_by("number")
    assert rows["number"].to_pylist() == list(range(len(there)))
    assert os.getpid() not in rows["process"].to_pylist()
    found = dict(zip(map(id, there), rows["verdicts"].to_pylist(), strict=True))
    found |= {
        id(each): each.plan.judge(pa.array(each.values, pa.large_binary())).to_pylist() for each in apart
    }
    return [found[id(each)] for each in suite.judged]


def test_every_case_gets_the_verdict_of_the_suite(suite: Suite, verdicts: list[list[dict[str, Any]]]) -> None:
    differing = [
        case
        for each, found in zip(suite.judged, verdicts, strict=True)
        for (case, is_valid), verdict in zip(each.cases, found, strict=True)
        if said(each.plan, verdict) != expected(is_valid=is_valid)
    ]
    assert differing == []


def test_the_judge_says_the_same_in_spark_and_here_and_explains_it(
    suite: Suite, verdicts: list[list[dict[str, Any]]]
) -> None:
    for each, found in zip(suite.judged, verdicts, strict=True):
        values = pa.array(each.values, pa.large_binary())
        for plan in (each.plan, documents.strict(each.plan)):
            assert plan.judge(values).to_pylist() == found, each
        for value, verdict in zip(each.values, found, strict=True):
            explained = each.plan.explain(value)
            stages = {violation.stage for violation in explained.violations}
            assert (explained.disposition, stages) == said(each.plan, verdict), (each, value)


def test_the_quick_way_accepts_nothing_that_the_suite_calls_invalid(suite: Suite) -> None:
    valid: Counter[Form] = Counter()
    accepted: Counter[Form] = Counter()
    for each in suite.judged:
        quick = documents.fast_path(each.plan).acceptance
        if quick is None:
            continue
        (block,) = quick.blocks(pa.array(each.values, pa.binary()))
        others = {position for position, _, _ in block.others}
        for position, (case, is_valid) in enumerate(each.cases):
            valid[each.form] += is_valid
            if position not in others:
                accepted[each.form] += 1
                assert is_valid, case
    # Most of what is valid goes the quick way in every form of a record, or it was not tried.
    assert valid.keys() >= {IN_RECORD, *(Form(in_record=True, type=name) for name in TYPES.values())}
    assert [form for form in valid if form.in_record and accepted[form] < valid[form] * 0.75] == []


def test_what_is_left_out_stands_in_the_table_and_is_refused_for_the_reason_given_there(suite: Suite) -> None:
    reasons = left_out()
    refused = {
        LeftOut(each.group.draft, each.group.file, each.group.description, len(each.group.cases)): each
        for each in suite.refused
    }
    assert reasons.keys() - refused.keys() == set(), (
        "these are judged now, or gone: take them out of the table"
    )
    assert refused.keys() - reasons.keys() == set(), "these are refused, and the table does not say why"
    for row, why in reasons.items():
        REASONS[why](refused[row])


def test_the_counts_on_the_page_are_those_of_the_run(suite: Suite) -> None:
    counted = []
    for draft in DRAFTS:
        judged = [each for each in suite.judged if each.group.draft == draft]
        columns = [
            [each.group for each in judged if not each.form.in_record],
            [each.group for each in judged if each.form == IN_RECORD],
            [each.group for each in judged if each.form.type is not None],
            [each.group for each in suite.refused if each.group.draft == draft],
        ]
        counted.append(
            [draft.removeprefix("draft"), *(figure for column in columns for figure in figures(column))]
        )
    totals = [str(sum(int(row[column]) for row in counted)) for column in range(1, 9)]
    assert [*counted, ["all", *totals]] == tables()[0]


def test_the_suite_is_free_to_use_and_has_all_its_parts(archive: Path) -> None:
    assert "Permission is hereby granted, free of charge" in licence(archive)
    files = {(group.draft, group.file) for group in read_groups(archive)}
    for draft in DRAFTS:
        for part in ("ref.json", "refRemote.json", "optional/bignum.json", "optional/format/date-time.json"):
            assert (draft, part) in files


def test_an_archive_of_other_bytes_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / ARCHIVE).write_bytes(b"other bytes")
    with pytest.raises(RuntimeError, match="could not be fetched; it is needed once"):
        fetch(tmp_path)


def forms_in_records(group: Group) -> Iterator[Form]:
    if refers(group.schema):
        return
    yield IN_RECORD
    if isinstance(group.schema, dict) and "type" not in group.schema:
        for name in sorted({type_of(case) for case in group.cases if not case.is_valid}):
            yield Form(in_record=True, type=name)


def type_of(case: Case) -> str:
    return TYPES[type(json.loads(case.document))]


def document_of(group: Group, form: Form) -> str:
    """Write the contract. A column is named where the schema makes no plain ones."""
    contract = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "conformance",
        "version": "1.0.0",
        "topic": "conformance",
        "schema": {"type": "json-schema", "formats": group.formats, "definition": form.schema(group)},
    }
    if form.in_record or group.description == ESCAPED:
        field = "/number" if form.in_record else "/foo\nbar"
        contract["columns"] = [{"name": "number", "from": field, "type": "double"}]
    return written(contract)


def compiled(group: Group, form: Form) -> EnforcementPlan:
    document = document_of(group, form)
    return compile_plan(parse_contract(document, name="contract.json", read_schema=None).contract)


def refers(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(refers, schema))
    return isinstance(schema, dict) and (
        not REFERRING.isdisjoint(schema) or any(map(refers, schema.values()))
    )


def said(plan: EnforcementPlan, verdict: dict[str, Any]) -> tuple[Disposition, set[Stage]]:
    return Disposition(verdict["disposition"]), {slot.stage for slot in plan.failed_slots(verdict["failed"])}


def expected(*, is_valid: bool) -> tuple[Disposition, set[Stage]]:
    return (Disposition.ACCEPTED, set()) if is_valid else (Disposition.QUARANTINED, {Stage.SCHEMA})


def figures(groups: list[Group]) -> list[str]:
    return [str(len(groups)), str(sum(len(group.cases) for group in groups))]


def tables() -> list[list[list[str]]]:
    """Read the page's tables of conformance: the cells of each row, without code marks."""
    section = PAGE.partition("\n## Conformance\n")[2].partition("\n## ")[0]
    found = [
        [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in block.splitlines()]
        for block in re.findall(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE)
    ]
    assert [len(table) > 2 for table in found] == [True, True]
    return [table[2:] for table in found]


def left_out() -> dict[LeftOut, str]:
    """Read what is left out, and why."""
    return {
        LeftOut(f"draft{draft}", file, schema, int(cases)): why
        for drafts, file, schema, cases, why in tables()[1]
        for draft in drafts.split(", ")
    }


def at(document: str, pointer: str) -> Any:
    part = json.loads(document)
    for token in tokens(pointer):
        part = part[int(token)] if isinstance(part, list) else part[token]
    return part


def check_remote_reference(refused: Refused) -> None:
    (problem,) = refused.problems
    assert problem.pointer.startswith("/schema/definition/")
    assert problem.pointer.endswith("/$ref")
    reference = at(refused.document, problem.pointer)
    assert (
        f"the reference `{reference}` leads out of the document, and none is ever fetched" in problem.message
    )


def check_own_meta_schema(refused: Refused) -> None:
    (problem,) = refused.problems
    assert problem.pointer == "/schema/definition/$schema"
    assert at(refused.document, problem.pointer).startswith("http://localhost:1234/")
    assert "no such draft of JSON Schema is known" in problem.message


def check_inexact_bound(refused: Refused) -> None:
    (problem,) = refused.problems
    number = re.search(r"the number (\S+) cannot be kept exactly", problem.message)
    assert number is not None
    assert (problem.line, problem.column is not None) == (1, True)
    assert refused.document[(problem.column or 0) - 1 :].startswith(number[1])


REASONS = {
    "remote reference": check_remote_reference,
    "meta-schema of its own": check_own_meta_schema,
    "bound beyond a double": check_inexact_bound,
}
"""What the page may give as a reason, and how a refusal shows it."""
