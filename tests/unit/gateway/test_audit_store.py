"""The audit log in a database: it grows with the change it tells of, and cannot be made to do anything else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditedAction, AuditEntry, check
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores

NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)


def append(factory: Factory, count: int = 1) -> tuple[AuditEntry, ...]:
    changes = [
        AuditedAction(NOON, "key:a", "contract.published", f"s{n}-value", None, "f" * 64)
        for n in range(count)
    ]
    return factory.database.write(lambda stores: tuple(stores.audit.append(change) for change in changes))


def entries(factory: Factory) -> tuple[AuditEntry, ...]:
    return factory.database.read(lambda stores: tuple(stores.audit.entries()))


def test_entries_come_back_as_they_were_added_and_form_a_chain(factory: Factory) -> None:
    added = append(factory, 3) + append(factory, 2)
    assert entries(factory) == added
    assert [entry.number for entry in added] == [1, 2, 3, 4, 5]
    assert added[0].previous == NO_ENTRY
    assert check(added).is_intact


def test_a_long_log_is_read_some_at_a_time(factory: Factory) -> None:
    added = append(factory, 401)
    assert entries(factory) == added
    assert check(added).entries == 401


def test_a_page_is_oldest_first_and_may_be_of_one_subject(factory: Factory) -> None:
    append(factory, 3)
    append(factory, 3)

    def numbers(after: int, limit: int, subject: str | None = None) -> list[int]:
        return [
            entry.number
            for entry in factory.database.read(lambda stores: stores.audit.page(after, limit, subject))
        ]

    assert numbers(0, 2) == [1, 2]
    assert numbers(4, 10) == [5, 6]
    assert numbers(0, 10, "s1-value") == [2, 5]
    assert numbers(2, 10, "s1-value") == [5]


def test_a_write_that_fails_leaves_no_entry(factory: Factory) -> None:
    def work(stores: Stores) -> None:
        stores.audit.append(AuditedAction(NOON, "key:a", "contract.published", "s-value"))
        raise LookupError

    with pytest.raises(LookupError):
        factory.database.write(work)
    assert entries(factory) == ()


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET who = 'key:b'", "DELETE FROM audit WHERE number = 2"]
)
def test_the_database_refuses_to_change_or_remove_an_entry(factory: Factory, statement: str) -> None:
    added = append(factory, 3)
    engine = Database(factory.settings.database_url.get_secret_value())._engine
    with pytest.raises(DBAPIError, match="the audit log only grows"), engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    assert entries(factory) == added
