"""Settings of the streaming job. They are read once at the start, and passed on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, Self

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.contracts.stream.bounds import MOST_OFFSETS, MOST_SLOTS
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.contracts.stream.sink_names import SinkName

_TABLE_SECONDS = 5.0
_TOPIC_SECONDS = 0.5

WriteMode = Literal["append", "upsert"]
MergeMode = Literal["copy-on-write", "merge-on-read"]
Starting = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class SinkRules:
    """The facts about a sink that the settings and the Spark session need.

    `module` declares its `KIND` (`sinks/kind.py`). It is imported when the sink is opened, because it loads Spark.
    """

    module: str
    is_table: bool = True
    """Whether accepted records become rows of a table, which may use upserts, instead of records of a topic."""
    required: str | None = None
    """Name of the setting that the sink requires, if any."""
    needs_warehouse: Callable[[SinkSettings], bool] = lambda _: False
    """Whether executors write to the folder `warehouse`, so that they must see it."""
    jar: str | None = None
    """Prefix of the name of the jar that the sink needs in addition to those of every session, if any."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Properties of the Spark session that only this sink needs; extensions are added to those of every session."""


_IN: Final = "tidegate.spark_jobs.sinks"
SINKS: Final[dict[str, SinkRules]] = {
    SinkName.ICEBERG.value: SinkRules(
        f"{_IN}.iceberg.kind", needs_warehouse=lambda settings: not settings.catalog_properties
    ),
    SinkName.DELTA.value: SinkRules(
        f"{_IN}.delta.kind",
        needs_warehouse=lambda _: True,
        jar="delta-spark",
        # Delta requires the extension and the catalog before it opens a table.
        spark={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # The state of a table is small; by default it would be read in 50 tasks.
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    ),
    SinkName.POSTGRESQL.value: SinkRules(f"{_IN}.postgresql.kind", required="postgresql_url"),
    SinkName.KAFKA.value: SinkRules(f"{_IN}.kafka.kind", is_table=False),
}
"""The sinks of the job by name. `tidegate up` offers the names of SinkName."""


class SparkSettings(BaseSettings):
    """Spark, by option or by variable (prefix TIDEGATE_)."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_",
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        allow_inf_nan=False,  # threads cannot wait for infinite times
    )

    spark_master: str = Field(
        default="local[*]", description="Spark master; executors need the same version installed."
    )
    spark_driver_memory: str = Field(default="2g", description="Memory of the driver's Java process.")
    spark_executor_memory: str = Field(default="1g", description="Memory of each executor on a cluster.")
    spark_driver_host: str | None = Field(
        default=None, description="Address under which the executors of a cluster reach the driver."
    )
    spark_driver_port: int | None = Field(
        default=None, ge=1024, le=65535, description="Port of the driver; left out, any."
    )
    spark_block_manager_port: int | None = Field(
        default=None,
        ge=1024,
        le=65535,
        description="Port of block managers, the driver's too; left out, any.",
    )
    spark_ui: bool = Field(default=False, description="Whether Spark serves its own pages.")


class SinkSettings(KafkaSettings, SparkSettings):
    """Source, sink and Spark, by option or by variable (prefix TIDEGATE_)."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_", frozen=True, extra="forbid", env_ignore_empty=True
    )

    bootstrap_servers: str = Field(description="Kafka brokers, as host:port,host:port.")
    warehouse: Path = Field(
        description="Local folder of the tables and of the default Iceberg catalog; required with other catalogs too."
    )
    sink: str = Field(default="iceberg", description=f"Where accepted records go: {', '.join(SINKS)}.")
    postgresql_url: SecretStr | None = Field(
        default=None, description="Database of the PostgreSQL sink: postgresql://user:password@host/database."
    )
    spark_jars: Path | None = Field(
        default=None,
        description="Directory of the connector's jars; left out, those that `tidegate jars` has installed.",
    )
    spark_extra_jars: str = Field(
        default="",
        description="Further jars of driver and executors, such as those of an object store: files and folders, "
        "separated by colons.",
    )
    write_class_archive: bool | None = Field(
        default=None,
        description="Whether this run writes the archive of Java's classes with which later starts are faster; left out, "
        "a local `enforce` writes it if there is none.",
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict,
        repr=False,  # they may hold secrets
        description="Properties of the Iceberg catalog `lake`; empty: a JDBC catalog in the warehouse.",
    )

    @property
    def kafka(self) -> KafkaConnection:
        """Return the connection to Kafka. Raises SettingsError if its file is no longer valid."""
        return self.connection_to(self.bootstrap_servers)

    @model_validator(mode="after")
    def _reaches_kafka(self) -> Self:
        self.connection_to(self.bootstrap_servers)
        return self

    @property
    def rules(self) -> SinkRules:
        """Return the facts about the sink that the settings and the Spark session need."""
        return SINKS[self.sink]

    @property
    def postgresql_address(self) -> str:
        """Return the URL of the PostgreSQL sink's database, with its password."""
        assert self.postgresql_url is not None, "it was required"  # noqa: S101 - a programming error
        return self.postgresql_url.get_secret_value()

    @property
    def destination(self) -> str:
        """Return a name of the place of the rows: equal for all instances, and without secrets, which rotate."""
        place: dict[str, object] = {"sink": self.sink}
        if self.rules.required == "postgresql_url":
            database = conninfo_to_dict(self.postgresql_address)
            place |= {name: database.get(name) for name in ("host", "hostaddr", "port", "dbname")}
        elif self.rules.needs_warehouse(self):
            place["warehouse"] = str(self.warehouse.absolute())
        elif self.rules.is_table:
            properties = self.catalog_properties
            place["uri"] = properties.get("uri", "").partition("?")[0].rpartition("@")[2]
            place["warehouse"] = properties.get("warehouse", "")
        digest = sha256(json.dumps(place, sort_keys=True).encode()).hexdigest()
        return f"{self.sink}-{digest[:8]}"

    @field_validator("warehouse", mode="before")
    @classmethod
    def _is_folder(cls, value: object) -> object:
        if "://" in str(value):  # as a path it would be a folder with this name
            raise ValueError(
                "the warehouse is a local folder; name an object store in TIDEGATE_CATALOG_PROPERTIES"
            )
        return value

    @field_validator("sink")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in SINKS:
            *first, last = map(repr, SINKS)
            expected = f"{', '.join(first)} or {last}"
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    @model_validator(mode="after")
    def _has_what_the_sink_requires(self) -> Self:
        required = self.rules.required
        if required is not None and getattr(self, required) is None:
            raise ValueError(f"sink {self.sink} needs TIDEGATE_{required.upper()}")
        return self

    @field_validator("postgresql_url")
    @classmethod
    def _is_readable(cls, value: SecretStr | None) -> SecretStr | None:
        """Reject a URL that libpq cannot parse, without libpq's message, which may quote a part of the password."""
        if value is not None:
            try:
                conninfo_to_dict(value.get_secret_value())
            except ProgrammingError:
                raise ValueError(
                    "PostgreSQL cannot read this address; it is postgresql://user:password@host:5432/database, and a "
                    "password with one of /?#@:% in it has each of them as %2F, %3F, %23, %40, %3A, %25"
                ) from None
        return value


class RegistrySettings(SinkSettings):
    """Settings for fetching a contract from the registry, and for its plan."""

    registry_user: str | None = Field(default=None, description="Id of the API key that the job presents.")
    registry_password: SecretStr | None = Field(default=None, description="Secret of that key.")
    registry_token: SecretStr | None = Field(
        default=None, description="Instead of both: a whole API key, or a token of an identity provider."
    )
    mask_key: SecretStr | None = Field(
        default=None,
        description="Secret of at least 32 characters that makes the tokens of hashed fields; the same where tables are joined.",
    )
    registry_timeout_seconds: float = Field(
        default=2.0, gt=0, description="How long the job waits for an answer of the registry."
    )


class ReconcileSettings(RegistrySettings):
    """Settings of `tidegate reconcile`."""

    registry_url: str | None = Field(
        default=None, description="Base address of the registry; left out, no keys of records are read."
    )


@dataclass(frozen=True, slots=True)
class ContractSelection:
    """The contracts that a job enforces: by id prefixes and domains, or without both all that its key may read."""

    prefixes: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def matches(self, contract_id: str, domain: str | None) -> bool:
        """Return whether a contract of this id and domain is enforced by the job."""
        return (not self.prefixes or contract_id.startswith(self.prefixes)) and (
            not self.domains or domain in self.domains
        )


class JobSettings(RegistrySettings):
    """All settings of the job."""

    registry_url: str = Field(description="Base address of the registry, such as http://localhost:8081.")
    checkpoints: Path = Field(description="Directory for Spark's checkpoints; they may be lost at any time.")
    write_mode: WriteMode = Field(
        default="append",
        description="upsert: the newest record of each primary key is the row (not with the Kafka sink).",
    )
    merge_mode: MergeMode = Field(
        default="copy-on-write",
        description="How Iceberg and Delta upsert: rewrite the files of changed rows, or note which rows are gone.",
    )
    quarantine_table: bool = Field(
        default=False,
        description="Also keep refused records, with their bytes and reasons, in a table beside the accepted rows (not with the Kafka sink). It is protected as the quarantine topic is: it holds personal data unmasked.",
    )
    trigger_seconds: float | None = Field(
        default=None,
        ge=0,
        description="Most seconds between batches that are not full; left out, 5 for a table and 0.5 for a topic.",
    )
    max_offsets: int = Field(
        default=250_000, ge=1, le=MOST_OFFSETS, description="Maximum number of offsets in a batch."
    )
    max_batch_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=1,
        description="About so many bytes of keys, values and headers in one batch, by what an offset held lately.",
    )
    starting: Starting = Field(default="earliest", description="Where a stream without a ledger starts.")
    available_now: bool = Field(default=False, description="Process the available records, then exit.")
    expectations_proof_every: int = Field(
        default=0,
        ge=0,
        description="Proof run: in every Nth batch Great Expectations also judges the expectations that are compiled, and a "
        "disagreement is reported; 0: never. What cannot be compiled is judged by it in every batch.",
    )
    snapshot_expiry: bool = Field(
        default=True,
        description="Expire the snapshots that the stream has written to its Iceberg table, and old versions of the log of its "
        "Delta table.",
    )
    snapshots_kept: int = Field(
        default=500,
        ge=1,
        description="Most snapshots of the stream, or versions of the log, that stay, the newest.",
    )
    snapshot_age_seconds: float = Field(
        default=5 * 24 * 3600.0,
        gt=0,
        description="Age at which a snapshot of the stream is expired (Iceberg).",
    )
    snapshot_protected_seconds: float = Field(
        default=600.0,
        ge=0,
        description="Age up to which no snapshot is expired: longer than any reader or attempt needs one.",
    )
    compaction: bool = Field(
        default=True, description="Merge the small files of an Iceberg or Delta table in the background."
    )
    compaction_target_bytes: int = Field(
        default=128 * 1024 * 1024, ge=4096, description="Size of a file that compaction leaves alone."
    )
    compaction_min_files: int = Field(
        default=50, ge=2, description="Fewest small files, or delete files, that are worth a compaction."
    )
    compaction_max_files: int = Field(
        default=1_000, ge=2, description="Most files that one round compacts (Iceberg)."
    )
    manifest_limit: int = Field(
        default=200,
        ge=0,
        description="Manifests of an Iceberg table from which small ones are merged; 0: never.",
    )
    orphan_removal: bool = Field(
        default=True, description="Remove the data files and staging tables of crashed attempts."
    )
    orphan_age_seconds: float = Field(
        default=24 * 3600.0, ge=0, description="Age from which a data file of a crashed attempt is removed."
    )
    maintenance_seconds: float = Field(
        default=300.0, gt=0, description="Pause between rounds of the table's maintenance."
    )
    quarantine_slots: int = Field(
        default=1,
        ge=1,
        le=MOST_SLOTS,
        description="Transactional producers of the quarantine topic (sinks with a table).",
    )
    accepted_slots: int = Field(
        default=1,
        ge=1,
        le=MOST_SLOTS - 1,  # the driver has one too
        description="Transactional producers of accepted records (Kafka sink), at most 63. 1: the driver writes them together with the ledger. More: so many tasks write them before, which is for rates that one process cannot write.",
    )
    transaction_timeout_seconds: int = Field(
        default=60,
        ge=1,
        le=900,
        description="How long a Kafka transaction of the job may be open before the broker aborts it. The broker's transaction.max.timeout.ms bounds it.",
    )
    registry_grace_seconds: float | None = Field(
        default=None,
        ge=0,
        description="How long the last good contract serves while the registry is away; left out, until it is back. A stream that has no contract yet waits as long, or for 300 seconds.",
    )
    watch_seconds: float = Field(
        default=10.0,
        gt=0,
        description="With --all, --prefix or --domain: pause between looks at the registry's list of contracts.",
    )
    max_streams: int = Field(
        default=100,
        ge=1,
        description="With --all, --prefix or --domain: most streams of this job at one time; the job logs which contracts it leaves out.",
    )
    restart_limit: int = Field(
        default=10,
        ge=0,
        description="Restarts in a row before a stream gives up; a published batch, or RESTART_RESET_SECONDS without a failure, begins the count again.",
    )
    restart_reset_seconds: float = Field(
        default=600.0,
        gt=0,
        description="How long a stream has to run before its earlier restarts are forgotten.",
    )
    restart_backoff_seconds: float = Field(
        default=1.0, gt=0, description="Pause before the first restart; each later one takes twice as long."
    )
    lease_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How long an instance that runs a stream may be silent before another one with the same settings takes the stream over. 0: no lease, a second instance takes over at once.",
    )
    heartbeat_seconds: float = Field(
        default=10.0, gt=0, description="Pause between heartbeats, which bring what the registry asks for."
    )
    watchdog_seconds: float = Field(
        default=600.0, gt=0, description="How long one batch may take before the job logs that it is slow."
    )

    @property
    def batch_seconds(self) -> float:
        """Return the maximum seconds between batches that are not full; longer for tables: each commit adds files."""
        if self.trigger_seconds is not None:
            return self.trigger_seconds
        return _TABLE_SECONDS if self.rules.is_table else _TOPIC_SECONDS

    def scratch(self, stream: str) -> Path:
        """Return the folder of a stream's checkpoint and of the records that wait for their batch to be decided.

        Each destination has its own folder: two jobs may write one stream to two sinks, or to two tables of one kind,
        and each start deletes the files of earlier starts.
        """
        return self.checkpoints.absolute() / stream / self.destination

    @property
    def merging(self) -> MergeMode | None:
        """Return the merge mode of Iceberg and Delta; None if rows are appended."""
        return self.merge_mode if self.write_mode == "upsert" else None

    @property
    def appending(self) -> Self:
        """Return these settings for a table with appended rows, regardless of the write mode."""
        return self.model_copy(update={"write_mode": "append"})

    @model_validator(mode="after")
    def _can_keep_refusals(self) -> Self:
        if self.quarantine_table and not self.rules.is_table:
            raise ValueError(
                f"quarantine-table needs a sink with tables, and {self.sink} has none; refused records are in the quarantine "
                "topic: to have them as a table too, run a second job with --sink iceberg --quarantine-table"
            )
        return self

    @model_validator(mode="after")
    def _can_upsert(self) -> Self:
        if self.write_mode == "upsert" and not self.rules.is_table:
            raise ValueError("write-mode upsert is for tables; a topic is appended to")
        return self


class AdoptSettings(JobSettings):
    """Settings of an adoption: all of the job's, except for those of a running stream."""

    checkpoints: Path = Field(default=Path(), description="Not used: no stream runs.")


class MaintainSettings(AdoptSettings):
    """Settings of `tidegate maintain`: where the table is, and the rules of maintenance, as for the job."""

    bootstrap_servers: str = Field(default="localhost:9092", description="Not used: no record is read.")
    registry_url: str = Field(default="", description="Not used: no contract is read.")
