"""A real broker that asks who its clients are: one listener for each way of securing a connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.certificates import Authority
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.broker import Broker

USER, PASSWORD = "tidegate", 'S3CR3T" \\ for=the;broker'
KEY_PASSWORD = "S3CR3T of the key"  # noqa: S105 - it opens what the test makes
_SECURED = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredBroker(Broker):
    """The embedded broker with three more listeners; its own plain one is that of the broker itself."""

    authority: Authority
    secured: dict[str, int]

    def _configure(self) -> Path:
        path = super()._configure()
        self.authority = Authority(path.parent)
        certificate, key = self.authority.issue("broker", ports.HOST)
        identity = path.parent / "broker-identity.pem"
        identity.write_text(key.read_text() + certificate.read_text())
        # Claimed until it has stopped, with those of the broker itself.
        claims = tuple(ports.claim() for _ in _SECURED)
        self._claims += claims
        self.secured = {name: each.port for name, each in zip(_SECURED, claims, strict=True)}
        listeners = "".join(f",{name}://{ports.HOST}:{port}" for name, port in self.secured.items())
        protocols = "".join(f",{name}:{name}" for name in self.secured)
        lines = []
        for line in path.read_text().splitlines():
            name = line.partition("=")[0]
            lines.append(
                line
                + (listeners if name in {"listeners", "advertised.listeners"} else "")
                + (protocols if name == "listener.security.protocol.map" else "")
            )
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            lines += [
                f"{prefix}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
                f'{prefix}.plain.sasl.jaas.config={_PLAIN} required user_{USER}="{quoted}";',
                f"{prefix}.scram-sha-512.sasl.jaas.config={_SCRAM} required;",
            ]
        for listener in ("ssl", "sasl_ssl"):
            prefix = f"listener.name.{listener}.ssl"
            lines += [f"{prefix}.keystore.type=PEM", f"{prefix}.keystore.location={identity}"]
        lines += [
            "listener.name.ssl.ssl.client.auth=required",
            "listener.name.ssl.ssl.truststore.type=PEM",
            f"listener.name.ssl.ssl.truststore.location={self.authority.path}",
            # A topic without rules is open to all; the plain listener, that of the broker itself, to everything.
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found=true",
            "super.users=User:ANONYMOUS",
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def add_user(self) -> None:
        """Let the user in by SCRAM too; by PLAIN it is let in from the start."""
        user = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        client.alter_user_scram_credentials([user])[USER].result(30)

    def allow_only(self, operation: AclOperation, topic: str) -> None:
        """Let the user do one thing with a topic, and nothing else."""
        rule = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL,
            f"User:{USER}", "*", operation, AclPermissionType.ALLOW,
        )  # fmt: skip
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        client.create_acls([rule])[rule].result(30)

    @contextmanager
    def writing_denied(self) -> Iterator[None]:
        """Let the user read and describe all topics, and write none, for as long as the context lasts."""

        def rule(
            kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType
        ) -> AclBinding:
            return AclBinding(
                kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, permission
            )

        deny, allow = AclPermissionType.DENY, AclPermissionType.ALLOW
        rules = [
            rule(ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE, deny),
            rule(ResourceType.TOPIC, "*", AclOperation.WRITE, deny),
            rule(ResourceType.TOPIC, "*", AclOperation.READ, allow),
        ]
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in client.create_acls(rules).values():
            made.result(30)
        try:
            yield
        finally:
            filters = [
                AclBindingFilter(
                    each.restype, each.name, each.resource_pattern_type, each.principal, each.host,
                    each.operation, each.permission_type,
                )
                for each in rules
            ]  # fmt: skip
            for deleted in client.delete_acls(filters).values():
                deleted.result(30)


@dataclass(frozen=True, slots=True)
class Way:
    """One way in: the address, and the file of client properties."""

    bootstrap: str
    config: Path

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaSettings(kafka_config=self.config).connection_to(self.bootstrap)


def way_in(
    broker: SecuredBroker, protocol: str, folder: Path, mechanism: str = "", password: str = PASSWORD
) -> Way:
    """Write the client properties for a listener."""
    lines = [f"security.protocol={protocol}"]
    if protocol.startswith("SASL"):
        lines += [f"sasl.mechanism={mechanism}", f"sasl.username={USER}", f"sasl.password={password}"]
    if protocol.endswith("SSL"):
        lines.append(f"ssl.ca.location={broker.authority.path}")
    if protocol == "SSL":
        certificate, key = broker.authority.issue("client", password=KEY_PASSWORD)
        lines += [f"ssl.certificate.location={certificate}", f"ssl.key.location={key}"]
        lines.append(f"ssl.key.password={KEY_PASSWORD}")
    config = folder / f"{protocol}{mechanism}.properties"
    config.write_text("\n".join(lines) + "\n")
    return Way(f"{ports.HOST}:{broker.secured[protocol]}", config)
