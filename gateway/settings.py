"""The settings of the gateway process, read once at its entry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from tidegate.contracts.document.terms import MOST_DAYS
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.gateway.access.settings import AccessSettings
from tidegate.gateway.alerts.settings import AlertSettings


class GatewaySettings(AccessSettings, AlertSettings, KafkaSettings):
    """Settings of `tidegate serve`; each field is also an environment variable `TIDEGATE_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="TIDEGATE_", frozen=True, extra="forbid")

    database_url: SecretStr = Field(
        default=SecretStr("sqlite:///tidegate.db"),
        description="SQLAlchemy URL of the registry's database; it may hold a password.",
    )
    host: str = Field(
        default="127.0.0.1", description="Address to listen on; any but loopback needs access control."
    )
    port: int = Field(default=8081, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    bootstrap_servers: str | None = Field(
        default=None, description="Kafka brokers, needed to show refused records on the desk."
    )
    quarantine_index: Literal["on", "off"] = Field(
        default="on",
        description="Whether this process keeps the index of the quarantine topics; of several processes, each partition is read by one.",
    )
    header_seconds: float = Field(
        default=10.0,
        gt=0,
        le=300,
        description="Seconds in which a client has to send the headers of a request; then its connection is closed.",
    )
    report_retention_days: int = Field(
        default=30,
        ge=1,
        le=MOST_DAYS,
        description="Reports this much older than the newest of their stream are deleted.",
    )
    max_document_bytes: int = Field(default=1 << 20, ge=1, description="Largest contract document or report.")
    max_judge_bytes: int = Field(default=8 << 20, ge=1, description="Largest body of records to judge.")
    max_judge_records: int = Field(default=10_000, ge=1, description="Most records judged in one request.")
    incompatible_error_code: Annotated[Literal[409, 40901], BeforeValidator(int)] = Field(
        default=409,
        description="error_code of an incompatible schema in the Confluent API; clients of 8.0.4 and later know 40901.",
    )
    checks_at_once: int = Field(
        default=2,
        ge=1,
        description="Documents that are checked at the same time; reads are not held up by them.",
    )
    checks_waiting: int = Field(
        default=100, ge=0, description="Documents that may wait for it; those beyond are answered 429."
    )
    plan_cache_size: int = Field(default=64, ge=1, description="Compiled contract versions kept in memory.")

    @property
    def kafka(self) -> KafkaConnection | None:
        """Return the connection to Kafka; None if no brokers are configured. Raises SettingsError."""
        return self.connection_to(self.bootstrap_servers) if self.bootstrap_servers else None
