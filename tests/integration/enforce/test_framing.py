"""Records that name their schema, through whole streams: what is unknown is refused, but not while the registry is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from tests.integration.enforce.line import Line, row
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.stream.evidence import read_evidence

KNOWN = WriterSchema(7, UUID(int=7), "json-schema", "true")


@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_an_outage_refuses_nothing_and_lets_nothing_pass(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    plan = line.plan(framing="confluent-header")
    line.produce(
        replace(row(0), headers=((SCHEMA_HEADER, KNOWN.header),)),
        replace(row(1), headers=((SCHEMA_HEADER, b"\x01" + bytes(16)),)),
        row(2),
    )
    line.contracts.plan = plan.with_writers(WriterSchemas((KNOWN,), is_current=False))
    with pytest.raises(Unavailable, match="names a schema that was not registered"):
        line.enforce()
    assert line.quarantined() == []
    line.contracts.plan = plan.with_writers(WriterSchemas((KNOWN,), is_current=True))
    line.enforce()
    evidence = [read_evidence(record.headers) for record in line.quarantined()]
    assert sorted(each.rules for each in evidence if each) == [("frame.missing",), ("frame.unknown-schema",)]
    written = [each["id"] for each in line.rows()] if sink == "iceberg" else [r.key for r in line.accepted()]
    assert written == (["r0"] if sink == "iceberg" else [b"0"])
