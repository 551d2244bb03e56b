"""Open a source of records by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.sources import tables
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.many_files import FilesSource, files_of, is_pattern
from tidegate.gateway.sources.source import Source, TopicPart

_EXTRAS = {
    "confluent_kafka": "kafka",
    "cryptography": "kafka",
    "deltalake": "delta",
    "great_expectations": "spark",
    "pyiceberg": "spark",
    "pyspark": "spark",
    "py4j": "spark",
    "psycopg": "registry",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source. Only topics use those from `most_records` to `schema`; others ignore them.

    `default` and `at_once` are those of `FileSource`; `at_once` applies to standard input only.
    """

    format: FileFormat | None = None
    nulls: Sequence[str] = ()
    most_records: int | None = None
    most_seconds: float = 60
    bootstrap_servers: str | None = None
    kafka_config: Path | None = None
    topic_part: TopicPart | None = None
    """The part to read as unchanged records; None: the whole topic, without frames and tombstones."""
    registry: str | None = None
    """Address of the registry with the schemas of framed Avro records."""
    schema: Path | None = None
    """File with the contract or Avro schema of a topic's records, instead of a registry."""
    default: FileFormat | None = None
    at_once: bool = False


def open_source(name: str, options: SourceOptions) -> Source:
    """Open a file, folder or pattern of files, topic or table.

    Raises SettingsError for a missing file or an unreadable source, NotFoundError for a missing topic, and Unavailable.
    """
    with naming_extras(name):
        return _opened(name, options)


@contextmanager
def naming_extras(name: str) -> Iterator[None]:
    """Raise SettingsError, naming the extra to install, if the source or option `name` needs a missing library."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRAS:
            raise
        raise SettingsError(
            f"{name} needs {module}, which is not installed: pip install 'tidegate[{_EXTRAS[module]}]'"
        ) from error


def _opened(name: str, options: SourceOptions) -> Source:
    kind, _, rest = name.partition(":")
    path = Path(name)
    if path.exists() and path.is_dir():
        return _folder(path, options)
    if path.exists() or name == "-":
        at_once = options.at_once and name == "-"
        return FileSource(path, options.format, options.nulls, default=options.default, at_once=at_once)
    if is_pattern(name):
        return FilesSource(name, files_of(name), options.format, options.nulls, options.default)
    match kind:
        case "kafka" if rest:
            return _topic(rest, options)
        case "iceberg" if rest:
            return tables.iceberg_table(rest)
        case "postgresql" if rest and not rest.startswith("//"):
            url = os.environ.get("TIDEGATE_POSTGRESQL_URL")
            if not url:
                raise SettingsError(
                    f"{name} needs the variable TIDEGATE_POSTGRESQL_URL, the address of the database"
                )
            return tables.postgresql_table(rest, url)
    raise SettingsError(
        f"there is no file {name}; a topic is kafka:TOPIC, a table iceberg:NAMESPACE.TABLE or postgresql:TABLE"
    )


def _folder(path: Path, options: SourceOptions) -> Source:
    if tables.is_delta(path):
        return tables.delta_table(path)
    if tables.is_iceberg(path):
        return tables.iceberg_folder(path)
    return FilesSource(str(path), files_of(str(path)), options.format, options.nulls, options.default)


def _topic(topic: str, options: SourceOptions) -> Source:
    # Both need the extra `kafka`.
    from tidegate.contracts.stream.kafka_connection import KafkaSettings  # noqa: PLC0415 - see above
    from tidegate.gateway.sources.avro_values import FramedAvroValues  # noqa: PLC0415 - see above
    from tidegate.gateway.sources.kafka import TopicSource  # noqa: PLC0415 - see above

    if options.bootstrap_servers is None:
        raise SettingsError("a topic needs the brokers: --bootstrap-servers, or TIDEGATE_BOOTSTRAP_SERVERS")
    connection = KafkaSettings(kafka_config=options.kafka_config).connection_to(options.bootstrap_servers)
    avro = None
    if options.schema is not None:
        avro = FramedAvroValues.of_file(options.schema)
    elif options.registry is not None:
        with RegistryClient(options.registry) as client:
            avro = FramedAvroValues.of_registry(client.schemas_of(topic).current())
    return TopicSource(
        topic,
        connection,
        options.most_records,
        options.most_seconds,
        part=options.topic_part,
        avro=avro,
    )
