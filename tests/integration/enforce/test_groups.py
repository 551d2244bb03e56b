"""Compatibility groups through whole streams: each record has its version's verdict, columns and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from tests.integration.enforce.line import KNOWN, SCHEMA, Line, Sent, row
from tests.marks import full
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.groups import GroupPlan, group_plans
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import read_evidence, read_provenance
from tidegate.spark_jobs.steps import Step

WRITERS = WriterSchemas(
    tuple(WriterSchema(number, UUID(int=number), "json-schema", "true") for number in (1, 2)), is_current=True
)
NEWER = {
    **SCHEMA,
    "required": ["id", "unit"],
    "properties": {"id": {"type": "string"}, "unit": {"type": "string"}, "amount": {"type": "integer"}},
}


def framed(schema: int, record: Sent) -> Sent:
    return replace(record, value=b"\0" + schema.to_bytes(4, "big") + (record.value or b""))


def groups(line: Line, first: str = "1.0.0", *, forbidden: int = 999) -> EnforcementPlan:
    """Group 1 with the schema of the line, group 2 with another one."""
    one = line.plan(version=first, framing="auto", rules=[{**KNOWN, "values": [forbidden]}])
    two = line.plan(
        version="2.0.0", framing="auto", schema={"type": "json-schema", "definition": NEWER}, rules=[]
    )
    both = (GroupPlan("1", frozenset({1}), one), GroupPlan("2", frozenset({2}), two))
    return group_plans(both, "2").with_writers(WRITERS)


@pytest.mark.parametrize("sink", full("iceberg", "kafka", "delta", "postgresql"))
def test_producers_of_two_groups_share_a_stream(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    line.contracts.plan = groups(line)
    line.produce(
        framed(1, row(0)),
        framed(2, row(2, unit="icu")),
        framed(1, row(4, amount=999)),
        framed(2, row(6)),
        row(8),
    )

    def fail_once(_: str, step: Step) -> None:
        if step is Step.QUARANTINE and sink != "kafka":
            raise Unavailable("the store is away")

    if sink != "kafka":
        with pytest.raises(Unavailable):
            line.enforce(fail_once)
        # The first verdict of a quarantined record is final, whatever its group says by now.
        line.contracts.plan = groups(line, "1.0.1", forbidden=998)
    line.enforce()
    name = line.contract_id
    evidence = [read_evidence(record.headers) for record in line.quarantined()]
    assert {(each.source.offset, each.contract, each.rules) for each in evidence if each} == {
        (2, f"{name}@1.0.0", ("amount-is-known",)),
        (3, f"{name}@2.0.0", ("required",)),
        (4, f"{name}@2.0.0", ("frame.group-unnamed",)),
    }
    assert len(evidence) == 3
    if sink == "kafka":
        accepted = [read_provenance(record.headers) for record in line.accepted()]
        assert [each.contract for each in accepted if each] == [f"{name}@1.0.0", f"{name}@2.0.0"]
        return
    found = [(each["id"], each["unit"], each["day"], each["_contract"]) for each in line.rows()]
    assert found == [("r0", None, None, f"{name}@1.0.1"), ("r2", "icu", None, f"{name}@2.0.0")]
    assert line.ledger().contract == f"{name}@2.0.0"
    assert line.reconcile().holds
