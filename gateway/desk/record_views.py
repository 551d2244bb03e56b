"""What the page of one refused record shows, and the rows of the list that leads to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from contracts.model import DataContract, JsonSchema
from contracts.verdict import Severity, Violation
from gateway.desk.avro_view import decoded_json
from gateway.desk.clauses import Clause, classified, clause_of
from gateway.desk.hexdump import Row, hex_rows
from gateway.desk.layout import Line, Mask, lay_out
from gateway.desk.marking import Marking, mark_record
from gateway.desk.quarantine import Latest, QuarantinedRecord
from gateway.desk.visible import visible_runs, visible_text

LONGEST_KEY_BYTES = 200
LONGEST_HEADER_BYTES = 400
_OWN_HEADERS = ("tidegate.", "__dlq.")
_SUMMED_UP = frozenset({"tidegate.violations"})
"""Headers that the page already shows as sentences."""


class View(StrEnum):
    """The ways to look at a record's bytes."""

    FORMATTED = "formatted"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Reason:
    """One violation in the reader's words; `number` counts from 1 as in the marks."""

    number: int
    violation: Violation
    clause: Clause | None
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Field:
    """A named value shown as runs of (text, is_code), or hidden."""

    name: str
    runs: tuple[tuple[str, bool], ...]
    is_hidden: bool = False
    left_out_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record's page."""

    record: QuarantinedRecord
    contract: DataContract | None
    contract_name: str | None
    stream: str | None
    reasons: tuple[Reason, ...]
    left_out: int
    size: int | None
    key: Field
    headers: tuple[Field, ...]
    view: View
    is_decoded: bool
    lines: tuple[Line, ...]
    hex_rows: tuple[Row, ...]
    is_hex_cut: bool
    hides: bool


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record in the list of the latest; `others` counts its further violations."""

    address: str
    source: str
    timestamp: datetime | None
    reason: Violation | None
    others: int


def record_rows(latest: Latest, rule: str | None) -> tuple[RecordRow, ...]:
    """Give the rows of a list, each with the violation of `rule`, or with its worst one."""
    return tuple(_record_row(record, rule) for record in latest.records)


def record_address(record: QuarantinedRecord) -> str:
    """Give the address of a record's page."""
    return f"/desk/records/{record.pointer}"


def record_view(record: QuarantinedRecord, contract: DataContract | None, view: View) -> RecordView:
    """Give a record's page. Without its contract nothing of the record itself is shown."""
    evidence = record.evidence
    violations = evidence.violations if evidence is not None else ()
    shown = _shown(record.value, violations, contract)
    marked = {number for mark in shown.marking.marks for number in mark.violations}
    # A classified value often stands in the key or in a producer's header as well.
    may_show = contract is not None and not classified(contract)
    rows, is_cut = hex_rows(shown.raw, shown.raw_marking.marks, shown.raw_marking.masks)
    return RecordView(
        record=record,
        contract=contract,
        contract_name=evidence.contract if evidence is not None else None,
        stream=evidence.contract.rpartition("@")[0] if evidence is not None else None,
        reasons=tuple(
            Reason(number, violation, clause_of(contract, violation) if contract else None, number in marked)
            for number, violation in enumerate(violations, 1)
        ),
        left_out=evidence.left_out if evidence is not None else 0,
        size=None if record.value is None else len(record.value),
        key=_field("key", record.key, LONGEST_KEY_BYTES, may_show=may_show),
        headers=tuple(
            _field(name, value, LONGEST_HEADER_BYTES, may_show=may_show or name.startswith(_OWN_HEADERS))
            for name, value in record.headers
            if name not in _SUMMED_UP
        ),
        view=view,
        is_decoded=shown.is_decoded,
        lines=tuple(_lines(shown)) if view is View.FORMATTED and record.value is not None else (),
        hex_rows=tuple(rows) if view is View.HEX else (),
        is_hex_cut=is_cut,
        hides=shown.marking.hides or shown.raw_marking.hides,
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """The text to lay out and the bytes to dump, with marks and masks of each."""

    text: bytes
    marking: Marking
    raw: bytes
    raw_marking: Marking
    is_decoded: bool


def _shown(value: bytes | None, violations: Sequence[Violation], contract: DataContract | None) -> _Shown:
    raw = value or b""
    if contract is None or isinstance(contract.schema_, JsonSchema):
        marking = mark_record(raw, violations, contract)
        return _Shown(raw, marking, raw, marking, is_decoded=False)
    # Avro's bytes have no places that a reader could follow: marks are set in the decoded value. Where fields
    # are classified the bytes stay hidden, because nothing tells which of them are whose.
    hidden = (Mask(0, len(raw), "the contract classifies fields"),) if raw and classified(contract) else ()
    raw_marking = Marking((), hidden, is_fully_read=True)
    text = decoded_json(raw, contract)
    if text is None:
        return _Shown(raw, Marking((), hidden, is_fully_read=False), raw, raw_marking, is_decoded=False)
    return _Shown(text, mark_record(text, violations, contract), raw, raw_marking, is_decoded=True)


def _lines(shown: _Shown) -> list[Line]:
    return lay_out(shown.text, shown.marking.marks, shown.marking.masks)


def _field(name: str, value: bytes | None, longest: int, *, may_show: bool) -> Field:
    title = visible_text(name.encode("utf-8", "surrogateescape")[:longest])
    if value is None:
        return Field(title, (("null", True),))
    if not may_show:
        return Field(title, (), is_hidden=True)
    return Field(title, tuple(visible_runs(value[:longest])), left_out_bytes=max(0, len(value) - longest))


def _record_row(record: QuarantinedRecord, rule: str | None) -> RecordRow:
    evidence = record.evidence
    violations = evidence.violations if evidence is not None else ()
    ranked = sorted(
        violations, key=lambda one: (one.code != rule, one.severity is not Severity.ERROR)
    )  # stable: the judge's order stands within
    return RecordRow(
        address=record_address(record),
        source=str(evidence.source if evidence is not None else record.pointer),
        timestamp=record.timestamp,
        reason=ranked[0] if ranked else None,
        others=max(0, len(ranked) - 1) + (evidence.left_out if evidence is not None else 0),
    )
