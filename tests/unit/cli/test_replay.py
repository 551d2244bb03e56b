"""What `tidegate replay` and `tidegate discard` refuse before they look at any record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.gateway.exits import ExitCode

from .conftest import Run

REQUEST = "0c8f2f0e-6a51-4a0b-9a60-2f6f3c1d7a10"


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
        (("replay", "s", "--request", "7"), "Input should be a valid UUID"),
        *(
            (("replay", "s", "--request", REQUEST, *more), "a request has its records, fix and terms")
            for more in (
                ("--fix", "fix.yaml"),
                ("--rate", "5"),
                ("--allowed", "0.5"),
                ("--append-late",),
                ("--accept-batches",),
                ("--to-source",),
                ("--dry-run",),
            )
        ),
    ],
)
def test_what_no_request_can_hold_is_a_mistake_of_usage(
    tidegate: Run, arguments: tuple[str, ...], message: str
) -> None:
    ran = tidegate(*arguments)
    assert ran.returncode == ExitCode.USAGE, ran.stderr.decode()
    assert message in " ".join(ran.stderr.decode().replace("│", "").split())


def test_a_request_and_a_choice_of_records_do_not_go_together(tidegate: Run) -> None:
    for more in ((), ("--request", REQUEST, "--where", "rule=r")):
        ran = tidegate("replay", "s", *more)
        assert ran.returncode == ExitCode.USAGE, ran.stderr.decode()
        assert "or a request that is kept: --request ID" in " ".join(ran.stderr.decode().split())


@pytest.mark.parametrize("reason", ["", "   ", "\t\n"])
def test_a_discard_needs_a_reason_that_says_something(tidegate: Run, reason: str) -> None:
    ran = tidegate("discard", "s", "--where", "rule=r", "--reason", reason)
    assert ran.returncode == ExitCode.USAGE, ran.stderr.decode()
    assert "the reason is blank: say why" in ran.stderr.decode()
