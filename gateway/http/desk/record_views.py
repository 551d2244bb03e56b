"""The page of one refused record, and the rows of the list of the latest records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.privacy.classes import BODY, HEADERS, KEY, Visibility
from tidegate.contracts.stream.evidence import (
    VIOLATIONS_HEADER,
)
from tidegate.contracts.verdict import Severity, Violation
from tidegate.gateway.http.desk.clauses import Clause, clause_of
from tidegate.gateway.http.desk.layout import ByteRow, Line, hex_rows, lay_out
from tidegate.gateway.http.desk.marking import Marking, mark_record
from tidegate.gateway.http.desk.wording import visible_runs, visible_text
from tidegate.gateway.streams.masking import HiddenBytes, decoded_json
from tidegate.gateway.streams.quarantine import Latest, QuarantinedRecord
from tidegate.gateway.streams.quarantine_records import Viewer, own_headers

LONGEST_KEY_BYTES = 200
LONGEST_HEADER_BYTES = 400
_SUMMED_UP = frozenset({VIOLATIONS_HEADER})
"""Headers that the page already shows as sentences."""


class View(StrEnum):
    """The representations of a record's bytes."""

    FORMATTED = "formatted"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Reason:
    """One violation with its explanation. `number` starts at 1, as in the marks; `clause` may be None."""

    number: int
    explanation: Explanation
    clause: Clause | None
    is_marked: bool

    @property
    def violation(self) -> Violation:
        """Return the violation as the judge found it."""
        return self.explanation.violation


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """A hidden part of a record. `name` is the classification of a field; None for other parts."""

    part: str
    label: str
    name: str | None


@dataclass(frozen=True, slots=True)
class ShownField:
    """A named value, shown as runs of (text, is_code), or hidden. `left_out_bytes` were cut off at its end."""

    name: str
    runs: tuple[tuple[str, bool], ...]
    is_hidden: bool = False
    left_out_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RecordView:
    """The page of one record.

    `size` is in bytes; None for a null value. `left_out` is the number of violations that did not fit into the headers.
    `is_decoded`: the lines show the decoded value, as the bytes are Avro.
    """

    record: QuarantinedRecord
    contract: DataContract | None
    contract_name: str
    stream: str
    reasons: tuple[Reason, ...]
    left_out: int
    size: int | None
    key: ShownField
    headers: tuple[ShownField, ...]
    view: View
    is_decoded: bool
    lines: tuple[Line, ...]
    hex_rows: tuple[ByteRow, ...]
    is_hex_cut: bool
    hidden: tuple[HiddenPart, ...]
    revealed: tuple[HiddenPart, ...]
    may_reveal: bool

    @property
    def hides(self) -> bool:
        """Return whether any part of the value is hidden."""
        return any(each.part not in {KEY, HEADERS} for each in self.hidden)


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record in the list of the latest records; `others` is the number of its other violations."""

    address: str
    source: str
    timestamp: datetime | None
    reason: Explanation | None
    others: int


FindViewer = Callable[[str], Viewer]
"""A function that returns the viewer for a contract version (`id@version`)."""


def record_rows(latest: Latest, rule: str | None, find: FindViewer) -> tuple[RecordRow, ...]:
    """Return the rows of a list, each with its violation of `rule`, or else with its most severe one."""
    return tuple(_record_row(record, rule, find) for record in latest.records)


def record_address(record: QuarantinedRecord) -> str:
    """Return the URL of a record's page."""
    return f"/desk/records/{record.pointer}"


def record_view(record: QuarantinedRecord, viewer: Viewer, view: View) -> RecordView:
    """Return the page of a record. If the viewer has no contract, the record itself is hidden."""
    evidence, contract, visibility = record.evidence, viewer.contract, viewer.visibility
    violations = evidence.violations
    shown = _shown(record, violations, viewer)
    marked = {number for mark in shown.marking.marks for number in mark.violations}
    rows, is_cut = hex_rows(shown.raw, shown.raw_marking.marks, shown.raw_marking.masks)
    explanations = viewer.explain(record, violations)
    own = own_headers(record)
    return RecordView(
        record=record,
        contract=contract,
        contract_name=evidence.contract,
        stream=evidence.contract.rpartition("@")[0],
        reasons=tuple(
            Reason(number, each, clause_of(contract, each.violation) if contract else None, number in marked)
            for number, each in enumerate(explanations, 1)
        ),
        left_out=evidence.left_out,
        size=None if record.value is None else len(record.value),
        key=_field("key", record.key, LONGEST_KEY_BYTES, may_show=visibility.shows(KEY)),
        headers=tuple(
            _field(name, value, LONGEST_HEADER_BYTES, may_show=visibility.shows(HEADERS) or index in own)
            for index, (name, value) in enumerate(record.headers)
            if index not in own or name not in _SUMMED_UP
        ),
        view=view,
        is_decoded=shown.is_decoded,
        lines=tuple(_lines(shown)) if view is View.FORMATTED and record.value is not None else (),
        hex_rows=tuple(rows) if view is View.HEX else (),
        is_hex_cut=is_cut,
        hidden=tuple(_hidden(part, visibility) for part in sorted(_hidden_parts(record, shown, visibility))),
        revealed=tuple(_hidden(part, visibility) for part in sorted(visibility.revealed)),
        may_reveal=viewer.may_reveal,
    )


def _hidden_parts(record: QuarantinedRecord, shown: _Shown, visibility: Visibility) -> set[str]:
    parts = {*shown.marking.hidden, *shown.raw_marking.hidden}
    if record.key is not None and not visibility.shows(KEY):
        parts.add(KEY)
    own = own_headers(record)
    is_foreign = [value is not None and index not in own for index, (_, value) in enumerate(record.headers)]
    if any(is_foreign) and not visibility.shows(HEADERS):
        parts.add(HEADERS)
    return parts


_LABELS = {
    KEY: "the record's key",
    HEADERS: "the producer's headers",
    BODY: "the whole value, with what the contract does not declare or cannot read",
}


def _hidden(part: str, visibility: Visibility) -> HiddenPart:
    fields = visibility.classes.by_pointer if visibility.classes is not None else {}
    return HiddenPart(part, _LABELS.get(part, part), fields.get(part))


@dataclass(frozen=True, slots=True)
class _Shown:
    """The text for the formatted view and the bytes for the hexadecimal view, each with its marks and masks."""

    text: bytes
    marking: Marking
    raw: bytes
    raw_marking: Marking
    is_decoded: bool


def _shown(record: QuarantinedRecord, violations: Sequence[Violation], viewer: Viewer) -> _Shown:
    raw = record.value or b""
    contract, visibility = viewer.contract, viewer.visibility
    if contract is None or isinstance(contract.schema_, JsonSchema):
        marking = mark_record(raw, violations, contract, visibility)
        return _Shown(raw, marking, raw, marking, is_decoded=False)
    # The position of a field in Avro's bytes is unknown, so the marks are in the decoded value. If the contract
    # classifies fields, the bytes stay hidden for the same reason.
    is_hidden = bool(raw) and not visibility.shows(BODY)
    hidden = (HiddenBytes(0, len(raw), "the contract classifies fields"),) if is_hidden else ()
    parts = frozenset({BODY}) if is_hidden else frozenset()
    raw_marking = Marking((), hidden, parts)
    text = decoded_json(raw, contract, viewer.plan, schema_header(record.headers))
    if text is None or (is_hidden and not viewer.knows_writers):
        return _Shown(raw, raw_marking, raw, raw_marking, is_decoded=False)
    return _Shown(
        text, mark_record(text, violations, contract, visibility), raw, raw_marking, is_decoded=True
    )


def _lines(shown: _Shown) -> list[Line]:
    return lay_out(shown.text, shown.marking.marks, shown.marking.masks)


def _field(name: str, value: bytes | None, longest: int, *, may_show: bool) -> ShownField:
    title = visible_text(name.encode("utf-8", "surrogateescape")[:longest])
    if value is None:
        return ShownField(title, (("null", True),))
    if not may_show:
        return ShownField(title, (), is_hidden=True)
    return ShownField(
        title, tuple(visible_runs(value[:longest])), left_out_bytes=max(0, len(value) - longest)
    )


def _record_row(record: QuarantinedRecord, rule: str | None, find: FindViewer) -> RecordRow:
    evidence = record.evidence
    ranked = sorted(
        evidence.violations, key=lambda one: (one.code != rule, one.severity is not Severity.ERROR)
    )  # a stable sort: equal ones keep the judge's order
    explanations = find(evidence.contract).explain(record, ranked[:1])
    return RecordRow(
        address=record_address(record),
        source=str(evidence.source),
        timestamp=record.timestamp,
        reason=explanations[0] if explanations else None,
        others=max(0, len(ranked) - 1) + evidence.left_out,
    )
