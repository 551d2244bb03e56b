"""`tidegate backtest`: the effect of a changed contract on existing records."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import pyarrow as pa
import typer

from tidegate.contracts.document.load import LoadedContract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.times import instant_key
from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.infer.values import Occurrences
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.rules.clock import Moments
from tidegate.gateway.checks.backtest import (
    Backtest,
    BacktestReport,
    Positions,
    Records,
    Version,
    differences,
)
from tidegate.gateway.checks.discovery import Candidate, select
from tidegate.gateway.checks.formats.backtest import FORMATS
from tidegate.gateway.cli.check import REGISTRY, Against, open_baseline, write_file
from tidegate.gateway.cli.infer import MostSeconds, Servers
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, AllowEmpty, KafkaConfig, Nulls
from tidegate.gateway.cli.reading import unread_text
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Source, TopicPart

CandidateFile = Annotated[
    Path, typer.Argument(metavar="CANDIDATE", exists=True, dir_okay=False, help="The changed contract.")
]
Data = Annotated[
    str,
    typer.Option("--data", metavar="SOURCE", help="File, folder of files or of a table, - or kafka:TOPIC."),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="TIDEGATE_REGISTRY_URL",
        help="Address of the registry, for the base and for schemas of framed records.",
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="START",
        help="Where a topic is read from: an offset in each partition, or a time (RFC 3339).",
    ),
]
Sample = Annotated[
    int | None, typer.Option("--sample", metavar="N", min=1, help="Judge about N records, spread evenly.")
]
MostRefused = Annotated[
    float | None,
    typer.Option(
        "--max-newly-refused", metavar="SHARE", min=0, max=1, help="Fail if a larger share is newly refused."
    ),
]
Format = Annotated[
    Literal["text", "json", "markdown"],
    typer.Option("--format", metavar="FORMAT", help="text, json or markdown (for a pull request)."),
]
Output = Annotated[
    Path | None, typer.Option("--output", dir_okay=False, metavar="FILE", help="File for the report.")
]
_SEED: Final = 22


def backtest(  # noqa: PLR0913 - one parameter for each option
    candidate: CandidateFile,
    *,
    data: Data,
    against: Against = REGISTRY,
    registry: Registry = None,
    start: Start = "0",
    sample: Sample = None,
    null: Nulls = None,
    max_newly_refused: MostRefused = None,
    allow_empty: AllowEmpty = False,
    report_format: Format = "text",
    output: Output = None,
    bootstrap_servers: Servers = None,
    kafka_config: KafkaConfig = None,
    max_seconds: MostSeconds = 600,
) -> None:
    """Judge existing records by a changed contract and by the version before it.

    Shows which records only the candidate refuses, and which only the base does:
    how many, by rule and field, and the positions of the first ones. Values are
    never printed.

    A topic is read with its frames, headers and timestamps, to the end that it
    has now, without a consumer group. Of a topic, --sample reads runs of offsets
    that are spread over each partition; of other sources, it reads everything
    and judges a random part. Files and tables hold records without frames; rules
    that compare with now take the time of the call.

    Examples:
      tidegate backtest new.yaml --against old.yaml --data records.jsonl
      tidegate backtest new.yaml --against git:origin/main --data day.parquet
      tidegate backtest new.yaml --data day.jsonl --max-newly-refused 0.001
      tidegate backtest new.yaml --data kafka:orders --sample 100000
      tidegate backtest new.yaml --data kafka:orders --from 2026-11-01T00:00:00Z

    Exit codes: 0 judged; 1 more is newly refused than --max-newly-refused
    allows, no record was judged, or a contract has problems; 2 usage, such as
    no base; 3 broker or registry does not answer; 7 the credentials are
    rejected.
    """
    records = _Data(data, start, sample, tuple(null or ()), max_seconds, bootstrap_servers, kafka_config)
    with ExitStack() as stack:
        loaded = lint(candidate)
        base, origin = _base(loaded, candidate, against, registry or DEFAULT_REGISTRY, stack)
        source = stack.enter_context(records.opened())
        reader = None if records.is_topic else _reader(source, loaded.contract, base)
        found = _backtest(loaded.contract, base, reader, registry, stack)
        unread = _judge(source, reader, records, found)
        report = _report(
            source, origin, found, unread, max_newly_refused=max_newly_refused, may_be_empty=allow_empty
        )
    _print(report, report_format, output)
    if report.failed:
        raise typer.Exit(ExitCode.FINDINGS)


@dataclass(frozen=True, slots=True)
class _Data:
    """The records to judge: the name of their source, and the options for reading it."""

    name: str
    start: str
    sample: int | None
    nulls: tuple[str, ...]
    max_seconds: float
    bootstrap_servers: str | None
    kafka_config: Path | None

    @property
    def is_topic(self) -> bool:
        return self.name.startswith("kafka:")

    def opened(self) -> Source:
        """Open the source. Raises SettingsError, NotFoundError, Unavailable."""
        options = SourceOptions(
            nulls=self.nulls,
            most_seconds=self.max_seconds,
            bootstrap_servers=self.bootstrap_servers,
            kafka_config=self.kafka_config,
            topic_part=_part(self.start, self.sample),
            default=FileFormat.LINES,
        )
        return open_source(self.name, options)


def _base(
    loaded: LoadedContract, path: Path, against: str, registry: str, stack: ExitStack
) -> tuple[DataContract, str]:
    """Return the version that the candidate follows, and its origin. Raises SettingsError if there is none."""
    selection = select([path])
    baseline = open_baseline(against, registry, selection, stack)
    history = baseline.history(Candidate(selection.files[0], str(path), loaded))
    version = loaded.contract.version
    found = history.predecessor(version) or history.here or next(iter(history.versions), None)
    if found is None:
        problem = "" if history.unreadable is None else f": {history.unreadable}"
        raise SettingsError(f"{against} has no version of {path} to compare with{problem}")
    try:
        return found.load(), found.origin
    except ContractError as error:
        raise SettingsError(f"the base cannot be used: {error.problems[0]}") from None


def _part(start: str, sample: int | None) -> TopicPart:
    if re.fullmatch("[0-9]{1,15}", start):
        return TopicPart(int(start), sample=sample)
    instant = instant_key(start)
    if instant is None:
        raise SettingsError(f"--from {start} is neither an offset nor a time such as 2026-11-01T00:00:00Z")
    return TopicPart(max(0, int(instant) // 1_000_000), is_time=True, sample=sample)


def _unread(source: Source, max_seconds: float, unreadable: Occurrences) -> str | None:
    reasons = []
    if not source.is_whole:
        reasons.append(
            f"--max-seconds {max_seconds:g} were over after {source.progress():,} of {source.size or 0:,}"
        )
    if (unread := unread_text(source, unreadable)) is not None:
        reasons.append(unread)
    return "; ".join(reasons) or None


def _backtest(
    new: DataContract, old: DataContract, reader: RecordReader | None, registry: str | None, stack: ExitStack
) -> Backtest:
    """Return a comparison of two contracts. Without `reader`, the records are those of a topic."""
    if reader is not None:
        return Backtest(_version_of_files(new, reader), _version_of_files(old, reader))
    client = stack.enter_context(RegistryClient(registry)) if registry else None
    return Backtest(_version_of_topic(new, client), _version_of_topic(old, client))


def _judge(source: Source, reader: RecordReader | None, records: _Data, found: Backtest) -> str | None:
    """Judge the records by both versions; return why some were not judged, None if all were."""
    unreadable = Occurrences()
    for each in _records(source, reader, records.sample, unreadable):
        found.add(each)
    return _unread(source, records.max_seconds, unreadable)


def _report(
    source: Source,
    origin: str,
    found: Backtest,
    unread: str | None,
    *,
    max_newly_refused: float | None,
    may_be_empty: bool,
) -> BacktestReport:
    """Return the report; `origin` says where the base comes from."""
    return BacktestReport(
        found.candidate.plan.name,
        f"{found.base.plan.name} ({origin})",
        source.title,
        found,
        tuple(differences(found.newly_refused, source.places)),
        tuple(differences(found.newly_passing, source.places)),
        max_newly_refused,
        unread,
        may_be_empty,
    )


def _print(report: BacktestReport, report_format: str, output: Path | None) -> None:
    """Print the report, and write it to the file, if any; then a format other than text is not printed."""
    text = FORMATS[report_format](report)
    if output is not None:
        write_file(output, text)
    if output is None or report_format != "text":
        typer.echo(FORMATS["text" if output is not None else report_format](report), nl=False)


def _version_of_topic(contract: DataContract, client: RegistryClient | None) -> Version:
    plan = compile_plan(contract)
    needs_schemas = client is not None and plan.needs_writers
    return Version(plan, client.schemas_of(contract.topic) if client is not None and needs_schemas else None)


def _version_of_files(contract: DataContract, reader: RecordReader) -> Version:
    plan = compile_plan(contract.model_copy(update={"framing": reader.contract.framing}))
    return Version(plan, writers=lambda: reader.writers)


def _reader(source: Source, contract: DataContract, base: DataContract) -> RecordReader:
    if contract.schema_.type != base.schema_.type:
        raise SettingsError(
            f"{source.title} cannot be records of both versions: the schema of the candidate is {contract.schema_.type}, "
            f"that of the base is {base.schema_.type}"
        )
    return RecordReader(source, contract)


def _records(
    source: Source, reader: RecordReader | None, sample: int | None, unreadable: Occurrences
) -> Iterator[Records]:
    """Yield the records of a source, all with the same batch time. Without `reader`, the source is a topic."""
    now = time.time_ns()
    reservoir = None if sample is None or reader is None else Reservoir(sample)
    for chunk in source.chunks():
        if reader is None:
            value, header, timestamp = chunk.batch.columns
            yield Records(value, chunk.positions, Moments(now, timestamp), header)
            continue
        block = reader.read(chunk)
        unreadable.add_counted(len(block.unreadable), [each.position for each in block.unreadable])
        values, positions = pa.array(block.values, pa.large_binary()), np.array(block.positions, np.int64)
        if reservoir is None:
            yield Records(values, positions, Moments(now))
        else:
            reservoir.add(values, positions)
    if reservoir is not None and reservoir.kept:
        yield Records(*reservoir.arrays(), Moments(now))


class Reservoir:
    """A random sample of at most `most` records. The same records give the same sample. Source: Vitter, Algorithm R (1985)."""

    def __init__(self, most: int) -> None:
        self.kept: list[tuple[int, bytes | None]] = []
        self._most = most
        self._seen = 0
        self._chance = random.Random(_SEED)  # noqa: S311 - repeatable, no secret

    def add(self, values: pa.Array, positions: Positions) -> None:
        """Offer records (an array of large_binary) and their positions to the sample."""
        for index, position in enumerate(positions.tolist()):
            self._seen += 1
            if len(self.kept) < self._most:
                self.kept.append((position, values[index].as_py()))
            elif (place := self._chance.randrange(self._seen)) < self._most:
                self.kept[place] = (position, values[index].as_py())

    def arrays(self) -> tuple[pa.Array, Positions]:
        """Return the sample in the order of the source."""
        ordered = sorted(self.kept, key=lambda pair: pair[0])
        values = pa.array([value for _, value in ordered], pa.large_binary())
        return values, np.array([position for position, _ in ordered], np.int64)
