"""Refused requests are counted and logged, and no flood of them fills the log."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from tidegate.gateway.access.denials import Denials

from .conftest import Hire, Person


def test_a_refusal_is_logged_with_who_asked_and_counted(client: Any, hire: Hire, admin: Person) -> None:
    viewer = hire("viewer:a.")
    with capture_logs() as logs:
        assert client.get("/api/v1/contracts").status_code == 401
        assert viewer.ask("PUT", "/mode", {"mode": "READONLY"}).status_code == 403
    refused = [
        (log["status"], log["who"], log["method"], log["path"])
        for log in logs
        if log["event"] == "request_refused"
    ]
    assert refused == [(401, refused[0][1], "GET", "/api/v1/contracts"), (403, viewer.name, "PUT", "/mode")]
    assert refused[0][1].startswith("address:")
    metrics = admin.ask("GET", "/metrics").text
    assert 'tidegate_refused_requests_total{status="401"} 1.0' in metrics
    assert 'tidegate_refused_requests_total{status="403"} 1.0' in metrics
    assert "tidegate_refused_requests_total" not in viewer.ask("GET", "/metrics").text


def test_a_flood_fills_neither_log_nor_memory() -> None:
    seconds = 0.0
    denials = Denials(lambda: seconds)
    with capture_logs() as logs:
        for number in range(5000):
            denials.add(401, f"address:{number}", "GET", "/x\u202e\n" * 1000)
        assert len(logs) == 1001
        assert max(len(str(log)) for log in logs) < 2000
        seconds = 61.0
        denials.add(401, "address:1", "GET", "/")
    assert [log["requests"] for log in logs if log["event"] == "requests_refused_again"] == [3999]
    assert denials.totals == {401: 5001}
