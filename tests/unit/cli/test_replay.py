"""What `tidegate replay` and `tidegate discard` refuse before they look at any record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.gateway.exits import ExitCode

from .conftest import Run


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings of a registry and brokers that do not answer."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TIDEGATE_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("TIDEGATE_WAREHOUSE", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("replay", "s", "--where", "rule=r", "--rate", "1000000001"),
            "'1000000001' is not a whole number from 1 to 1,000,000,000",
        ),
        (
            ("discard", "s", "--where", "rule=r", "--reason", "x" * 501),
            "a reason has 1 to 500 characters, and this one has 501",
        ),
    ],
)
def test_what_no_request_can_hold_is_a_mistake_of_usage(
    tidegate: Run, arguments: tuple[str, ...], message: str
) -> None:
    ran = tidegate(*arguments)
    assert ran.returncode == ExitCode.USAGE, ran.stderr.decode()
    assert message in " ".join(ran.stderr.decode().replace("│", "").split())


@pytest.mark.parametrize("reason", ["", "   ", "\t\n"])
def test_a_discard_needs_a_reason_that_says_something(tidegate: Run, reason: str) -> None:
    ran = tidegate("discard", "s", "--where", "rule=r", "--reason", reason)
    assert ran.returncode == ExitCode.USAGE, ran.stderr.decode()
    assert "the reason is blank: say why" in ran.stderr.decode()
