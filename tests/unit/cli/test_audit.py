"""`tidegate audit`: exports, checks, and the result of a check of a changed log."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditedAction
from tidegate.gateway.storage.database import Database

from .conftest import Run

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def heads(database_url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A log of five entries; the hash of each."""
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", database_url)
    database = Database(database_url)
    changes = [
        AuditedAction(NOON, "key:a", "contract.published", f"ä{n}-value", None, "f" * 64) for n in range(5)
    ]
    added = database.write(lambda stores: [stores.audit.append(change).hash for change in changes])
    database.close()
    return added


def tamper(database_url: str, *statements: str) -> None:
    """Change the log as the owner of the database: without the triggers."""
    engine = create_engine(database_url)
    off = {
        "sqlite": ("DROP TRIGGER audit_refuses_update", "DROP TRIGGER audit_refuses_delete"),
        "postgresql": ("DROP TRIGGER audit_only_grows ON audit",),
    }
    with engine.begin() as connection:
        for statement in (*off[engine.dialect.name], *statements):
            connection.execute(text(statement))
    engine.dispose()


def test_an_untouched_log_is_intact_in_the_database_and_as_a_file(
    tidegate: Run, heads: list[str], tmp_path: Path
) -> None:
    said = f"5 entries, intact, head {heads[-1]}\n".encode()
    assert tidegate("audit", "verify").stdout == said
    assert tidegate("audit", "export", "-o", tmp_path / "log").returncode == 0
    assert (tmp_path / "log").read_bytes() == tidegate("audit", "export").stdout
    for head in (*heads, NO_ENTRY):
        checked = tidegate("audit", "verify", tmp_path / "log", "--head", head)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, said, b"")


def test_a_line_can_be_checked_with_other_tools(tidegate: Run, heads: list[str]) -> None:
    lines = tidegate("audit", "export").stdout.splitlines()
    for line, head in zip(lines, heads, strict=True):
        without = line.replace(f'"hash":"{head}",'.encode(), b"")
        assert hashlib.sha256(without).hexdigest() == json.loads(line)["hash"] == head


@pytest.mark.parametrize(
    ("statement", "at"),
    [
        ("UPDATE audit SET who = 'key:b' WHERE number = 3", 3),
        ("UPDATE audit SET before = after WHERE number = 1", 1),
        ("UPDATE audit SET at = at + 1 WHERE number = 5", 5),
        ("DELETE FROM audit WHERE number = 2", 2),
        ("DELETE FROM audit WHERE number = 1", 1),
        ("UPDATE audit SET hash = previous WHERE number = 4", 4),
        ("UPDATE audit SET number = 9 WHERE number = 4", 4),
    ],
)
def test_a_touched_log_breaks_at_the_place_that_was_touched(
    tidegate: Run, database_url: str, heads: list[str], statement: str, at: int
) -> None:
    tamper(database_url, statement)
    checked = tidegate("audit", "verify")
    assert (checked.returncode, checked.stdout) == (1, b"")
    said = checked.stderr.decode()
    assert said.startswith(f"the chain breaks at entry {at}: ")
    assert f"entries 1 to {at - 1} are intact, head {heads[at - 2] if at > 1 else NO_ENTRY}" in said


@pytest.mark.parametrize("left", [4, 3, 0])
def test_an_end_that_was_cut_off_shows_without_a_noted_head(
    tidegate: Run, database_url: str, heads: list[str], left: int
) -> None:
    tamper(database_url, f"DELETE FROM audit WHERE number > {left}")  # noqa: S608 - a number
    checked = tidegate("audit", "verify")
    assert (checked.returncode, checked.stdout) == (1, b"")
    said = f"the chain breaks at entry {left + 1}: the log ends there, and should go on to entry 5, hash {heads[4]}"
    assert said.encode() in checked.stderr


def test_an_end_that_was_cut_off_shows_after_further_entries(
    tidegate: Run, database_url: str, heads: list[str]
) -> None:
    tamper(database_url, "DELETE FROM audit WHERE number > 3")
    database = Database(database_url)
    added = database.write(
        lambda stores: stores.audit.append(AuditedAction(NOON, "key:b", "key.created", "key:c"))
    )
    database.close()
    assert (added.number, added.previous) == (6, heads[4])
    checked = tidegate("audit", "verify")
    assert checked.returncode == 1
    assert b"the chain breaks at entry 4: the entry numbered 6 stands where 4 should" in checked.stderr


@pytest.mark.usefixtures("heads")
def test_a_missing_record_of_the_head_breaks_the_chain(tidegate: Run, database_url: str) -> None:
    tamper(database_url, "DELETE FROM audit_head")
    checked = tidegate("audit", "verify")
    assert checked.returncode == 1
    assert b"the record of the head is missing" in checked.stderr


def test_a_log_without_its_end_and_with_a_rewritten_head_shows_with_a_head_that_was_noted(
    tidegate: Run, database_url: str, heads: list[str]
) -> None:
    tamper(
        database_url,
        "DELETE FROM audit WHERE number > 3",
        f"UPDATE audit_head SET number = 3, hash = '{heads[2]}'",  # noqa: S608 - a hash
    )
    assert tidegate("audit", "verify").returncode == 0
    assert tidegate("audit", "verify", "--head", heads[2]).returncode == 0
    checked = tidegate("audit", "verify", "--head", heads[4])
    assert checked.returncode == 1
    assert f"none of them has the hash {heads[4]}: the end was cut off".encode() in checked.stderr


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("heads")
def test_a_file_that_is_no_log_breaks_at_its_first_line_and_a_wrong_head_is_wrong_usage(
    tidegate: Run, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("hello\n")
    checked = tidegate("audit", "verify", tmp_path / "log")
    assert checked.returncode == 1
    assert checked.stderr.startswith(b"the chain breaks at entry 1: the line is no entry")
    for head in ("abc", "F" * 64):
        assert tidegate("audit", "verify", "--head", head).returncode == 2
    assert tidegate("audit", "verify", tmp_path / "nothing").returncode == 2
    assert tidegate("audit", "export", "-o", tmp_path / "no" / "folder").returncode == 2
    assert tidegate("audit", "verify", "--database-url", "oracle://x").returncode == 2


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_check_names_the_database_that_it_has_read(
    tidegate: Run, database_url: str, heads: list[str]
) -> None:
    checked = tidegate("audit", "verify")
    assert (checked.returncode, checked.stderr.decode()) == (0, f"read from the database {database_url}\n")
    tamper(database_url, "DELETE FROM audit WHERE number = 2")
    assert tidegate("audit", "verify").stderr.endswith(f"read from the database {database_url}\n".encode())
    assert heads
