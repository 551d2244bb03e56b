"""`tidegate audit-table`: real tables, written by their own libraries, audited whole and by what was added since."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.postgresql import Postgresql
from tidegate.gateway.cli import audit_table as module

from .conftest import Run

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.stays
version: 1.0.0
topic: hospital.stays
schema:
  type: json-schema
  definition:
    type: object
    additionalProperties: false
    required: [id, age]
    properties:
      id: {type: string}
      age: {type: integer}
      charge: {type: number, multipleOf: 0.25}
      admitted: {type: string, format: date}
      sent: {type: string, format: date-time}
classification: {/id: personal}
rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
expectations:
  - {id: plausible-age, type: expect_column_mean_to_be_between, kwargs: {column: age, min_value: 0, max_value: 50}}
  - {id: many, type: expect_column_median_to_be_between, kwargs: {column: age, min_value: 0, max_value: 50}}
"""
AVRO_CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.stays
version: 1.0.0
topic: hospital.stays
framing: confluent-prefix
schema:
  type: avro
  definition: {type: record, name: Stay, fields: [{name: id, type: string}, {name: age, type: int}]}
rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
"""
TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("age", pa.int32()),
        ("charge", pa.decimal128(9, 2)),
        ("admitted", pa.date32()),
        ("sent", pa.timestamp("us", "UTC")),
    ]
)


def rows(first: int, count: int, **changes: Any) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": f"A{n}",
                "age": 999 if n % 10 == 0 else n % 90,
                "charge": Decimal(n) / 4,
                "admitted": None if n % 2 else date(2024, 1, 1),
                "sent": datetime(2024, 1, 1, tzinfo=UTC),
                **changes,
            }
            for n in range(first, first + count)
        ],
        TYPES,
    )


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "stays.yaml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[Table]:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = SqlCatalog("test", uri=uri, warehouse=warehouse)
    catalog.create_namespace("hospital")
    yield catalog.create_table("hospital.stays", TYPES)
    catalog.close()


class Auditor:
    """Audits a table with a state, and gives the report."""

    def __init__(self, tidegate: Run, table: object, contract: Path, state: Path, *options: str) -> None:
        self._run = lambda: tidegate(
            "audit-table", table, contract, "--state", state, "--format", "json", *options
        )

    def __call__(self, returncode: int = 1) -> dict[str, Any]:
        ran = self._run()
        assert ran.returncode == returncode, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    def counts(self, returncode: int = 1) -> tuple[int, int, bool, str | None]:
        found = self(returncode)
        return found["rows"], found["refused"], not found["is_whole"], found["reason"]


def test_a_table_is_audited_and_no_value_of_a_classified_field_is_shown(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    table = rows(0, 20).append_column("_source", pa.array([{"offset": n} for n in range(20)]))
    table = table.append_column("_contract", pa.array(["c"] * 20))
    write_deltalake(tmp_path / "stays", table)
    ran = tidegate("audit-table", tmp_path / "stays", contract)
    text = ran.stdout.decode()
    assert ran.returncode == 1
    assert "Delta table stays: all rows, up to version 0" in text
    assert "hospital.stays 1.0.0 · 20 rows judged" in text.replace("records judged", "rows judged")
    assert "age-is-known" in text
    assert ".parquet row 1  " in text
    assert "met      plausible-age" in text
    assert "skipped  many" in text
    assert "A10" not in text


def test_only_appended_rows_of_delta_are_judged_again(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stays"
    write_deltalake(folder, rows(0, 20))
    audit = Auditor(tidegate, folder, contract, tmp_path / "state.json")
    assert audit.counts() == (20, 2, False, None)
    assert audit.counts(0) == (0, 0, True, None)
    write_deltalake(folder, rows(20, 5), mode="append")
    write_deltalake(folder, rows(25, 10), mode="append")
    found = audit()
    assert (found["rows"], found["is_whole"], found["since"], found["version"]) == (15, False, "0", "2")
    DeltaTable(folder).optimize.compact()
    assert audit.counts() == (35, 4, False, "version 3 did more than add rows")
    DeltaTable(folder).delete("age = 999")
    assert audit.counts(0) == (31, 0, False, "version 4 did more than add rows")
    write_deltalake(folder, rows(41, 2), mode="append")
    assert audit.counts(0) == (2, 0, True, None)


def test_only_appended_rows_of_iceberg_are_judged_again(
    tidegate: Run, contract: Path, iceberg: Table, tmp_path: Path
) -> None:
    folder = Path(iceberg.location().removeprefix("file://"))
    audit = Auditor(tidegate, folder, contract, tmp_path / "state.json")
    iceberg.append(rows(0, 20))
    assert audit.counts() == (20, 2, False, None)
    iceberg.append(rows(20, 5))
    iceberg.append(rows(25, 10))
    assert audit.counts() == (15, 2, True, None)
    assert audit.counts(0) == (0, 0, True, None)
    iceberg.delete("age = 999")
    counts = audit.counts(0)
    assert counts[:3] == (31, 0, False)
    assert "did more than add rows" in str(counts[3])


def test_a_changed_contract_judges_all_rows(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    folder, state = tmp_path / "stays", tmp_path / "state.json"
    write_deltalake(folder, rows(0, 20))
    audit = Auditor(tidegate, folder, contract, state)
    audit()
    contract.write_text(CONTRACT.replace("[999]", "[999, 1]"))
    assert audit.counts() == (20, 3, False, None)
    state.write_text("{")
    ran = tidegate("audit-table", folder, contract, "--state", state)
    assert (ran.returncode, b"delete it to audit all rows" in ran.stderr) == (2, True)
    state.unlink()
    audit()
    write_deltalake(tmp_path / "other", rows(0, 1))
    ran = tidegate("audit-table", tmp_path / "other", contract, "--state", state)
    assert (ran.returncode, b"give each table a file of its own" in ran.stderr) == (2, True)


@pytest.mark.parametrize("name", ["none/state.json", f"{'x' * 250}.json"])
def test_a_state_that_cannot_be_written_is_refused_before_the_table_is_read(
    tidegate: Run, contract: Path, tmp_path: Path, name: str
) -> None:
    state = tmp_path / name
    ran = tidegate("audit-table", tmp_path / "no-table", contract, "--state", state)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert f"cannot write the state of the audit to {state}: " in ran.stderr.decode()


@pytest.mark.parametrize("state", [".", "/"])
def test_a_folder_is_no_state(tidegate: Run, contract: Path, tmp_path: Path, state: str) -> None:
    ran = tidegate("audit-table", tmp_path / "no-table", contract, "--state", state)
    assert (ran.returncode, b"cannot be read as the state of an audit" in ran.stderr) == (2, True)


def test_an_audit_leaves_nothing_but_its_state(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "stays", rows(1, 2))
    state = tmp_path / "states" / "state.json"
    state.parent.mkdir()
    assert tidegate("audit-table", tmp_path / "none", contract, "--state", state).returncode == 2
    assert list(state.parent.iterdir()) == []
    assert tidegate("audit-table", tmp_path / "stays", contract, "--state", state).returncode == 0
    assert list(state.parent.iterdir()) == [state]


def test_a_state_whose_folder_goes_away_meanwhile_is_no_bug(
    tidegate: Run, contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path / "stays", rows(1, 2))
    state = tmp_path / "states" / "state.json"
    state.parent.mkdir()
    monkeypatch.setattr(module, "print_summary", lambda *_, **__: rmtree(state.parent))
    ran = tidegate("audit-table", tmp_path / "stays", contract, "--state", state)
    assert ran.returncode == 2
    assert f"cannot write the state of the audit to {state}: No such file or directory" in ran.stderr.decode()
    assert b"the next audit judges these rows again" in ran.stderr


def test_a_table_that_replaced_the_audited_one_is_audited_whole(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "stays"
    write_deltalake(folder, rows(0, 20))
    audit = Auditor(tidegate, folder, contract, tmp_path / "state.json")
    audit()
    rmtree(folder)
    write_deltalake(folder, rows(0, 30))
    write_deltalake(folder, rows(30, 5), mode="append")
    assert audit.counts() == (35, 4, False, "the table was replaced by another of its name")


def test_rows_that_the_schema_of_avro_cannot_hold_are_unreadable(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    contract.write_text(AVRO_CONTRACT)
    folder, state = tmp_path / "stays", tmp_path / "state.json"
    ages = pa.array([5, None, 999, 7, None], pa.int32())
    write_deltalake(folder, pa.table({"id": ["A1", "A2", "A3", "A4", "A5"], "age": ages}))
    found = Auditor(tidegate, folder, contract, state, "--show", "1")()
    assert (found["rows"], found["refused"], found["unreadable"]) == (3, 1, 2)
    (refused,), (unreadable,) = found["examples"], found["unreadable_examples"]
    assert refused["place"].endswith(".parquet row 3")
    assert unreadable["place"].endswith(".parquet row 2")
    assert unreadable["pointer"] == "/age"
    write_deltalake(folder, pa.table({"id": ["A6"], "age": ages[:1]}), mode="append")
    assert Auditor(tidegate, folder, contract, state).counts(0) == (1, 0, True, None)
    write_deltalake(folder, pa.table({"id": ["A7"], "age": ages[1:2]}), mode="append")
    ran = tidegate("audit-table", folder, contract, "--state", state)
    assert (ran.returncode, b"unreadable  1" in ran.stdout) == (1, True)


def test_an_expectation_that_is_not_met_is_a_finding(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "stays", rows(1, 12, age=80))
    found = Auditor(tidegate, tmp_path / "stays", contract, tmp_path / "state.json")()
    assert (found["refused"], found["violations"]) == (0, [])
    assert [(each["id"], each["outcome"]) for each in found["expectations"]] == [
        ("plausible-age", "quarantined"),
        ("many", "skipped"),
    ]


@pytest.mark.full  # imports Great Expectations in a process of its own
def test_expectations_are_written_as_data_docs(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "stays", rows(1, 12, age=80))
    page = tmp_path / "docs.html"
    ran = tidegate("audit-table", tmp_path / "stays", contract, "--data-docs", page)
    assert ran.returncode == 1, ran.stderr
    text = page.read_text()
    assert "hospital.stays@1.0.0" in text
    assert "Delta table stays: all rows, up to version 0" in text
    assert "A10" not in text
    ran = tidegate(
        "audit-table", tmp_path / "stays", contract, "--data-docs", tmp_path / "none" / "docs.html"
    )
    assert (ran.returncode, b"cannot write" in ran.stderr) == (2, True)


def test_what_is_no_table_is_refused(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    ran = tidegate("audit-table", tmp_path, contract)
    assert (ran.returncode, b"is no table" in ran.stderr) == (2, True)
    write_deltalake(tmp_path / "stays", rows(0, 1))
    ran = tidegate("audit-table", tmp_path / "stays", contract, "--column", "id")
    assert (ran.returncode, b"--column concerns tables of PostgreSQL" in ran.stderr) == (2, True)


@pytest.mark.full  # a database of its own
def test_rows_of_postgresql_are_judged_by_a_column_that_rises(
    tidegate: Run, contract: Path, postgresql: Postgresql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgresql.database() as url:
        address = url.replace("+psycopg", "")
        monkeypatch.setenv("TIDEGATE_POSTGRESQL_URL", address)
        with psycopg.connect(address, autocommit=True) as connection:
            insert = partial(_insert, connection)
            connection.execute("CREATE TABLE stays (id text, age int, charge numeric, _source bigint)")
            insert(("A1", 999, 0.25, 8), ("A2", 4, 0.3, 9), ("A3", 5, 0.5, None))
            audit = Auditor(
                tidegate, "postgresql:stays", contract, tmp_path / "state.json", "--column", "_source"
            )
            assert audit.counts() == (3, 2, False, None)
            insert(("A4", 5, 0.5, 10))
            found = audit(0)
            assert (found["rows"], found["is_whole"]) == (2, False), (
                "the one without a value is judged each time"
            )
            assert (found["since"], found["version"]) == (None, None), (
                "a value of a row is no name of a version"
            )
            assert audit.counts(0) == (1, 0, True, None)
            connection.execute("DELETE FROM stays WHERE _source >= 9")
            assert audit.counts() == (2, 1, False, "the highest _source is below the one of the last audit")
            other = Auditor(tidegate, "postgresql:stays", contract, tmp_path / "state.json", "--column", "id")
            assert other.counts() == (2, 1, False, "the last audit went by the column _source")
            assert other.counts(0) == (0, 0, True, None)
            whole = Auditor(tidegate, "postgresql:stays", contract, tmp_path / "whole.json")
            assert whole.counts()[:2] == whole.counts()[:2] == (2, 1)
            connection.execute("ALTER TABLE stays ADD whole jsonb")
        for column, message in (("whole", b"no values that rise"), ("none", b"no such column")):
            ran = tidegate("audit-table", "postgresql:stays", contract, "--column", column)
            assert (ran.returncode, message in ran.stderr) == (2, True)


def _insert(connection: psycopg.Connection[Any], *stays: tuple[object, ...]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO stays VALUES (%s, %s, %s, %s)", stays)
