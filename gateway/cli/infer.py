"""`tidegate infer`: propose a contract from records."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.text import Text

from tidegate.contracts.document.load import MAX_JSON_BYTES, read_source
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.contracts.infer.infer import Inference, Inferred
from tidegate.contracts.infer.proposal import Proposal
from tidegate.contracts.infer.text import contract_text, schema_text
from tidegate.contracts.infer.unread import Unread
from tidegate.contracts.lint.lint import ForeignFormatError, foreign_message, lint
from tidegate.contracts.words import counted, seen
from tidegate.gateway.cli.infer_parts import FilesInParts, large_files, require_schema
from tidegate.gateway.cli.options import KafkaConfig, Nulls, OutputFormat
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err, out, show_warnings
from tidegate.gateway.cli.workers import Spark, SparkMaster, hint_at_spark, require_spark, spark_workers
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.source import Source

_LARGE_BYTES = 32 << 30
"""One process reads about 350 MB a minute, so this takes ten minutes or more."""
_JSON = (".avsc", ".json")
_DOCUMENTS = (*_JSON, ".yaml", ".yml")

SourceName = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="File (JSON Lines, JSON array, CSV, Parquet, Avro; also .gz and .zst), - for standard input, folder or "
        "pattern of such files, folder of a Delta or Iceberg table, kafka:TOPIC, iceberg:NAMESPACE.TABLE, or postgresql:TABLE.",
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="FILE", help="Contract to write; the schema is written beside it."),
]
Name = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Id of the contract and name of its topic.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
InputFormat = Annotated[
    FileFormat | None,
    typer.Option(
        "--input-format",
        metavar="FORMAT",
        help=f"Format of the file, if its name does not say it: {', '.join(FileFormat)}.",
    ),
]
MostRecords = Annotated[
    int | None, typer.Option("--max-records", metavar="N", min=1, help="Read at most this many records.")
]
MostSeconds = Annotated[
    float, typer.Option("--max-seconds", metavar="N", min=1, help="Read a topic for at most this long.")
]
Servers = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        envvar="TIDEGATE_BOOTSTRAP_SERVERS",
        show_envvar=False,
        help="Kafka brokers; default: TIDEGATE_BOOTSTRAP_SERVERS.",
    ),
]


Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="TIDEGATE_REGISTRY_URL",
        show_envvar=False,
        help="Registry that has the schemas of Avro in a topic; default: TIDEGATE_REGISTRY_URL.",
    ),
]
Schema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Avro schema, or contract with one, of the records of a topic.",
    ),
]

_HELP: Final = """\
Finds types, optional fields, formats, ranges, lists of values, patterns,
fields in order, fields that depend on others, keys, personal data, and
values that stand for "unknown", such as 999 or 1900-01-01.

Writes the contract and its schema, and lints them. The evidence stands
beside each rule: how many records violate it, and where the first of them
are. What is doubtful is a comment. One record in ten is held back, and
judged by the contract, to estimate how many it would refuse wrongly.

Records are read in bounded memory. Large files are read in parts, by one
process for each processor, unless --max-records is given. A topic is read
from its beginning to the records that it has now, without a consumer group.
PostgreSQL is reached by TIDEGATE_POSTGRESQL_URL, Iceberg by PyIceberg's
configuration.
Avro in a topic is read with the schemas of --registry, or that of --schema.

--spark reads files, folders and patterns in Spark, for example on a cluster:
each worker profiles some records, and the profiles are merged. The executors
need the files under the same path.

Examples:
  tidegate infer orders.jsonl
  tidegate infer trips.csv.gz --null NA --id city.trips -o trips.yaml
  tidegate infer /lake/trips --spark --spark-master spark://master:7077
  tidegate infer kafka:orders --bootstrap-servers kafka:9092
  tidegate infer kafka:stays --registry http://registry:8081
  zcat orders.jsonl.gz | tidegate infer - --id shop.orders

Exit codes: 0 a contract is written; 1 no record can be read; 2 usage, or a
file exists; 3 broker, registry or database does not answer, or Spark gives
the work up; 7 the credentials are rejected.
"""


def infer(  # noqa: PLR0913 - one parameter for each option
    source: SourceName,
    *,
    output: Out = Path("contract.yaml"),
    contract_id: Name = None,
    force: Force = False,
    input_format: InputFormat = None,
    output_format: OutputFormat = "text",
    null: Nulls = None,
    max_records: MostRecords = None,
    max_seconds: MostSeconds = 60,
    bootstrap_servers: Servers = None,
    kafka_config: KafkaConfig = None,
    registry: Registry = None,
    schema: Schema = None,
    spark: Spark = False,
    spark_master: SparkMaster = None,
) -> None:
    """Propose a contract from records that you have."""
    if spark and max_records is not None:
        raise SettingsError("--spark reads all records: leave --max-records or --spark out")
    schema_file = output.with_name(f"{output.stem}.schema.json")
    options = SourceOptions(
        _not_foreign(Path(source), input_format),
        tuple(null or ()),
        max_records,
        max_seconds,
        bootstrap_servers,
        kafka_config,
        registry=registry,
        schema=schema,
    )
    with ExitStack() as stack:
        parts = FilesInParts(source, options, spark_workers(spark_master)) if spark else None
        if not spark:
            require_spark(spark_master)
            parts = _large(source, options, has_hint=output_format == "text")
        opened = parts or stack.enter_context(open_source(source, options))
        if opened.avro_schema is not None:
            schema_file = output.with_name(f"{output.stem}.avsc")
        for path in (output, schema_file):
            _require_free(path, source, force=force)
        started = time.monotonic()
        found = _inferred(opened, max_records, contract_id)
        text = contract_text(found, source=opened.title, schema_file=schema_file.name, places=opened.places)
        _write(schema_file, schema_text(found.definition))
        _write(output, text)
        show_warnings(lint(output))
        if output_format == "json":
            sys.stdout.buffer.write(
                orjson.dumps(_report(found, opened), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            )
            return
        _print(found, opened, time.monotonic() - started)
        names = [(seen(str(path)), "bold") for path in (output, schema_file)]
        out.print(Text.assemble("\nwritten: ", names[0], " and ", names[1]))


# Typer takes the help of a command from its docstring.
infer.__doc__ = f"{infer.__doc__}\n\n{_HELP}"


def _require_free(path: Path, source: str, *, force: bool) -> None:
    """Raise SettingsError for a file that has the records themselves, or that exists without --force."""
    if path.exists() and Path(source).exists() and path.samefile(source):
        raise SettingsError(f"{path} has the records themselves: name another file with --out")
    if path.exists() and not force:
        raise SettingsError(f"{path} exists; name another file with --out, or overwrite it with --force")


def _not_foreign(path: Path, given: FileFormat | None) -> FileFormat | None:
    """Return the given format. Without one, raises ForeignFormatError for a document such as an Avro schema."""
    is_file = given is None and path.suffix in _DOCUMENTS and path.is_file()
    if not is_file or path.stat().st_size > MAX_JSON_BYTES:
        return given
    try:
        content = path.read_bytes()
        is_yaml = path.suffix not in _JSON
        document = read_source(str(path), content).value if is_yaml else orjson.loads(content)
    except (OSError, ContractError, orjson.JSONDecodeError):
        return None
    if message := foreign_message(document):
        raise ForeignFormatError((Problem("", message, str(path)),))
    return None


def _large(source: str, options: SourceOptions, *, has_hint: bool) -> FilesInParts | None:
    """Return the source as parts for local processes; None if that is not faster, or the records are limited."""
    if options.most_records is not None:
        return None
    if has_hint:
        hint_at_spark(source, options, _LARGE_BYTES, "with --spark-master reads them on a cluster")
    return large_files(source, options)


def default_id(stem: str) -> str:
    """Return a contract id made from the name of a file, topic or table."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in stem)
    return kept.strip(".-_")[:200] or "records"


def _inferred(source: Source | FilesInParts, most: int | None, contract_id: str | None) -> Inferred:
    """Infer a contract from the first `most` records, or all. Raises typer.Exit if none can be read."""
    inference = source.infer() if isinstance(source, FilesInParts) else _read(source, most)
    if not inference.records:
        _print_nothing(inference.broken, source)
        raise typer.Exit(ExitCode.FINDINGS)
    found = inference.finish(contract_id or default_id(source.stem))
    if source.framing != "none":
        found.document["framing"] = source.framing
    return found


def _read(source: Source, most: int | None) -> Inference:
    inference = Inference(avro_schema=source.avro_schema)
    read = 0
    with reading(source) as show:
        for chunk in source.chunks():
            require_schema(source, inference.avro_schema, source.title)
            batch, positions = chunk.batch, chunk.positions
            if most is not None and read + len(positions) > most:
                batch, positions = batch.slice(0, most - read), positions[: most - read]
            if len(positions):
                inference.add(batch, positions, untyped=source.is_untyped)
            for each in chunk.unreadable:
                inference.broken.add_row(each.position, each.reason, each.pointer)
            read += len(positions)
            show(read)
            if most is not None and read >= most:
                break
    return inference


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None


def _print_nothing(broken: Unread, source: Source | FilesInParts) -> None:
    """Print why there is no contract."""
    why = f"none of {counted(broken.count, 'record')} can be read" if broken.count else "it has no records"
    err.print(Text.assemble((f"no contract from {source.title}: ", "bold red"), why))
    _print_unread(err, broken, source)


def _print_unread(console: Console, broken: Unread, source: Source | FilesInParts) -> None:
    """Print the reasons for unreadable records, their first places, and advice."""
    for line, advice in broken.lines(source.places):
        console.print(Text(seen(f"  unreadable: {line}")))
        if advice:
            console.print(Text(f"              {advice}", "dim"))


def _print(found: Inferred, source: Source | FilesInParts, seconds: float) -> None:
    broken = (
        f" · {found.broken.count:,} unreadable ({source.places(found.broken.first)})"
        if found.broken.count
        else ""
    )
    records = counted(found.records, "record")
    counts = f" · {records} in {seconds:.1f} s{seen(broken)}\n"
    out.print(Text.assemble((found.document["id"], "bold"), counts))
    if found.broken.count:
        _print_unread(out, found.broken, source)
        out.print()
    shown = [each for each in found.proposals if each.rule is not None or each.exceptions]
    if shown:
        _print_table(shown, source)
    else:
        out.print("  no rule is proposed: the schema has the types of the fields")
    if found.personal:
        pointers = sorted(Proposal("", path, "", 0).pointer for path in found.personal)
        out.print(f"\n  personal: {seen(', '.join(pointers))}")
    evaluation = found.evaluation
    out.print(
        f"\n  held back and judged: {evaluation.records:,} · refused for a reason above: "
        f"{evaluation.explained + evaluation.broken:,} · for another: {evaluation.unexpected.count:,} "
        f"({evaluation.false_refusals:.3%})"
    )


def _print_table(shown: Sequence[Proposal], source: Source | FilesInParts) -> None:
    rows = [("field", "rule", "violated by", "first at"), *(_row(each, source) for each in shown)]
    widths = [max(len(row[index]) for row in rows) for index in range(3)]
    for row, doubtful in zip(rows, [True, *(each.doubt is not None for each in shown)], strict=True):
        pointer, code, violated, where = row
        line = f"  {pointer:<{widths[0]}}  {code:<{widths[1]}}  {violated:>{widths[2]}}  {where}"
        out.print(Text(seen(line).rstrip(), "dim" if doubtful else ""))


def _row(each: Proposal, source: Source | FilesInParts) -> tuple[str, str, str, str]:
    doubt = f"doubtful: {each.doubt}" if each.doubt else ""
    where = source.places(each.first[:3]) if each.exceptions else ""
    return (
        each.pointer,
        each.code,
        f"{each.exceptions:,}" if each.exceptions else "-",
        " · ".join(filter(None, (where, doubt))),
    )


def _report(found: Inferred, source: Source | FilesInParts) -> dict[str, Any]:
    evaluation = found.evaluation
    return {
        "id": found.document["id"],
        "source": source.title,
        "records": found.records,
        "unreadable": {
            "records": found.broken.count,
            "first": source.places(found.broken.first),
            "reasons": [
                {
                    "reason": reason,
                    "records": tally.count,
                    "first": source.places(tally.first),
                    "detail": found.broken.details.get(reason),
                }
                for reason, tally in found.broken.reasons.items()
            ],
        },
        "held_back": {
            "records": evaluation.records,
            "explained": evaluation.explained + evaluation.broken,
            "unexpected": evaluation.unexpected.count,
            "unexpected_first": source.places(evaluation.unexpected.first),
            "unexpected_reasons": dict(evaluation.reasons.most_common()),
            "expected_false_refusals": evaluation.false_refusals,
        },
        "personal": {Proposal("", path, "", 0).pointer: why for path, why in found.personal.items()},
        "primary_key": None
        if found.key is None
        else {"field": found.key.path[0], "repeated": found.key.exceptions},
        "proposals": [
            {
                "field": each.pointer,
                "code": each.code,
                "rule": each.rule,
                "because": each.because,
                "support": each.support,
                "exceptions": each.exceptions,
                "first_exceptions": source.places(each.first) if each.exceptions else None,
                "held_back_violations": each.held_back,
                "expected_false_refusals": each.unexpected / max(evaluation.records, 1),
                "doubt": each.doubt,
            }
            for each in found.proposals
        ],
    }
