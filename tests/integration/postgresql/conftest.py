"""An empty database, and a table in it as the sink sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from tests.postgresql import Postgresql, for_psycopg
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable

CONTRACT_ID = "hospital.admissions"


@pytest.fixture
def url(postgresql: Postgresql) -> Iterator[str]:
    """The address of an empty database, as libpq takes it."""
    with postgresql.database(template="template0") as url:
        yield for_psycopg(url)


@pytest.fixture
def make_table(url: str) -> Callable[..., PostgresqlTable]:
    """Return a function that opens the table of a contract: `make_table("hospital.admissions", write_mode="upsert")`."""

    def make(contract_id: str = CONTRACT_ID, **settings: object) -> PostgresqlTable:
        base = {
            "bootstrap_servers": "none:0",
            "registry_url": "http://none",
            "warehouse": "/w",
            "checkpoints": "/c",
        }
        given = {**base, "sink": "postgresql", "postgresql_url": SecretStr(url), **settings}
        return PostgresqlTable(JobSettings.model_validate(given), contract_id)

    return make
