"""`tidegate shadow` and `tidegate promote`, against a registry that listens on a socket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import CONTRACT, Ran, Run
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
DRAFT = CONTRACT.replace("version: 1.2.0", "version: 1.3.0\nstatus: draft").replace("[999]", "[999, 998]")


def lines(ran: Ran) -> list[str]:
    """What the command said: the registry, in this process too, logs before it."""
    return [
        line for line in ran.stdout.decode().splitlines() if not line.startswith("{") and "[info" not in line
    ]


@pytest.fixture(autouse=True)
def draft(registry: str, factory: Factory) -> None:
    del registry
    factory.registry().publish(DRAFT.encode(), "contract.yaml")


def test_a_draft_is_tried_on_live_records_and_then_enforced(
    tidegate: Run, factory: Factory, make_report: MakeReport
) -> None:
    nothing_yet = tidegate("shadow", STREAM)
    assert nothing_yet.returncode == 2
    assert b"no batch of hospital.admissions was judged by a shadow yet" in nothing_yet.stderr
    declared = tidegate("shadow", STREAM, "1.3.0")
    assert (declared.returncode, lines(declared)[-1]) == (0, f"{STREAM} is judged by 1.3.0 too")
    rule = {"stage": "rule", "code": "age-is-known", "severity": "error", "records": 1612}
    reason = {"stage": "rule", "code": "age-is-known", "pointer": "/age"}
    sample = {"partition": 1, "offset": 1204, "change": "refuse", "reasons": [reason]}
    result = {
        "version": "1.3.0",
        "compared": 98000,
        "would_refuse": 1612,
        "refused_by": [rule],
        "samples": [sample],
    }
    factory.reports().record(STREAM, make_report(1, shadow=result))
    found = lines(tidegate("shadow", STREAM))
    assert "98,000 records in 1 batches since 2026-07-01 12:00:00 UTC" in found[-5]
    assert [line.split() for line in found[-4:]] == [
        ["1,612", "would", "refuse"],
        ["1,612", "rule", "age-is-known"],
        ["0", "would", "newly", "accept"],
        ["refuse", "1/1204:", "age-is-known", "/age"],
    ]
    shown = tidegate("promote", STREAM, "1.3.0")
    assert shown.returncode == 1  # it refuses accepted records, and no consumer has agreed
    text = "\n".join(lines(shown))
    assert f"{STREAM} 1.3.0 (draft); enforced is 1.2.0" in text
    assert "breaking" in text
    assert "1,612  would refuse" in text
    assert factory.registry().version(STREAM, "latest").version == "1.2.0"
    refused = tidegate("promote", STREAM, "1.3.0", "--yes")
    assert refused.returncode == 1
    assert b"is not compatible" in refused.stderr
    ended = tidegate("shadow", STREAM, "--off")
    assert (ended.returncode, lines(ended)[-1]) == (0, f"{STREAM} has no shadow any more")


def test_a_new_major_version_is_promoted_and_said_to_be_untried(tidegate: Run, factory: Factory) -> None:
    factory.registry().publish(DRAFT.replace("1.3.0", "2.0.0").encode(), "contract.yaml")
    shown = tidegate("promote", STREAM, "2.0.0")
    assert shown.returncode == 0
    assert lines(shown)[-2:] == [
        f"it was not tried on live records; tidegate shadow {STREAM} 2.0.0 does that",
        "nothing was changed; --yes promotes it",
    ]
    done = tidegate("promote", STREAM, "2.0.0", "--yes")
    assert (done.returncode, lines(done)[-1]) == (0, f"{STREAM} 2.0.0 is enforced from the next batch on")
    assert factory.registry().version(STREAM, "latest").version == "2.0.0"


def test_what_is_no_shadow_or_no_version_says_so(tidegate: Run) -> None:
    for arguments, code, told in (
        (("shadow", STREAM, "1.2.0"), 1, b"is the version that is enforced"),
        (("shadow", STREAM, "7.0.0"), 2, b"has no version 7.0.0"),
        (("shadow", STREAM, "1.3.0", "--off"), 2, b"give a VERSION or --off"),
        (("promote", STREAM, "7.0.0"), 2, b"has no version 7.0.0"),
    ):
        ran = tidegate(*arguments)
        assert (ran.returncode, told in ran.stderr) == (code, True), ran.stderr
