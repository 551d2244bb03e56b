"""`tidegate consumers` against a registry that listens on a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.unit.cli.conftest import Run, listening
from tidegate.contracts.document.model import Status
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

ID = "hospital.admissions"


@pytest.fixture
def registry(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a registry, known to every verb."""
    with capture_logs(), listening(factory) as address:
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", address)
        yield address


@pytest.fixture
def published(tidegate: Run, contract: Path, registry: str) -> Path:
    """A published contract with two consumers registered beside it; returns its file."""
    assert registry
    assert tidegate("publish", contract).returncode == 0
    register = ("consumers", "register", ID)
    aged = tidegate(*register, "aged", "--reads", "/age", "--team", "Statistics")
    assert aged.stdout == b"aged registered: aged (Statistics) reads /age, registered by anonymous\n"
    assert tidegate(*register, "warded", "--reads", "/ward").returncode == 0
    return contract


def adults_only(contract: Path, version: str = "1.3.0") -> None:
    text = contract.read_text().replace("1.2.0", version)
    contract.write_text(text.replace("age: {type: integer}", "age: {type: integer, minimum: 18}"))


def test_who_reads_is_registered_listed_changed_and_removed(tidegate: Run, published: Path) -> None:
    assumed = published.parent / "assumes.json"
    assumed.write_text('{"properties": {"age": {"minimum": 0}}}')
    assert tidegate("consumers", "register", ID, "aged", "--assumes", assumed).stdout == (
        b"aged kept: aged reads every field and assumes something, registered by anonymous\n"
    )
    listed = tidegate("consumers", "list", ID)
    assert listed.stdout.decode().splitlines() == [
        "aged reads every field and assumes something, registered by anonymous",
        "warded reads /ward, registered by anonymous",
    ]
    lines = [
        json.loads(line) for line in tidegate("consumers", "list", ID, "--format=json").stdout.splitlines()
    ]
    assert [(one["id"], one["reads"]) for one in lines] == [("aged", []), ("warded", ["/ward"])]
    assert tidegate("consumers", "remove", ID, "warded").stdout == b"warded removed\n"
    assert tidegate("consumers", "remove", ID, "warded").returncode == 2


@pytest.mark.usefixtures("published")
def test_text_of_another_team_cannot_speak_to_the_terminal(tidegate: Run) -> None:
    odd = "\u202e\x1b[2J"
    kept = tidegate("consumers", "register", ID, "aged", "--reads", "/age", "--team", odd)
    said = kept.stdout + tidegate("consumers", "list", ID).stdout
    assert said.count(b"(\\u202e\\u001b[2J)") == 2
    assert all(line.isprintable() for line in said.decode().splitlines())


def test_what_a_change_breaks_who_blocks_it_and_their_agreement(tidegate: Run, published: Path) -> None:
    free = tidegate("consumers", "blocks", published)
    assert (free.returncode, free.stdout) == (0, b"hospital.admissions 1.2.0 breaks nothing (BACKWARD)\n")
    adults_only(published)
    blocked = tidegate("consumers", "blocks", published)
    lines = blocked.stdout.decode().splitlines()
    assert blocked.returncode == 1
    assert lines[0].startswith("schema.minimum-added /age: ")
    assert lines[0].endswith("[breaks aged]")
    assert lines[1:4] == ["affected: aged", "not affected: warded", "to agree: aged"]
    change = json.loads(tidegate("consumers", "blocks", published, "--format=json").stdout)
    assert lines[4] == f"candidate: {change['candidate']}"
    assert tidegate("publish", published).returncode == 1

    agree = ("consumers", "acknowledge", ID, "aged", "--to", change["candidate"], "--by", "Ada")
    assert tidegate(*agree).stdout == f"aged agrees to {change['candidate']}\n".encode()
    assert tidegate(*agree).stdout == f"aged agreed before to {change['candidate']}\n".encode()
    agreed = tidegate("consumers", "blocks", published)
    assert (agreed.returncode, agreed.stdout.splitlines()[-1]) == (0, b"everybody who is affected agreed")
    assert tidegate("publish", published).returncode == 0


def test_a_new_major_version_and_a_break_without_affected_consumers(tidegate: Run, published: Path) -> None:
    adults_only(published, "2.0.0")
    major = tidegate("consumers", "blocks", published)
    assert (major.returncode, major.stdout.splitlines()[-1]) == (
        0,
        b"2.0.0 is a new major version, which needs no agreement",
    )
    tidegate("consumers", "remove", ID, "aged")
    published.write_text(published.read_text().replace("2.0.0", "1.3.0"))
    nobody = tidegate("consumers", "blocks", published).stdout.decode().splitlines()
    assert nobody[1:4] == [
        "affected: no registered consumer",
        "not affected: warded",
        "to agree: an approver, with --breaking",
    ]
    candidate = nobody[4].removeprefix("candidate: ")
    word = tidegate("consumers", "acknowledge", ID, "--breaking", "--to", candidate)
    assert word.stdout == f"an approver agrees to {candidate}\n".encode()
    assert tidegate("publish", published).returncode == 0


@pytest.mark.usefixtures("published")
def test_deprecation_shows_who_still_reads(tidegate: Run, factory: Factory) -> None:
    factory.lifecycle().change_status(ID, "1.2.0", Status.DEPRECATED)
    assert tidegate("consumers", "list", ID).stdout.decode().splitlines()[-1] == (
        "1.2.0 is deprecated and still read by aged, warded"
    )


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("register", ID, "x", "--reads", "/agee"), 1, "did you mean `/age`?"),
        (("list", "nothing"), 2, "no contract is published under the id nothing"),
        (("remove", ID, "agde"), 2, "did you mean aged?"),
        (("acknowledge", ID, "aged"), 2, "Missing option '--to'"),
        (
            ("acknowledge", ID, "--to", "0" * 64),
            2,
            "name the consumer that acknowledges, or use --breaking",
        ),
        (("acknowledge", ID, "aged", "--to", "1.2.0"), 1, "is active and needs no agreement"),
        (("acknowledge", ID, "aged", "--to", "9.9.9"), 2, "has no version 9.9.9"),
        (("list", ID, "--registry", "http://127.0.0.1:1"), 3, "no registry answers"),
    ],
)
def test_impossible_requests_are_refused_with_what_to_do(
    tidegate: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = tidegate("consumers", *arguments)
    assert (ran.returncode, ran.stdout) == (code, b"")
    assert words in " ".join(ran.stderr.decode().replace("│", " ").split())
