"""`tidegate judge`: the verdict on records, from the one judge that the job uses too."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Self

import orjson
import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from tidegate.contracts.document.model import AvroSchema, DataContract, JsonSchema
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.formats.reference import ReferenceValidator
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.registry_client.subject_schemas import SubjectSchemas
from tidegate.contracts.verdict import Disposition, Stage, Verdict
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.record_files import RecordBlock, RecordForm, record_blocks

ContractFile = Annotated[
    Path,
    typer.Argument(metavar="CONTRACT", exists=True, dir_okay=False, help="Contract document, YAML or JSON."),
]
DataFile = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FILE",
        help="File of records; - is standard input.",
    ),
]
AsFormat = Annotated[
    Literal["text", "json"], typer.Option("--format", help="text: a summary; json: one verdict a line.")
]
Show = Annotated[int, typer.Option("--show", metavar="N", min=0, help="Number of refused records to show.")]
Reference = Annotated[
    bool,
    typer.Option("--reference", help="Compare verdicts on the schema with python-jsonschema."),
]

Form = Annotated[RecordForm, typer.Option("--records", help="How records are separated in the data.")]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="TIDEGATE_REGISTRY_URL",
        help="Address of the registry, for schemas of framed records.",
    ),
]


def judge(  # noqa: PLR0913 - one parameter for each option
    contract: ContractFile,
    data: DataFile = Path("-"),
    records: Form = RecordForm.LINES,
    registry: Registry = None,
    *,
    output_format: AsFormat = "text",
    show: Show = 10,
    reference: Reference = False,
) -> None:
    """Judge records by a contract, as the job does.

    Prints for each refused record the violations, and the values that would
    pass. Values of classified fields are never printed, also not as JSON.

    By default, each line is one record without framing. Only LF ends a line: a
    CR belongs to the record, an empty line is an empty record, and the last
    line needs no LF. To judge records as they are in the topic, with frames and
    nulls, use --records sized (each record after its length in four bytes, -1
    for null) or --records base64 (one record a line, - for null; optionally a
    space and the header __value_schema_id). The registry provides the schemas
    that framed records name; without a registry, frames are removed and their
    schema ids are not looked up.

    --reference also validates JSON records without frames by python-jsonschema,
    and compares the verdicts on the schema. A difference is a finding; patterns
    and formats may differ for a reason (docs/explanation/verdicts.md).

    Examples:
      tidegate judge contract.yaml --data records.jsonl
      kcat -C -t admissions -e | tidegate judge contract.yaml
      kcat -C -t stays -e -f '%R%s' | tidegate judge stays.yaml --records sized
      tidegate judge contract.yaml --format json < records.jsonl | jq .violations

    Exit codes: 0 no record refused; 1 records refused, or the contract has
    problems; 2 usage; 3 the registry does not answer; 7 the credentials are
    rejected.
    """
    plan = compile_plan(_in_form(lint(contract).contract, records))
    tally = Tally(limit=show)
    second = SecondOpinion.on(plan.contract, show) if reference else None
    with _open(data) as stream, ExitStack() as stack:
        schemas = None
        if registry is not None and plan.needs_writers:
            schemas = stack.enter_context(RegistryClient(registry)).schemas_of(plan.contract.topic)
        for block in record_blocks(stream, records):
            judged_by, verdicts = _judge_block(plan, schemas, block)
            explainer = Explainer.of(judged_by)
            opinions = None if second is None else second.compare(block.values, verdicts, tally.records + 1)
            if output_format == "json":
                explanations = (
                    _explained(explainer, block, verdicts, index) for index in range(len(block.values))
                )
                _print_json(verdicts, explanations, opinions, tally.records + 1)
            tally.add(verdicts, partial(_explained, explainer, block, verdicts))
    if output_format == "text":
        _print_summary(plan.contract, tally, records.noun)
        if second is not None:
            second.print(records.noun)
    if tally.refused or (second is not None and second.differences):
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(slots=True)
class Tally:
    """What a run has seen: counts, and the first `limit` refused records with their numbers."""

    limit: int
    records: int = 0
    dispositions: Counter[Disposition] = field(default_factory=Counter)
    codes: Counter[tuple[Stage, str]] = field(default_factory=Counter)
    first_refused: list[tuple[int, tuple[Explanation, ...]]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many records do not reach the sink."""
        return sum(count for disposition, count in self.dispositions.items() if not disposition.is_written)

    def add(self, verdicts: list[Verdict], tell: Callable[[int], tuple[Explanation, ...]]) -> None:
        """Count the verdicts on the next records. A record counts once for each code that it violates.

        `tell` gives what the verdict at a position means; it is asked of those that are kept.
        """
        for index, verdict in enumerate(verdicts):
            self.records += 1
            self.dispositions[verdict.disposition] += 1
            self.codes.update({(violation.stage, violation.code) for violation in verdict.violations})
            if not verdict.disposition.is_written and len(self.first_refused) < self.limit:
                self.first_refused.append((self.records, tell(index)))


@dataclass(slots=True)
class SecondOpinion:
    """Verdicts of python-jsonschema beside the judge's, on the schema alone."""

    validator: ReferenceValidator
    limit: int
    compared: int = 0
    differences: int = 0
    first: list[tuple[int, bool]] = field(default_factory=list)
    """Numbers of the first `limit` records that differ, and whether python-jsonschema accepts each."""

    @classmethod
    def on(cls, contract: DataContract, limit: int) -> Self:
        """Return a comparison for records of a contract. Raises SettingsError for framed records and for Avro."""
        if not isinstance(contract.schema_, JsonSchema) or contract.framing != "none":
            raise SettingsError("--reference compares JSON records without frames only")
        return cls(ReferenceValidator(contract.schema_), limit)

    def compare(self, values: list[bytes | None], verdicts: list[Verdict], first: int) -> list[bool | None]:
        """Return for each record whether python-jsonschema accepts it; null for one that does not reach the schema."""
        opinions: list[bool | None] = []
        for number, (value, verdict) in enumerate(zip(values, verdicts, strict=True), first):
            stages = {violation.stage for violation in verdict.violations}
            is_read = value is not None and not stages & {Stage.FRAME, Stage.DECODE}
            opinion = self.validator.accepts(value) if is_read and value is not None else None
            opinions.append(opinion)
            if opinion is None:
                continue
            self.compared += 1
            if opinion is (Stage.SCHEMA in stages):
                self.differences += 1
                if len(self.first) < self.limit:
                    self.first.append((number, opinion))
        return opinions

    def print(self, noun: str) -> None:
        """Print how often python-jsonschema agrees, and where it does not."""
        agreed = self.compared - self.differences
        out.print(
            f"\n  python-jsonschema agrees on {agreed:,} of {self.compared:,} records that reach the schema"
        )
        for number, accepts in self.first:
            ours, theirs = ("refuses", "accepts") if accepts else ("accepts", "refuses")
            out.print(f"  {noun} {number:,}  the judge {ours} by the schema, python-jsonschema {theirs}")


def _in_form(contract: DataContract, form: RecordForm) -> DataContract:
    """Return the contract for records as they lie in a file: lines of text have no frame. Raises SettingsError."""
    if form is not RecordForm.LINES:
        if contract.framing == "confluent-header" and form is RecordForm.SIZED:
            raise SettingsError(
                f"the records of {contract.id} name their schemas in a header, which `sized` leaves out: --records base64 "
                "has it"
            )
        return contract
    if isinstance(contract.schema_, AvroSchema):
        raise SettingsError(
            f"{contract.id} describes Avro records, which have no lines; give them --records sized or base64"
        )
    return contract.model_copy(update={"framing": "none"})


def _judge_block(
    plan: EnforcementPlan, schemas: SubjectSchemas | None, block: RecordBlock
) -> tuple[EnforcementPlan, list[Verdict]]:
    """Judge some records; returns the plan that has the schemas which they name, and the verdicts.

    Raises Unavailable when a record names a schema that is not known yet, and no registry answers.
    """
    if schemas is None:
        return plan, _verdicts(plan, block)
    try:
        known = plan.with_writers(schemas.known())
        return known, _verdicts(known, block)
    except Unavailable:
        # The records are there: what the registry does not list now is no schema of theirs.
        current = plan.with_writers(schemas.current())
        return current, _verdicts(current, block)


def _verdicts(plan: EnforcementPlan, block: RecordBlock) -> list[Verdict]:
    headers = None if plan.writers is None else pa.array(block.headers, pa.binary())
    values = pa.array(block.values, pa.large_binary())
    judged = plan.judge(values, headers=headers)
    return list(plan.explain_each(values, headers=headers, failed=judged.field("failed")))


def _open(data: Path) -> BinaryIO:
    if str(data) != "-":
        try:
            return data.open("rb")
        except OSError as error:
            raise SettingsError(f"cannot read {data}: {error.strerror}") from None
    if sys.stdin.isatty():
        err.print("reading records from the terminal, one a line; end with Ctrl-D")
    return sys.stdin.buffer


def _explained(
    explainer: Explainer, block: RecordBlock, verdicts: list[Verdict], index: int
) -> tuple[Explanation, ...]:
    return explainer.explain(block.values[index], verdicts[index].violations, block.headers[index])


def _print_json(
    verdicts: list[Verdict],
    explanations: Iterable[tuple[Explanation, ...]],
    opinions: list[bool | None] | None,
    first_line: int,
) -> None:
    for line, (verdict, violations) in enumerate(zip(verdicts, explanations, strict=True), first_line):
        disposition = verdict.disposition.name.lower()
        answer = {
            "line": line,
            "disposition": disposition,
            "violations": [_as_json(each) for each in violations],
        }
        if opinions is not None:
            answer["reference_accepts"] = opinions[line - first_line]
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _as_json(explanation: Explanation) -> dict[str, str | None]:
    """Return a violation as it is kept, with what it means beside it."""
    meaning = {
        "sentence": explanation.sentence,
        "description": explanation.description,
        "passes": explanation.passes,
    }
    return {**asdict(explanation.violation), **meaning}


def _print_summary(contract: DataContract, tally: Tally, place: str) -> None:
    noun = "record" if tally.records == 1 else "records"
    out.print(f"[bold]{contract.id}[/] {contract.version} · {tally.records:,} {noun} judged\n")
    counts = Table.grid(padding=(0, 2, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    counts.add_column(justify="right", style="dim")
    for disposition in Disposition:
        if (count := tally.dispositions[disposition]) or disposition is Disposition.ACCEPTED:
            name = Text(f"  {disposition.name.lower()}", style="green" if disposition.is_written else "red")
            counts.add_row(name, f"{count:,}", f"{count / max(tally.records, 1):.2%}")
    out.print(counts)
    if tally.codes:
        _print_reasons(tally)
    if tally.first_refused:
        _print_refused(tally, place)


def _print_reasons(tally: Tally) -> None:
    reasons = Table.grid(padding=(0, 2, 0, 0))
    reasons.add_column(style="dim")
    reasons.add_column(style="bold")
    reasons.add_column(justify="right")
    for (stage, code), count in tally.codes.most_common():
        reasons.add_row(f"  {stage}", code, f"{count:,}")
    out.print()
    out.print(reasons)


def _print_refused(tally: Tally, noun: str) -> None:
    shown = [(line, explanation) for line, violations in tally.first_refused for explanation in violations]
    line_width = max(len(f"{line:,}") for line, _ in shown)
    pointer_width = max(len(explanation.violation.pointer) for _, explanation in shown)
    indent = " " * (7 + len(noun) + line_width + pointer_width)
    out.print()
    for line, explanation in shown:
        place = f"{explanation.violation.pointer:<{pointer_width}}"
        code = (explanation.violation.code, "bold")
        out.print(
            Text.assemble(
                f"  {noun} {line:>{line_width},}  ", (place, "cyan"), "  ", code, ": ", explanation.sentence
            )
        )
        for words in (explanation.description, explanation.passes and f"passes with {explanation.passes}"):
            if words:
                out.print(Text(f"{indent}{words}", style="dim"))
    if (more := tally.refused - len(tally.first_refused)) > 0:
        out.print(
            f"  [dim]and {more:,} more refused; --show N shows more of them, --format json every verdict[/]"
        )
