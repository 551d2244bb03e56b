"""What is hidden of refused records in lists, downloads and on pages when a later version classifies more."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.steps import steps_of
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.record_access import viewer_of
from tidegate.gateway.http.desk.record_views import View, record_view
from tidegate.gateway.http.desk.rendering import page
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.http.models.quarantine import RecordsInfo
from tidegate.gateway.http.native.quarantine import record_info
from tidegate.gateway.streams.masking import HIDDEN
from tidegate.gateway.streams.quarantine import QuarantinedRecord

NAME = "hospital.admissions"
AGE = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is one of the forbidden values")
DEFINITION = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "note": {"type": "string"}, "ward": {"type": "string"}},
}


def publish(factory: Factory, version: str, **others: Any) -> None:
    schema = {"type": "json-schema", "definition": DEFINITION}
    document = {**CONTRACT, "version": version, "schema": schema, "rules": CONTRACT["rules"][:1], **others}
    factory.registry().publish(json.dumps(document).encode(), "adm.json")


def refused_by(version: str) -> QuarantinedRecord:
    return QuarantinedRecord(
        EventPointer(f"{NAME}.quarantine", 0, 0),
        datetime(2026, 1, 1, tzinfo=UTC),
        b"Zaphod",
        b'{"age": 999, "note": "Zaphod", "ward": "north"}',
        (("app", b"Zaphod"),),
        Evidence(EventPointer(NAME, 0, 7), "ledger", f"{NAME}@{version}", ("age-is-known",), (AGE,)),
    )


def seen(factory: Factory, record: QuarantinedRecord) -> str:
    """Return all that lists and downloads have of a record, and its page in every view."""
    viewer = viewer_of(factory, ANONYMOUS, record.evidence.contract, f"{NAME}-value")
    text = repr(factory.record_masking().masked(record))
    for view in View:
        shown = record_view(record, viewer, view)
        text += bytes(page("record.html", view=shown, beside=None).body).decode()
        text += "".join(cell.character for row in shown.hex_rows for cell in row.cells)
    return text


def test_a_class_also_hides_the_records_that_earlier_versions_refused(factory: Factory) -> None:
    publish(factory, "1.2.0")
    assert "Zaphod" in seen(factory, refused_by("1.2.0"))
    publish(factory, "1.3.0", classification={"/note": "pii"})
    for version in ("1.2.0", "1.3.0"):
        shown = seen(factory, refused_by(version))
        assert "Zaphod" not in shown
        assert "999" in shown
        assert "north" in shown


@pytest.mark.parametrize("status", ["draft", "retired"])
def test_a_version_that_is_not_enforced_hides_nothing_of_others(factory: Factory, status: str) -> None:
    publish(factory, "1.2.0")
    publish(factory, "1.3.0", classification={"/note": "pii"}, status=status)
    assert "Zaphod" in seen(factory, refused_by("1.2.0"))


def test_a_class_that_a_later_version_no_longer_has_still_hides(factory: Factory) -> None:
    publish(factory, "1.2.0", classification={"/note": "pii"})
    publish(factory, "1.3.0")
    assert "Zaphod" not in seen(factory, refused_by("1.2.0"))


@pytest.mark.parametrize(
    "value",
    [
        b'{"age": "\\ud800"}',
        b'{"\\udfff": 1}',
        *(b"[" * depth + b"]" * depth for depth in (250, 253, 255, 300, 900, 100_000)),
    ],
)
def test_an_answer_holds_each_record_that_can_be_refused(factory: Factory, value: bytes) -> None:
    """Lone surrogates and deep nesting are reasons for a refusal. One such record must not hide the others."""
    publish(factory, "1.2.0")
    record = replace(refused_by("1.2.0"), value=value)
    found = record_info(factory.record_masking().masked(record, most_bytes=1 << 20))
    answer = json.loads(RecordsInfo(records=(found,), total=1).model_dump_json())
    (shown,) = answer["records"]
    assert shown["value"] is None or json.dumps(shown["value"]) == value.decode()
    assert shown["value_text"] == value.decode()


def masked_names(factory: Factory, value: bytes) -> dict[str, Any]:
    publish(factory, "1.0.0", classification={"/note": "pii"})
    record = replace(refused_by("1.0.0"), value=value)
    masked = factory.record_masking().masked(record, most_bytes=10 * len(value))
    found: dict[str, Any] = masked.value
    return found


def test_a_misspelt_name_is_shown_without_its_value(factory: Factory) -> None:
    masked = masked_names(factory, b'{"age": 1, "NOTES": "Zaphod", "Zaphod": 42}')
    assert masked == {"age": 1, "NOTES": HIDDEN, f"{HIDDEN} 2": HIDDEN}


def test_names_are_masked_when_a_record_has_too_many_to_compare(factory: Factory) -> None:
    names = [f"a name of an undeclared {index:06d}" for index in range(20_000)]
    value = json.dumps({"notes": 1, **dict.fromkeys(names, 1), "noted": 1}).encode()
    masked = masked_names(factory, value)
    assert masked["notes"] == HIDDEN
    assert "noted" not in masked
    assert len(masked) == len(names) + 2


def test_a_repeated_name_is_compared_once(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = difflib.SequenceMatcher.real_quick_ratio
    monkeypatch.setattr(
        difflib.SequenceMatcher, "real_quick_ratio", lambda each: compared.append(each.b) or compare(each)
    )
    masked = masked_names(factory, json.dumps({"ward": [{"notes": 1}] * 1_000}).encode())
    assert masked["ward"] == [{"notes": HIDDEN}] * 1_000
    assert len(compared) == len(DEFINITION["properties"])


def test_a_value_that_is_left_out_is_not_masked_first(factory: Factory) -> None:
    publish(factory, "1.0.0", classification={"/note": "pii"})
    value = json.dumps({"note": "Zaphod", **{f"n{index}": 1 for index in range(20_000)}}).encode()
    record = replace(refused_by("1.0.0"), value=value)
    masking = factory.record_masking()
    masking.viewer(record.evidence.contract)  # compiled once
    assert steps_of(lambda: masking.masked(record)) < 1_000
    masked = masking.masked(record)
    assert (masked.is_cut, masked.value_text, masked.size) == (True, None, len(value))
    assert "Zaphod" not in repr(masked)


def test_a_record_without_classified_fields_is_not_searched_for_them(factory: Factory) -> None:
    publish(factory, "1.0.0", classification={})
    value = json.dumps({f"n{index}": 1 for index in range(20_000)}).encode()
    record = replace(refused_by("1.0.0"), value=value)
    masking = factory.record_masking()
    masking.viewer(record.evidence.contract)
    assert steps_of(lambda: masking.masked(record, most_bytes=len(value))) < 1_000
    masked = masking.masked(record, most_bytes=len(value))
    assert (masked.value_text, masked.hidden) == (value.decode(), ())
