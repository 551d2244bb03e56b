"""The native API: limits, versions, judging, reports, and its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from tests.unit.conftest import MakeContract
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import RECORDS, REPORT
from tidegate.gateway.settings import GatewaySettings

from .conftest import CONTRACTS, LATEST, VERSION, only_sqlite, problem

JUDGE = f"{LATEST}/judge"
BATCHES = "/api/v1/streams/hospital.admissions/batches"


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded", "image/png"])
@only_sqlite
def test_other_content_types_answer_415_with_those_that_are_read(client: Any, media_type: str | None) -> None:
    for path in (CONTRACTS, JUDGE, BATCHES):
        answer = client.post(path, b"{}", media_type)
        assert answer.status_code == 415
        assert "application/json" in problem(answer)["detail"]


@only_sqlite
class TestLimits:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        return settings.model_copy(
            update={"max_document_bytes": 2000, "max_judge_bytes": 2000, "max_judge_records": 3}
        )

    @pytest.mark.parametrize(("path", "limit"), [(CONTRACTS, 2000), (JUDGE, 2000), (BATCHES, 8 << 20)])
    def test_a_larger_body_answers_413(self, client: Any, path: str, limit: int) -> None:
        answer = client.post(path, b" " * (limit + 1))
        assert answer.status_code == 413
        assert (
            problem(answer)["detail"] == f"the body is larger than {limit} bytes, the limit of this operation"
        )

    def test_a_body_of_unknown_length_is_read_up_to_the_limit(self, client: Any) -> None:
        sent = []

        async def endless() -> AsyncIterator[bytes]:
            while True:
                sent.append(1000)
                yield b" " * 1000

        answer = client.post(CONTRACTS, endless())
        assert answer.status_code == 413
        assert sum(sent) <= 4000

    def test_a_body_at_the_limit_is_read(self, client: Any, make_contract: MakeContract) -> None:
        assert client.post(CONTRACTS, make_contract().ljust(2000)).status_code == 201

    @pytest.mark.usefixtures("published")
    def test_more_records_than_allowed_answer_413(self, client: Any) -> None:
        assert client.post(JUDGE, b"\n\n\n", "application/x-ndjson").status_code == 200
        answer = client.post(JUDGE, b"\n\n\n\n", "application/x-ndjson")
        assert answer.status_code == 413
        assert problem(answer)["detail"] == "4 records are more than 3, the limit of one request"


def test_a_version_is_fetched_as_a_document_that_is_its_own_contract(
    client: Any, published: dict[str, Any]
) -> None:
    answer = client.get(VERSION)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["etag"] == f'"{published["fingerprint"]}"'
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["tidegate-contract"] == "hospital.admissions@1.2.0"
    assert answer.headers["tidegate-registry-id"] == "1"
    assert list(answer.json()["schema"]["definition"]["properties"]) == [
        "admission_id",
        "age",
        "admission_date",
        "discharge_date",
    ]
    assert client.post(CONTRACTS, answer.content).json() == published
    assert client.get(f"{CONTRACTS}/by-registry-id/1").content == answer.content


def test_latest_is_revalidated_and_answers_304_while_it_is_the_same(
    client: Any, published: dict[str, Any], make_contract: MakeContract
) -> None:
    etag = f'"{published["fingerprint"]}"'
    assert client.get(LATEST).headers["cache-control"] == "no-cache"
    for held in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = client.get(LATEST, headers={"If-None-Match": held})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert client.get(LATEST, headers={"If-None-Match": '"other"'}).status_code == 200
    client.post(CONTRACTS, make_contract(version="1.3.0"))
    changed = client.get(LATEST, headers={"If-None-Match": etag})
    assert (changed.status_code, changed.json()["version"]) == (200, "1.3.0")
    assert changed.headers["content-location"] == f"{CONTRACTS}/hospital.admissions/versions/1.3.0"


@pytest.mark.usefixtures("published")
def test_contracts_are_listed_and_shown(client: Any) -> None:
    listed = client.get(CONTRACTS, params={"status": "active", "limit": 10}).json()
    assert [one["version"] for one in listed["contracts"]] == ["1.2.0"]
    assert (listed["total"], listed["offset"], listed["limit"]) == (1, 0, 10)
    assert client.get(CONTRACTS, params={"domain": "none"}).json()["contracts"] == []
    shown = client.get(f"{CONTRACTS}/hospital.admissions").json()
    assert shown["subject"] == "hospital.admissions-value"
    assert [version["registry_id"] for version in shown["versions"]] == [1]


@pytest.mark.usefixtures("published")
def test_records_are_judged_byte_for_byte(client: Any) -> None:
    body = client.post(JUDGE, orjson.dumps(RECORDS)).json()
    assert body["contract"] == "hospital.admissions@1.2.0"
    assert body["counts"] == {"accepted": 1, "quarantined": 2}
    found = [
        (
            verdict["disposition"],
            [(one["stage"], one["code"], one["pointer"]) for one in verdict["violations"]],
        )
        for verdict in body["verdicts"]
    ]
    assert found == [
        ("accepted", []),
        ("quarantined", [("rule", "age-is-known", "/age")]),
        ("quarantined", [("decode", "json.invalid", "")]),
    ]


@pytest.mark.usefixtures("published")
def test_lines_are_records_and_blank_lines_are_too(client: Any) -> None:
    lines = b'{"admission_id": "A", "age": 1}\r\n\n{"admission_id": "A", "age": 999}'
    body = client.post(JUDGE, lines, "application/x-ndjson").json()
    assert [verdict["disposition"] for verdict in body["verdicts"]] == [
        "accepted",
        "quarantined",
        "quarantined",
    ]
    assert client.post(JUDGE, b"", "application/x-ndjson").json()["verdicts"] == []


@pytest.mark.usefixtures("published")
def test_judged_records_are_described_in_words(client: Any) -> None:
    (verdict,) = client.post(JUDGE, b'{"admission_id": "A", "age": "42"}', "application/x-ndjson").json()[
        "verdicts"
    ]
    (violation,) = verdict["violations"]
    assert violation["message"] == "must be of type integer"
    assert violation["sentence"] == 'age is the text "42", not a whole number'
    assert (violation["description"], violation["passes"]) == (None, "a whole number")


def test_no_value_of_a_classified_field_is_repeated(client: Any, make_contract: Any) -> None:
    classification = {"/age": "pii", "/admission_id": "pii"}
    assert client.post(CONTRACTS, make_contract(classification=classification)).is_success
    record = b'{"admission_id": "SECRET-1", "age": "SECRET-2", "SECRET-3": 1}\n{"admission_id": SECRET'
    answer = client.post(JUDGE, record, "application/x-ndjson")
    assert answer.json()["counts"] == {"quarantined": 2}
    assert "SECRET" not in answer.text


def test_judging_by_an_unknown_contract_answers_404(client: Any) -> None:
    answer = client.post(JUDGE, orjson.dumps(RECORDS))
    assert answer.status_code == 404
    assert problem(answer)["detail"] == "no contract is published under the id hospital.admissions"


def test_a_report_is_kept_once_and_shown(client: Any, make_contract: MakeContract) -> None:
    client.post(CONTRACTS, make_contract())
    first, again = (client.post(BATCHES, orjson.dumps(REPORT)) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == {"stream": "hospital.admissions", "epoch": 1, "n": 1}
    (stream,) = client.get("/api/v1/streams").json()["streams"]
    assert stream == client.get("/api/v1/streams/hospital.admissions").json() | {
        "sparkline": stream["sparkline"]
    }
    assert stream["totals"] == {
        "batches": 1,
        "records": 1000,
        "written": 970,
        "warned": 4,
        "alerted": 0,
        "quarantined": 29,
        "dropped": 1,
        "refused_share": 0.03,
    }
    time = {"since": "2026-07-01T12:00:00Z", "until": "2026-07-01T14:00:00+02:00"}
    assert problem(client.get(BATCHES, params=time))["detail"] == "the range is empty"
    time["until"] = "2026-07-01T12:01:00Z"
    assert client.get(BATCHES, params=time).json() == {"batches": [REPORT], "older": None}
    refusals = client.get("/api/v1/streams/hospital.admissions/refusals", params={**time, "buckets": 2})
    assert refusals.json() == {
        "buckets": [
            {
                "start": "2026-07-01T12:00:00Z",
                "end": "2026-07-01T12:00:30Z",
                "counts": [{"stage": "rule", "code": "age-is-known", "records": 30}],
            },
            {"start": "2026-07-01T12:00:30Z", "end": "2026-07-01T12:01:00Z", "counts": []},
        ]
    }


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"records": 999}, ""),
        ({"warned": 971}, ""),
        ({"n": 2**63}, "/n"),
        ({"started_at": "2026-07-01T12:00:00"}, "/started_at"),
        ({"records": "many"}, "/records"),
        ({"rules": REPORT["rules"] * 2}, ""),
        ({"end": {"0": -1}}, "/end/0"),
    ],
)
@only_sqlite
def test_a_report_that_cannot_be_answers_422_with_the_place(
    client: Any, change: dict[str, Any], pointer: str
) -> None:
    answer = client.post(BATCHES, orjson.dumps(REPORT | change))
    assert answer.status_code == 422
    assert [one["pointer"] for one in problem(answer)["errors"]] == [pointer]
    assert client.get("/api/v1/streams").json() == {"streams": []}


@only_sqlite
@pytest.mark.usefixtures("published")
def test_a_field_of_a_newer_job_is_ignored_and_not_kept(client: Any) -> None:
    assert client.post(BATCHES, orjson.dumps(REPORT | {"payload": "x"})).is_success
    kept = client.get(BATCHES, params={"since": "2026-07-01T12:00:00Z"}).json()
    assert kept == {"batches": [REPORT], "older": None}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/streams/nobody", 404),
        ("GET", "/api/v1/streams/nobody/batches", 404),
        ("GET", "/api/v1/streams/nobody/refusals", 404),
        ("GET", f"{CONTRACTS}/by-registry-id/1", 404),
        ("GET", f"{CONTRACTS}/by-registry-id/0", 422),
        ("GET", f"{CONTRACTS}?limit=0", 422),
        ("GET", f"{CONTRACTS}?offset=99999999999999999999", 422),
        ("GET", f"{CONTRACTS}?status=gone", 422),
        ("GET", "/api/v1/streams/nobody/batches?since=yesterday", 422),
        ("GET", "/api/v1/streams/nobody/batches?since=2026-07-01T00:00:00", 422),
        ("GET", "/api/v1/streams/nobody/batches?until=0001-01-01T00:00:00Z", 422),
        ("GET", "/api/v1/streams/nobody/batches?since=9999-12-31T23:59:59Z", 422),
        ("DELETE", CONTRACTS, 405),
        ("PUT", "/health/live", 405),
    ],
)
def test_every_error_is_a_problem_document(client: Any, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    problem(answer)


def test_405_names_the_methods_that_exist(client: Any) -> None:
    assert client.request("DELETE", "/health/live").headers["allow"] == "GET"


def test_a_crash_is_logged_and_hidden(client: Any) -> None:
    def crash() -> None:
        raise RuntimeError("the secret of the machine room")

    client.app.add_api_route("/crash", crash)
    with capture_logs() as logs:
        answer = client.get("/crash")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert problem(answer)["title"] == "The registry failed"
    assert [(log["event"], log["path"], str(log["exc_info"])) for log in logs] == [
        ("request_crashed", "/crash", "the secret of the machine room")
    ]
    assert "content-security-policy" in answer.headers


def test_without_its_database_the_registry_answers_503_and_when_to_try_again(
    client: Any, factory: Factory
) -> None:
    factory.database.migrate("base")
    for path in ("/health/ready", CONTRACTS, "/api/v1/streams"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "2"
        problem(answer)
    assert client.get("/health/live").json() == {"status": "live"}
    factory.database.migrate()
    assert client.get("/health/ready").status_code == 200


def test_every_answer_forbids_what_a_browser_must_not_do(client: Any) -> None:
    for path in ("/health/live", "/nothing", "/docs", "/openapi.json", "/"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_root_leads_to_the_desk(client: Any) -> None:
    answer = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["location"]) == (307, "/desk")


@only_sqlite
@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("what", ["batches", "refusals", "expectations"])
def test_a_range_at_the_ends_of_the_calendar_is_refused(client: Any, what: str) -> None:
    assert client.post(BATCHES, orjson.dumps(REPORT)).status_code == 201
    path = BATCHES.replace("batches", what)
    ends = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-14:00"}
    whole = {"since": "1970-01-01T00:00:00Z", "until": "9998-12-31T23:59:59Z"}
    for time in (ends, {"until": ends["since"]}, whole | {"until": ends["until"]}):
        assert problem(client.get(path, params=time))["status"] == 422
    assert client.get(path, params=whole).status_code == 200
