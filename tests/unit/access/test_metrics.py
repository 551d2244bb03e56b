"""Metrics name streams: each principal gets those that it may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.gateway.http.models.examples import REPORT

from .conftest import Hire, Person


def test_metrics_are_of_what_one_may_see(
    admin: Person, hire: Hire, make_contract: Callable[..., bytes]
) -> None:
    for name in ("hospital.admissions", "nyc.flights"):
        admin.ask("POST", "/api/v1/contracts", make_contract(id=name, topic=name))
        report: dict[str, Any] = REPORT | {"stream": name, "topic": name}
        report |= {"quarantine_topic": f"{name}.quarantine", "contract": f"{name}@1.2.0"}
        assert admin.ask("POST", f"/api/v1/streams/{name}/batches", report).status_code == 201
        assert admin.ask("POST", f"/api/v1/streams/{name}/pause", {}).status_code == 200
    assert admin.client.get("/metrics").status_code == 401
    everything = admin.ask("GET", "/metrics").text
    assert "hospital.admissions" in everything
    assert "nyc.flights" in everything
    seen = hire("viewer:hospital.").ask("GET", "/metrics")
    assert seen.status_code == 200
    assert "hospital.admissions" in seen.text
    assert "nyc" not in seen.text
