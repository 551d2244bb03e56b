"""`tidegate send`: send the records of a file to the topic of a stream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.writers import WriterSchemas
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.contracts.words import counted, seen
from tidegate.gateway.cli.infer import Servers
from tidegate.gateway.cli.judge import AVRO_JSON, file_format
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, KafkaConfig, Nulls, RegistryUrl
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.terminal import err, out
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.sources.files import FileFormat
from tidegate.gateway.sources.open_source import SourceOptions, open_source
from tidegate.gateway.sources.outgoing import OutgoingRecords
from tidegate.gateway.sources.source import Source, Unreadable
from tidegate.gateway.topics.sender import Sender

Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="Id of a published contract, or a contract document.")
]
File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="File, folder or pattern of files, or a table; - is standard input."),
]
Form = Annotated[
    Literal["lines", "json", "csv", "parquet", "avro", "avro-json"] | None,
    typer.Option(
        "--records",
        metavar="FORM",
        help="lines, json, csv, parquet, avro or avro-json; without it, the data's beginning or name says it.",
    ),
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="N", min=0.001, help="Send at most N records a second."),
]
MostRecords = Annotated[
    int | None, typer.Option("--max-records", metavar="N", min=1, help="Send only the first N records.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Read and encode the records, but send nothing; needs no broker.")
]
_SHOWN = 10


def send(  # noqa: PLR0913 - one parameter for each option
    stream: Stream,
    file: File,
    *,
    records: Form = None,
    null: Nulls = None,
    rate: Rate = None,
    max_records: MostRecords = None,
    dry_run: DryRun = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    bootstrap_servers: Servers = None,
    kafka_config: KafkaConfig = None,
) -> None:
    """Send the records of a file to the topic of a stream.

    Reads what `tidegate judge` reads, and encodes it as the contract says: JSON
    byte for byte, rows as the JSON that they stand for, and for an Avro contract
    as Avro. Records are framed as the contract says; the registry has the ids of
    the schemas. The key of a record is the contract's primary_key: the value of
    one column, or a JSON object of several.

    Records are not judged: those that violate the contract are sent too, and the
    job refuses them.

    The file is first read to its end. If a record cannot be read or encoded,
    nothing is sent. Standard input is sent as it arrives, to the first such
    record.

    Ends when the brokers have acknowledged every record. After an error some
    records are in the topic; sending again repeats them.

    Examples:
      tidegate send orders orders.jsonl --bootstrap-servers kafka:9092
      tidegate send contract.yaml day.parquet --rate 100 --max-records 1000
      tidegate send orders orders.csv --dry-run

    Exit codes: 0 all are acknowledged; 1 a record cannot be encoded, or the
    contract has problems; 2 usage, no such stream or topic, or the brokers
    refuse a record; 3 registry or broker does not answer; 7 the credentials are
    rejected.
    """
    contract, schemas = _contract(stream, registry)
    options = SourceOptions(file_format(records), tuple(null or ()), default=FileFormat.LINES, at_once=True)
    sender = None
    if not dry_run:
        sender = Sender(_connection(bootstrap_servers, kafka_config), contract.topic, rate)
    if file != "-" or sender is None:
        with open_source(file, options) as source:
            number = _read(source, _outgoing(source, contract, schemas, records), max_records, None)
        if sender is None:
            out.print(f"{_name(contract)}: {counted(number, 'record')} can be sent to topic {contract.topic}")
            return
    began = time.monotonic()
    with open_source(file, options) as source:
        _read(source, _outgoing(source, contract, schemas, records), max_records, sender)
    seconds = time.monotonic() - began
    out.print(
        f"{_name(contract)}: {counted(sender.acknowledged, 'record')} sent to topic {contract.topic}, all acknowledged · "
        f"{seconds:.1f} s"
    )


def _contract(stream: str, registry: str) -> tuple[DataContract, WriterSchemas | None]:
    """Return the contract of a stream, and the schemas of its subject if its framing refers to schema ids."""
    loaded = lint(Path(stream)).contract if Path(stream).is_file() else None
    if loaded is not None and loaded.framing in ("none", "auto"):
        return loaded, None
    with RegistryClient(registry) as client:
        contract = loaded or client.fetch(stream, "latest").contract
        if contract.framing in ("none", "auto"):
            return contract, None
        return contract, client.schemas_of(contract.topic).current()


def _connection(servers: str | None, config: Path | None) -> KafkaConnection:
    """Return the connection to the brokers. Raises SettingsError without brokers, and for invalid properties."""
    if servers is None:
        raise SettingsError("name the brokers: --bootstrap-servers, or TIDEGATE_BOOTSTRAP_SERVERS")
    return KafkaSettings(kafka_config=config).connection_to(servers)


def _outgoing(
    source: Source, contract: DataContract, schemas: WriterSchemas | None, records: str | None
) -> OutgoingRecords:
    return OutgoingRecords(source, contract, schemas, is_avro_json=records == AVRO_JSON)


def _read(source: Source, outgoing: OutgoingRecords, most: int | None, sender: Sender | None) -> int:
    """Read records, and send them if there is a sender; return their number. Raises typer.Exit if one cannot be sent."""
    number = 0
    refused: list[Unreadable] = []
    refusals = 0
    with reading(source) as show:
        for records, unreadable in outgoing.blocks(most, to_first_unreadable=sender is not None):
            if sender is not None:
                for record in records:
                    sender.send(record)
            number += len(records)
            refusals += len(unreadable)
            refused += unreadable[: _SHOWN - len(refused)]
            show(number)
    if sender is not None:
        sender.finish()
    if refusals:
        _report(source, refused, refusals, sender)
        raise typer.Exit(ExitCode.FINDINGS)
    return number


def _report(source: Source, refused: list[Unreadable], refusals: int, sender: Sender | None) -> None:
    for each in refused:
        place = seen(" ".join(filter(None, (source.places((each.position,)), each.pointer))))
        err.print(Text.assemble((place, "bold"), f": {seen(each.reason)}"))
    title = seen(source.title)
    if sender is None:
        err.print(f"{counted(refusals, 'record')} of {title} cannot be sent; nothing was sent")
        return
    place, sent = seen(source.places((refused[0].position,))), counted(sender.acknowledged, "record")
    err.print(
        f"{title} cannot be sent from {place} on; {sent} before it {'was' if sender.acknowledged == 1 else 'were'} sent: "
        f"correct {place}, and send the input from there"
    )


def _name(contract: DataContract) -> str:
    return f"{contract.id} {contract.version}"
