from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.serve import WebServerWarnings, listen, require_access_control, run
from tidegate.gateway.settings import GatewaySettings


def test_the_socket_is_known_as_tcp_so_that_small_answers_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
        assert listening.getsockname()[1] > 0


def test_an_address_of_another_machine_is_a_wrong_setting() -> None:
    reason = "192.0.2.1:8081 cannot be listened on: Cannot assign requested address; choose another"
    with pytest.raises(SettingsError, match=f"^{reason}"):
        listen("192.0.2.1", 8081)


def test_a_port_in_use_is_a_wrong_setting() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(SettingsError, match="Address already in use"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize("given", [{}, {"access": "off"}])
def test_an_address_that_others_reach_needs_access_control(given: dict[str, str], tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/registry.db"
    settings = GatewaySettings.model_validate(
        {"host": "0.0.0.0", "port": 0, "database_url": database, **given}  # noqa: S104 - what is under test
    )
    with pytest.raises(
        SettingsError, match=r"^0\.0\.0\.0 can be reached from other machines.*TIDEGATE_ACCESS=on"
    ):
        run(settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("host", "access", "expected"), [
    ("127.0.0.1", None, ["access_control_off"]),
    ("localhost", "off", ["access_control_off"]),
    ("127.0.0.1", "on", []),
    ("0.0.0.0", "on", []),  # noqa: S104 - what is under test; closed at once
])  # fmt: skip
def test_the_log_warns_when_access_control_is_off(host: str, access: str | None, expected: list[str]) -> None:
    settings = GatewaySettings.model_validate({"host": host, "access": access})
    with listen(host, 0) as listening, capture_logs() as logs:
        require_access_control(settings, listening)
    assert [log["event"] for log in logs] == expected


def test_invalid_requests_do_not_fill_the_log() -> None:
    seconds = 0.0
    passes = WebServerWarnings(lambda: seconds)
    invalid = logging.LogRecord(
        "uvicorn.error", logging.WARNING, "httptools_impl.py", 1, "Invalid HTTP request received.", None, None
    )
    ours = logging.LogRecord("tidegate.a", logging.WARNING, "a.py", 1, "a", None, None)
    failure = logging.LogRecord("uvicorn.error", logging.ERROR, "httptools_impl.py", 1, "a", None, None)
    assert [passes.filter(invalid) for _ in range(3)] == [True, False, False]
    assert [passes.filter(each) for each in (ours, ours, failure, failure)] == [True] * 4
    seconds = 61.0
    assert passes.filter(invalid)
