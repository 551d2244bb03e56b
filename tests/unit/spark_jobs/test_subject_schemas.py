"""The versions of a subject as they are kept, from registries that answer oddly. The transport is a fake."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import httpx
import pytest

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import WriterSchema
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.spark_jobs.contract_source import ask_registry


def entry(number: int, **others: Any) -> dict[str, Any]:
    told = {
        "subject": "t/x-value",
        "version": number,
        "id": 100 + number,
        "guid": str(UUID(int=number)),
        "schemaType": "AVRO",
        "schema": '"int"',
    }
    return told | others


class FakeRegistry(httpx.MockTransport):
    """Answers what a test puts into it, by path; anything else is 404. Of schemas it lists at most 1,000 at once."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(self._answer)
        self.answers = answers

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        found = self.answers.get(path, 404)
        if path == "/schemas" and isinstance(found, list):
            offset, limit = (int(request.url.params.get(name, "0")) for name in ("offset", "limit"))
            found = found[offset:][: limit if 0 < limit <= 1_000 else 1_000]
        return httpx.Response(found) if isinstance(found, int) else httpx.Response(200, json=found)


def schemas_of(answers: dict[str, Any]) -> SubjectSchemas:
    client = httpx.Client(transport=FakeRegistry(answers), base_url="http://registry")
    return SubjectSchemas(partial(ask_registry, client), "t/x")


VERSIONS = "/subjects/t%2Fx-value/versions"


def test_a_subject_that_is_not_there_has_no_versions() -> None:
    found = schemas_of({}).current()
    assert (found.schemas, found.is_current) == ((), True)


def test_few_versions_are_fetched_one_by_one() -> None:
    answers = {VERSIONS: [1, 3], f"{VERSIONS}/1": entry(1), f"{VERSIONS}/3": entry(3, schemaType="PROTOBUF")}
    subject = schemas_of(answers)
    expected = (
        WriterSchema(101, UUID(int=1), "avro", '"int"'),
        WriterSchema(103, UUID(int=3), None, '"int"'),
    )
    assert subject.current().schemas == expected
    assert (subject.known().schemas, subject.known().is_current) == (expected, False)


def test_many_are_fetched_at_once_and_those_of_other_subjects_are_left_out() -> None:
    others = [entry(number, subject="t/x-value-2") for number in range(3)]
    answers = {VERSIONS: list(range(1, 21)), "/schemas": [*(entry(n) for n in range(1, 21)), *others]}
    assert [each.id for each in schemas_of(answers).current().schemas] == list(range(101, 121))


def test_more_than_a_registry_lists_at_once_are_fetched_page_by_page() -> None:
    deleted = [entry(number, subject="t/x-valu") for number in range(500)]
    entries = [entry(number) for number in range(1, 2_101)]
    answers: dict[str, Any] = {VERSIONS: list(range(1, 2_101)), "/schemas": [*deleted, *entries]}
    assert len(schemas_of(answers).current().schemas) == 2_100
    answers["/schemas"] = entries[:1_999]
    with pytest.raises(Unavailable, match="what holds no more"):  # one was missed
        schemas_of(answers).current()


def test_a_version_that_is_gone_for_good_is_forgotten() -> None:
    answers: dict[str, Any] = {VERSIONS: [1, 2], f"{VERSIONS}/1": entry(1), f"{VERSIONS}/2": entry(2)}
    subject = schemas_of(answers)
    subject.current()
    answers[VERSIONS] = [2]
    assert [each.id for each in subject.current().schemas] == [102]


@pytest.mark.parametrize(
    "answers",
    [
        {VERSIONS: 500},
        {VERSIONS: 403},
        {VERSIONS: {"not": "a list"}, f"{VERSIONS}/not": 404},
        {VERSIONS: [1]},
        {VERSIONS: [1], f"{VERSIONS}/1": {}},
        {VERSIONS: [1], f"{VERSIONS}/1": entry(1, guid="x")},
    ],
)
def test_what_no_registry_says_is_an_outage(answers: dict[str, Any]) -> None:
    subject = schemas_of(answers)
    with pytest.raises(Unavailable, match=r"the registry (answered|returned)"):
        subject.current()
    assert subject.known().schemas == ()
