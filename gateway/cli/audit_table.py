"""`tidegate audit-table`: judge the rows of a table by a contract: all rows, or those added since the last audit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import orjson
import pyarrow as pa
import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.text import Text

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import refuses_null
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.expectations.compile import Partials
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.stream.bounds import MOST_EXPECTATIONS, MOST_RULES
from tidegate.contracts.stream.counts import rule_counts
from tidegate.contracts.stream.decide import Judged, results_of
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.table_audit import DispositionCounts, TableAudit
from tidegate.contracts.words import seen
from tidegate.gateway.cli.judge import Show
from tidegate.gateway.cli.judge_summary import JudgeCounts, print_summary
from tidegate.gateway.cli.judgement import JudgedBlock
from tidegate.gateway.cli.options import ContractFile
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import out, say
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.added_rows import AddedRows, PostgresqlOptions, TableVersion, added_rows
from tidegate.gateway.sources.open_source import naming_extras
from tidegate.gateway.sources.record_files import RecordBlock
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Source

_WORDS: Final = {
    ExpectationOutcome.MET: ("met", "green"),
    ExpectationOutcome.SKIPPED: ("skipped", "dim"),
    ExpectationOutcome.WARNED: ("warning", "yellow"),
}
"""Labels and styles of outcomes; all other outcomes are `not met`, as an audit does not quarantine."""

DATA_DOCS: Final = "tidegate.data_docs"
"""Entry-point group of the function that renders expectations. Only the job may import Great Expectations."""

TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="iceberg:NAMESPACE.TABLE, postgresql:TABLE, or the folder of a Delta or Iceberg table.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Remember here what was audited, and judge only rows that were added since.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", metavar="NAME", help="Column of a PostgreSQL table whose values rise with each row."
    ),
]
DataDocs = Annotated[
    Path | None,
    typer.Option(
        "--data-docs",
        metavar="FILE",
        help="Write the expectations as a page of Great Expectations' Data Docs (HTML); needs the extra spark.",
    ),
]
ToRegistry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Also send the result to this registry, whose desk shows it; the contract must be published there.",
    ),
]
AsFormat = Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the output.")]


class AuditState(BaseModel):
    """The last audit: the table, its version, and the fingerprint of the contract that judged it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    fingerprint: str
    version: TableVersion


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit, with details for the output only: places of rows, and all expectations."""

    result: TableAudit
    plan: EnforcementPlan
    rows: AddedRows
    tally: JudgeCounts
    expectations: tuple[ExpectationResult, ...]

    @property
    def title(self) -> str:
        """Return the name of the table, and which of its rows were judged."""
        rows = self.rows
        which = "all rows" if rows.is_whole else f"rows added after {_version(rows.since)}"
        until = "" if rows.until is None else f", up to {_version(rows.until)}"
        return f"{rows.source.title}: {which}{until}"


def _version(name: str | None) -> str:
    return "the last audit" if name is None else f"version {name}"


def audit_table(  # noqa: PLR0913 - one parameter for each option
    table: TableName,
    contract: ContractFile,
    *,
    state: State = None,
    column: Column = None,
    data_docs: DataDocs = None,
    registry: ToRegistry = None,
    output_format: AsFormat = "text",
    show: Show = 10,
) -> None:
    """Judge the rows of a table by a contract: its schema, rules and expectations.

    Each row is judged as the JSON record that it stands for: a column is a field
    of the same name. Columns that Tidegate adds to its tables are left out.
    For an Avro contract, rows are encoded with its schema; those that cannot be
    are reported as unreadable. Expectations are judged on the rows that pass, as
    on a batch. Values of classified fields are never printed.

    With --state, an audit judges the rows that were added since the last one:
    after a snapshot of Iceberg, a version of Delta, or a value of --column. All
    rows are judged again if the contract has changed, or if the table was also
    changed otherwise since, such as by a compaction; the output says so. The
    database of a PostgreSQL table is TIDEGATE_POSTGRESQL_URL.

    With --registry, the contract's page on the desk shows the result: counts and
    figures, no value of a row. The key needs the role reporter.

    Examples:
      tidegate audit-table iceberg:hospital.admissions contract.yaml
      tidegate audit-table /lake/orders contract.yaml --state orders.audit.json
      tidegate audit-table postgresql:sales.orders contract.yaml --column id
      tidegate audit-table /lake/orders contract.yaml --registry https://registry

    Exit codes: 0 all rows pass; 1 rows are refused or unreadable, expectations
    are not met, or the contract has problems; 2 usage, such as a contract that
    is not published; 3 database or registry does not answer; 7 the credentials
    are rejected.
    """
    plan = compile_plan(lint(contract).contract)
    if registry is not None:
        with RegistryClient(registry) as client:
            client.require_published(plan.contract, plan.fingerprint)
    rows = _rows(table, plan, state, column)
    audit = _audited(table, rows, plan, show)
    if output_format == "json":
        typer.echo(orjson.dumps(_report(audit), option=orjson.OPT_INDENT_2))
    else:
        _print(audit)
    if data_docs is not None:
        _write_data_docs(data_docs, audit)
    if registry is not None:
        address = _sent(registry, audit)
        if output_format == "text":
            say(f"\n  on the desk: {masked(address)}")
    # Last, so that rows whose result could not be sent are judged again.
    if state is not None and rows.version is not None:
        _write(state, AuditState(table=table, fingerprint=plan.fingerprint, version=rows.version))
    if audit.result.has_findings:
        raise typer.Exit(ExitCode.FINDINGS)


def _rows(table: str, plan: EnforcementPlan, state: Path | None, column: str | None) -> AddedRows:
    """Return the rows to judge: those added since the audit that `state` remembers, or all. Raises SettingsError."""
    since = None if state is None else _since(state, table, plan.fingerprint)
    absent = partial(refuses_null, schema_fields(plan.contract))
    options = PostgresqlOptions(os.environ.get("TIDEGATE_POSTGRESQL_URL"), column)
    with naming_extras(table):
        return added_rows(table, since, absent, options)


def _sent(registry: str, audit: Audit) -> str:
    """Send the result to a registry; return its address on the desk."""
    with RegistryClient(registry) as client:
        return client.keep_table_audit(audit.result)


def _audited(table: str, rows: AddedRows, plan: EnforcementPlan, show: int) -> Audit:
    """Judge rows batch by batch. Raises the errors of the source."""
    tally, partials = JudgeCounts(limit=show), plan.expectations.merge(())
    with rows.source as source:
        records = RecordReader(source, plan.contract)
        unframed = compile_plan(records.contract)
        with reading(source) as progress:
            for block in records.blocks():
                noted = _judge(unframed.with_writers(records.writers), block, tally, source)
                partials = plan.expectations.merge((partials, noted))
                progress(tally.records)
    expectations = _expectations(plan, partials)
    return Audit(_result(table, rows, plan, tally, expectations), plan, rows, tally, expectations)


def _result(
    table: str,
    rows: AddedRows,
    plan: EnforcementPlan,
    tally: JudgeCounts,
    expectations: tuple[ExpectationResult, ...],
) -> TableAudit:
    return TableAudit(
        id=uuid4(),
        contract=plan.name,
        fingerprint=plan.fingerprint,
        table=seen(table),
        is_whole=rows.is_whole,
        since=rows.since,
        version=rows.until,
        reason=rows.reason,
        rows=tally.records,
        refused=tally.refused,
        unreadable=tally.unreadable,
        dispositions=DispositionCounts(
            **{each.name.lower(): count for each, count in tally.dispositions.items()}
        ),
        violations=rule_counts(tally.codes)[:MOST_RULES],
        expectations=expectations[:MOST_EXPECTATIONS],
    )


def _judge(plan: EnforcementPlan, block: RecordBlock, tally: JudgeCounts, source: Source) -> Partials:
    """Count the verdicts on a block of rows; return the metrics of the rows that pass."""
    values = pa.array(block.values, pa.large_binary())
    judged = plan.judge_typed(values)
    verdicts = list(plan.explain_each(values, typed=True, failed=judged.field("failed")))
    rows = JudgedBlock(plan, Explainer.of(plan), block, verdicts, lambda position: source.places((position,)))
    tally.add(verdicts, rows.place, rows.explained)
    tally.add_unreadable(block.unreadable, rows.place_of)
    is_written = pa.array([each.disposition.is_written for each in verdicts], pa.bool_())
    return plan.expectations.observe_written(judged.field("columns"), is_written)


def _expectations(plan: EnforcementPlan, partials: Partials) -> tuple[ExpectationResult, ...]:
    """Return the results. Expectations that only Great Expectations judges, or with too few rows, are skipped."""
    if not plan.expectations:
        return ()
    rows = plan.expectations.rows(partials)
    found = zip(plan.expectations.compiled, plan.expectations.find(partials), strict=True)
    return results_of(
        plan,
        [Judged(each, finding if rows >= each.expectation.min_records else None) for each, finding in found],
    )


def _since(state: Path, table: str, fingerprint: str) -> TableVersion | None:
    """Return the table version of this contract's last audit; None without one.

    Raises SettingsError if the state cannot be read, or cannot be written later.
    """
    found = None
    try:
        found = AuditState.model_validate_json(state.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        raise SettingsError(
            f"{state} cannot be read as the state of an audit ({type(error).__name__}); delete it to audit all rows"
        ) from None
    _require_writable(state)
    if found is None:
        return None
    if found.table != table:
        raise SettingsError(f"{state} is about {found.table}, not {table}: give each table a file of its own")
    return found.version if found.fingerprint == fingerprint else None


def _require_writable(state: Path) -> None:
    """Raise SettingsError if the state cannot be written."""
    scratch = _scratch(state)
    try:
        scratch.touch()
        scratch.unlink()
    except OSError as error:
        raise _unwritable(state, error, "create its folder, or name a file elsewhere") from None


def _write(state: Path, audited: AuditState) -> None:
    """Replace the state. Raises SettingsError."""
    scratch = _scratch(state)
    try:
        scratch.write_text(f"{audited.model_dump_json()}\n")
        scratch.replace(state)
    except OSError as error:
        raise _unwritable(state, error, "the next audit judges these rows again") from None


def _scratch(state: Path) -> Path:
    return state.with_name(f".{state.name}.new")


def _unwritable(state: Path, error: OSError, advice: str) -> SettingsError:
    return SettingsError(f"cannot write the state of the audit to {state}: {error.strerror}; {advice}")


def _write_data_docs(path: Path, audit: Audit) -> None:
    with naming_extras("--data-docs"):
        (page,) = entry_points(group=DATA_DOCS)
        text = page.load()(audit.plan.contract, audit.expectations, audit.title, datetime.now(UTC))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None


def _print(audit: Audit) -> None:
    rows = audit.rows
    out.print(Text(seen(audit.title)))
    if rows.reason is not None:
        out.print(Text(seen(f"all rows, because {rows.reason}"), "yellow"))
    print_summary(audit.plan.contract, audit.tally, more="--show N shows more of them")
    if audit.expectations:
        out.print("\n  expectations")
    for each in audit.expectations:
        word = _WORDS.get(each.outcome, ("not met", "red"))
        unexpected = "" if not each.unexpected else f", {each.unexpected:,} of {each.considered:,} unexpected"
        out.print(Text.assemble("  ", (f"{word[0]:<8}", word[1]), f" {each.id}{unexpected}"))


def _report(audit: Audit) -> dict[str, Any]:
    """Return the result as the registry gets it, with the first refused and unreadable rows and their places."""
    tally = audit.tally
    return {
        "format": "tidegate/audit-table/v1",
        **audit.result.model_dump(mode="json"),
        "examples": [
            {"place": place, "violations": [_violation(each) for each in explained]}
            for place, explained in tally.first_refused
        ],
        "unreadable_examples": [
            {"place": place, "pointer": each.pointer, "reason": each.reason}
            for place, each in tally.first_unreadable
        ],
    }


def _violation(explanation: Explanation) -> dict[str, str | None]:
    violation = explanation.violation
    return {
        "stage": violation.stage,
        "code": violation.code,
        "pointer": violation.pointer,
        "sentence": explanation.sentence,
        "passes": explanation.passes,
    }
