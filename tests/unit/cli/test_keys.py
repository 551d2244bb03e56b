"""`tidegate keys`: made, listed, revoked; a secret is printed once and never again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tidegate.gateway.access.keys import read_token

from .conftest import Run

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def registry(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", database_url)
    monkeypatch.setenv("LOGNAME", "ops")


def test_a_secret_is_printed_when_it_is_made_and_never_again(tidegate: Run) -> None:
    made = tidegate("keys", "create", "admissions job", "--grant", "producer:hospital.", "--grant", "viewer")
    lines = dict(line.split(maxsplit=1) for line in made.stdout.decode().splitlines())
    assert list(lines) == ["key_id", "secret", "token"]
    credentials = read_token(lines["token"])
    assert credentials is not None
    assert (credentials.key_id, credentials.secret) == (lines["key_id"], lines["secret"])
    assert b"shown this once" in made.stderr
    for shown in (
        tidegate("keys", "list"),
        tidegate("keys", "list", "--format=json"),
        tidegate("audit", "export"),
    ):
        assert lines["key_id"].encode() in shown.stdout
        assert lines["secret"].encode() not in shown.stdout + shown.stderr


def test_the_list_says_what_became_of_each_key(tidegate: Run) -> None:
    keys = [
        json.loads(tidegate("keys", "create", name, "--grant", "viewer", "--format=json", *more).stdout)[
            "key_id"
        ]
        for name, more in (("a", ()), ("b", ("--expires", "2999-01-01")), ("c", ()))
    ]
    assert tidegate("keys", "revoke", keys[2]).stdout == f"{keys[2]} revoked\n".encode()
    rows = [line.split() for line in tidegate("keys", "list").stdout.decode().splitlines()]
    assert [(row[0], row[1], row[4], row[5]) for row in rows[1:]] == [
        (keys[0], "a", "cli:ops", "in"),
        (keys[1], "b", "cli:ops", "expires"),
        (keys[2], "c", "cli:ops", "revoked"),
    ]
    listed = [json.loads(line) for line in tidegate("keys", "list", "--format=json").stdout.splitlines()]
    assert [row["expires_at"] for row in listed] == [None, "2999-01-01T00:00:00Z", None]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (
            ("create", "x", "--grant", "root"),
            2,
            "root is not a role; the roles are viewer, reporter, producer",
        ),
        (("create", "x"), 2, "--grant"),
        (("create", "x", "--grant", "viewer", "--expires", "1999-01-01"), 2, "expired already"),
        (("create", " ", "--grant", "viewer"), 2, "needs a name"),
        (("revoke", "0123"), 2, "no key has the id 0123; `tidegate keys list` shows them"),
    ],
)
def test_senseless_options_are_refused(
    tidegate: Run, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    ran = tidegate("keys", *arguments)
    assert (ran.returncode, ran.stdout) == (code, b"")
    assert reason in " ".join(ran.stderr.decode().split())


def test_a_key_is_revoked_once(tidegate: Run) -> None:
    key = json.loads(tidegate("keys", "create", "a", "--grant", "viewer", "--format=json").stdout)["key_id"]
    assert [tidegate("keys", "revoke", key).returncode for _ in range(2)] == [0, 1]


def test_a_new_key_comes_with_the_database_that_keeps_it(tidegate: Run, database_url: str) -> None:
    for output_format in ("text", "json"):
        made = tidegate("keys", "create", "a", "--grant", "viewer", f"--format={output_format}")
        assert f"stored in the database {database_url}\n".encode() in made.stderr


READING = [("keys", "list"), ("keys", "revoke", "3f9c2a71b0de"), ("audit", "verify"), ("audit", "export")]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_commands_that_only_read_refuse_a_database_without_a_registry(
    tidegate: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    def refused(file: Path, reason: str) -> None:
        ran = tidegate(*command, "--database-url", f"sqlite:///{file}")
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert ran.stderr.decode() == (
            f"error: the database sqlite:///{file} {reason}: name the database of the registry with "
            "--database-url or TIDEGATE_DATABASE_URL\n"
        )

    refused(tmp_path / "new" / "mistyped.db", "does not exist")
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty.db").touch()
    refused(tmp_path / "empty.db", "has no tables of a registry")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE a (b)")
    other.close()
    refused(tmp_path / "other.db", "has no tables of a registry")
