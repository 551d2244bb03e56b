"""Whatever a record looks like, values of classified fields are neither on its page nor in its sentences."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.privacy.classes import Path, classes_of
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.gateway.http.desk.record_views import View, record_view
from tidegate.gateway.http.desk.rendering import page
from tidegate.gateway.streams.quarantine import QuarantinedRecord
from tidegate.gateway.streams.quarantine_records import Viewer

SECRET = "S3CR3T"  # noqa: S105 - it opens nothing
TYPED = {"type": "integer"}
DEFINITION = {
    "properties": {
        "id": TYPED,
        "patient": {"properties": {"name": TYPED, "id": TYPED}},
        "lines": {"type": "array", "items": {"properties": {"name": TYPED, "id": TYPED}}},
        "by_ward": {"additionalProperties": {"type": "integer"}},
    },
    "maxProperties": 3,
}
CONTRACT = DataContract.model_validate(
    {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "c",
        "version": "1.0.0",
        "topic": "c",
        "schema": {"type": "json-schema", "definition": DEFINITION},
        "columns": [{"name": "id", "from": "/id", "type": "long"}],
        "rules": [
            {"id": "small", "kind": "range", "field": "/patient/id", "maximum": 3},
            {"id": "known", "kind": "cel", "expr": "this.patient.name == 3"},
        ],
        "classification": {"/patient/name": "pii", "/lines/*/name": "pii", "/by_ward": "pii"},
    }
)
PLAN = compile_plan(CONTRACT)
CLASSES = classes_of(CONTRACT)
NAMES = st.sampled_from(["id", "patient", "lines", "by_ward", "name", "*", "0", "Jane"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.just("text"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=5) | VALUES


def planted(value: Any, path: Path = ()) -> Any:
    """Put the secret wherever a classified value may stand: at its place, below it, and instead of what leads to it."""
    is_secret = CLASSES.of(path) is not None
    if isinstance(value, dict):
        return {
            (SECRET + name if is_secret else name): planted(each, path if is_secret else (*path, name))
            for name, each in value.items()
        }
    if isinstance(value, list):
        if CLASSES.touches(path):
            return (
                [planted(each, (*path, at)) for at, each in enumerate(value)]
                if path == ("lines",)
                else [SECRET]
            )
        return [planted(each, (*path, at)) for at, each in enumerate(value)]
    return SECRET if CLASSES.touches(path) else value


def shown(value: bytes) -> str:
    evidence = Evidence(EventPointer("c", 0, 1), "c", "c@1.0.0", (), PLAN.explain(value).violations)
    record = QuarantinedRecord(
        EventPointer("q", 0, 0), None, SECRET.encode(), value, (("h", SECRET.encode()),), evidence
    )
    viewer = Viewer(CONTRACT, PLAN)
    pages = [page("record.html", view=record_view(record, viewer, view), beside=None) for view in View]
    return "".join(bytes(one.body).decode() for one in pages)


@settings(max_examples=examples(150), deadline=None)
@given(RECORDS, st.integers(0, 400), st.sampled_from([b"", b"x", b"}", b'"']))
def test_pages_hide_classified_values(record: Any, cut: int, junk: bytes) -> None:
    whole = json.dumps(planted(record)).encode()
    for value in (whole, whole[:cut] + junk + whole[cut:], whole[:cut]):
        text = shown(value)
        assert SECRET not in text
        assert SECRET.encode().hex() not in "".join(text.replace("</b><b>", "").split())
