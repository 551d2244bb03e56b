"""Connection settings for Kafka, as properties of librdkafka clients and as options of Spark's connector.

The two clients name the same settings differently. librdkafka has `sasl.username`, `sasl.password` and PEM files; Java
has `sasl.jaas.config` and key stores. A file of client properties may use the names of either client.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.suggestions import similar

# An admin client sends requests to the last known controller. After a crash of that node, each attempt of a stream timed
# out until librdkafka refreshed its metadata, by default after five minutes. The cluster had recovered within seconds.
_REFRESH_MILLISECONDS: Final = 5_000
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LIBRDKAFKA_NAMES: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
_JAVA_NAMES: Final = frozenset(
    {
        "sasl.jaas.config",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.type",
    }
)
_PEM_NAMES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_JAAS: Final = re.compile(r"\s*(?P<module>\S+)\s+required\s+(?P<options>.*?);?\s*", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r'(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";]+))')
_PEM_PRIVATE_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A user name and a password for SASL; `mechanism` is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: SecretStr

    def jaas(self) -> str:
        """Return the value of `sasl.jaas.config` for Java clients. Source: JAAS login configuration, one entry."""
        username, password = (
            _jaas_quoted(text) for text in (self.username, self.password.get_secret_value())
        )
        return f"{_LOGIN_MODULES[self.mechanism]} required username={username} password={password};"


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for TLS: certificate authorities to trust, and the client's own certificate and private key.

    With `authorities` None, those of the system are trusted. `certificate` and `key` are both set or both None (no
    client authentication). Without `verifies_hostname`, a broker certificate for any host name is accepted.
    """

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: SecretStr | None = None
    verifies_hostname: bool = True

    def check(self) -> None:
        """Load the files with OpenSSL. Raises SettingsError for a file that clients cannot use."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.authorities is not None:
            _read_pem(self.authorities)
            try:
                context.load_verify_locations(self.authorities)
            except ssl.SSLError:
                raise SettingsError(f"{self.authorities} holds no certificate that can be read") from None
        if self.certificate is not None and self.key is not None:
            _read_pem(self.certificate)
            _read_pem(self.key)
            # Without a password OpenSSL would ask for one at the terminal.
            password = self.key_password.get_secret_value() if self.key_password is not None else ""
            try:
                context.load_cert_chain(self.certificate, self.key, password)
            except ssl.SSLError:
                raise SettingsError(
                    f"{self.key} does not open: it belongs to another certificate than {self.certificate}, or needs "
                    "another ssl.key.password"
                ) from None
            self.decrypted_key()

    def decrypted_key(self) -> str:
        """Return the private key as unencrypted PKCS #8 in PEM.

        Java 17 cannot decrypt keys that OpenSSL encrypts with its defaults. Raises SettingsError for a file without a
        key, or a key that the password does not decrypt.
        """
        assert self.key is not None  # noqa: S101 - callers have checked it
        block = _PEM_PRIVATE_KEY.search(_read_pem(self.key))
        if block is None:
            raise SettingsError(f"{self.key} holds no key in PEM: it should hold -----BEGIN PRIVATE KEY-----")
        password = None
        # `cryptography` raises TypeError for a password that the key does not need.
        if self.key_password is not None and "ENCRYPTED" in block[0]:
            password = self.key_password.get_secret_value().encode()
        try:
            key = serialization.load_pem_private_key(block[0].encode(), password)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise SettingsError(f"{self.key} does not open: it needs another ssl.key.password") from None
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Brokers as host:port,host:port, with protocol and credentials. `str` returns only the brokers, no secrets."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    sasl: SaslLogin | None = None
    tls: Tls | None = None

    def __str__(self) -> str:
        return self.bootstrap_servers

    def for_librdkafka(self) -> dict[str, str]:
        """Return the properties of a librdkafka client. They contain secrets."""
        found = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.sasl is not None:
            found["sasl.mechanism"] = self.sasl.mechanism
            found["sasl.username"] = self.sasl.username
            found["sasl.password"] = self.sasl.password.get_secret_value()
        if self.tls is not None:
            files = {
                "ssl.ca.location": self.tls.authorities,
                "ssl.certificate.location": self.tls.certificate,
                "ssl.key.location": self.tls.key,
            }
            found |= {name: str(path) for name, path in files.items() if path is not None}
            if self.tls.key_password is not None:
                found["ssl.key.password"] = self.tls.key_password.get_secret_value()
            found["ssl.endpoint.identification.algorithm"] = "https" if self.tls.verifies_hostname else "none"
        return found

    def for_admin(self) -> dict[str, str | int]:
        """Return the properties of a librdkafka admin client. They contain secrets."""
        return {**self.for_librdkafka(), "topic.metadata.refresh.interval.ms": _REFRESH_MILLISECONDS}

    def for_reader(self, group: str) -> dict[str, str | int | bool]:
        """Return the properties of a librdkafka consumer that reads committed records of assigned partitions.

        The consumer reports the end of each partition. The client requires a `group`, but nothing joins it or commits
        offsets. The properties contain secrets.
        """
        return {
            **self.for_librdkafka(),
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }

    def for_spark(self) -> dict[str, str]:
        """Return the options of Spark's connector. They contain secrets.

        They include the content of the PEM files, so executors need no files. Raises SettingsError for a file that can
        no longer be read.
        """
        found = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.sasl is not None:
            found |= {"sasl.mechanism": self.sasl.mechanism, "sasl.jaas.config": self.sasl.jaas()}
        if self.tls is not None:
            found["ssl.endpoint.identification.algorithm"] = "https" if self.tls.verifies_hostname else ""
            if self.tls.authorities is not None:
                found["ssl.truststore.type"] = "PEM"
                found["ssl.truststore.certificates"] = _read_pem(self.tls.authorities)
            if self.tls.certificate is not None and self.tls.key is not None:
                found["ssl.keystore.type"] = "PEM"
                found["ssl.keystore.certificate.chain"] = _read_pem(self.tls.certificate)
                found["ssl.keystore.key"] = self.tls.decrypted_key()
        return {f"kafka.{name}": value for name, value in found.items()}


_T = TypeVar("_T")
_EmptyAsNone = Annotated[_T | None, BeforeValidator(lambda value: None if value == "" else value)]
"""An optional setting. An empty variable counts as unset, so a process can hide its value from a child."""


class KafkaSettings(BaseSettings):
    """The settings of every process with a Kafka connection, besides the addresses of the brokers."""

    model_config = SettingsConfigDict(env_prefix="TIDEGATE_", frozen=True, extra="ignore")

    kafka_config: _EmptyAsNone[Path] = Field(
        default=None, description="File of client properties that say how to reach Kafka: SASL, TLS."
    )
    kafka_sasl_username: _EmptyAsNone[str] = Field(
        default=None, description="Goes before the user of --kafka-config."
    )
    kafka_sasl_password: _EmptyAsNone[SecretStr] = Field(
        default=None, description="Goes before the password of --kafka-config."
    )

    def connection_to(self, bootstrap_servers: str) -> KafkaConnection:
        """Return the connection to these brokers; reads the file on each call. Raises SettingsError."""
        if self.kafka_config is None:
            properties = _Properties({}, "TIDEGATE_KAFKA_...")
        else:
            properties = _Properties.of_file(self.kafka_config)
        if self.kafka_sasl_username is not None:
            properties.values["sasl.username"] = self.kafka_sasl_username
        if self.kafka_sasl_password is not None:
            properties.values["sasl.password"] = self.kafka_sasl_password.get_secret_value()
        return properties.connection(bootstrap_servers)


class _Properties:
    """Client properties by librdkafka's names. Error messages begin with `origin`, their file or variables.

    No message quotes a value, because it may be a secret.
    """

    def __init__(self, values: dict[str, str], origin: str) -> None:
        self.values = values
        self._origin = origin

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read lines `name=value`. `#` or `!` begins a comment line; a trailing backslash continues a line.

        Raises SettingsError for an unreadable file, a line of another form, an unknown name or one that is set twice.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--kafka-config {path} cannot be read: {_reason(error)}") from None
        properties = cls({}, str(path))
        given: dict[str, str] = {}
        for number, line in _logical_lines(text):
            name, separator, value = (part.strip() for part in line.partition("="))
            if not separator or not name:
                raise SettingsError(
                    f"{path}:{number}: a line says name=value, as in security.protocol=SASL_SSL"
                )
            if name in given:
                raise SettingsError(f"{path}:{number}: {name} is set twice")
            properties._require_known(name, number)
            given[name] = value
        properties.values = properties._translate(given)
        return properties

    def connection(self, bootstrap_servers: str) -> KafkaConnection:
        """Build the connection. Raises SettingsError for properties that contradict each other or are incomplete."""
        values = self.values
        protocol = values.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise self._error(f"security.protocol is one of {', '.join(PROTOCOLS)}")
        uses_sasl, uses_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
        for kind, is_used in (("sasl", uses_sasl), ("ssl", uses_tls)):
            given = sorted(name for name in values if name.startswith(f"{kind}."))
            if given and not is_used:
                fitting = ", ".join(each for each in PROTOCOLS if kind.upper() in each)
                raise self._error(
                    f"{given[0]} has no effect with security.protocol {protocol}; make it {fitting}"
                )
        sasl = self._sasl() if uses_sasl else None
        return KafkaConnection(bootstrap_servers, protocol, sasl, self._tls() if uses_tls else None)

    def _sasl(self) -> SaslLogin:
        mechanism = self.values.get("sasl.mechanism", "").upper()
        if mechanism not in _LOGIN_MODULES:
            raise self._error(f"sasl.mechanism is one of {', '.join(_LOGIN_MODULES)}")
        username, password = self.values.get("sasl.username"), self.values.get("sasl.password")
        if not username or not password:
            raise self._error(
                "SASL needs sasl.username and sasl.password, there, as sasl.jaas.config, or as "
                "TIDEGATE_KAFKA_SASL_USERNAME and TIDEGATE_KAFKA_SASL_PASSWORD"
            )
        return SaslLogin(mechanism, username, SecretStr(password))

    def _tls(self) -> Tls:
        authorities, certificate, key = (
            Path(self.values[name]) if name in self.values else None for name in _PEM_NAMES
        )
        if (certificate is None) != (key is None):
            raise self._error("ssl.certificate.location and ssl.key.location go together")
        password = self.values.get("ssl.key.password")
        verification = self.values.get("ssl.endpoint.identification.algorithm", "https").lower()
        if verification not in {"https", "none", ""}:  # Java turns it off with an empty value
            raise self._error("ssl.endpoint.identification.algorithm is https or none")
        secret = SecretStr(password) if password is not None else None
        tls = Tls(authorities, certificate, key, secret, verification == "https")
        tls.check()
        return tls

    def _require_known(self, name: str, line: int) -> None:
        known = (
            _LIBRDKAFKA_NAMES | _JAVA_NAMES | {"sasl.mechanisms"}
        )  # librdkafka's older name of sasl.mechanism
        if name in known:
            return
        if name == "bootstrap.servers":
            hint = "the brokers are named by --bootstrap-servers"
        elif name.startswith(("ssl.truststore.", "ssl.keystore.")):
            hint = (
                f"certificates and keys are read as PEM: use {', '.join(_PEM_NAMES[:2])} and {_PEM_NAMES[2]}"
            )
        else:
            near = similar(name, known)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(_LIBRDKAFKA_NAMES))}"
        raise SettingsError(f"{self._origin}:{line}: {name} does not say how to reach Kafka; {hint}")

    def _translate(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the properties by librdkafka's names; names that only Java clients have are translated."""
        values = {name: value for name, value in given.items() if name in _LIBRDKAFKA_NAMES}
        if "sasl.mechanisms" in given:
            values["sasl.mechanism"] = given["sasl.mechanisms"]
        for store, names in (
            ("ssl.truststore", ("ssl.ca.location",)),
            ("ssl.keystore", ("ssl.certificate.location", "ssl.key.location")),
        ):
            location, kind = given.get(f"{store}.location"), given.get(f"{store}.type")
            if location is None and kind is None:
                continue
            if location is None or kind is None or kind.upper() != "PEM":  # Java's own default is JKS
                raise self._error(
                    f"{store}.location is read with {store}.type=PEM only; or use {', '.join(names)}"
                )
            values |= dict.fromkeys(names, location)
        if "sasl.jaas.config" in given:
            values |= self._parse_jaas(given["sasl.jaas.config"])
        return values

    def _parse_jaas(self, line: str) -> dict[str, str]:
        """Return the user name and password of a `sasl.jaas.config`, by librdkafka's names."""
        match = _JAAS.fullmatch(line)
        if match is None or match["module"] not in _LOGIN_MODULES.values():
            modules = sorted(set(_LOGIN_MODULES.values()))
            raise self._error(
                f'sasl.jaas.config is read as `{modules[0]} required username="..." password="...";`, or with {modules[1]}'
            )
        options = {
            option["name"]: option["plain"] or re.sub(r"\\(.)", r"\1", option["quoted"] or "")
            for option in _JAAS_OPTION.finditer(match["options"])
        }
        return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}

    def _error(self, message: str) -> SettingsError:
        return SettingsError(f"{self._origin}: {message}")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) without blank lines and comments; a continued line counts as its first."""
    begun: tuple[int, str] | None = None  # a line whose backslash continues it
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if begun is None and (not stripped or stripped[0] in "#!"):
            continue
        first, before = begun or (number, "")
        if stripped.endswith("\\"):
            begun = first, before + stripped.removesuffix("\\")
            continue
        begun = None
        yield first, before + stripped
    if begun is not None:
        yield begun


def _jaas_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_pem(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {_reason(error)}; it should be PEM") from None
    if "-----BEGIN " not in text:
        raise SettingsError(
            f"{path} is not a PEM file: it must contain -----BEGIN CERTIFICATE----- or -----BEGIN PRIVATE KEY-----"
        )
    return text


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return error.strerror or type(error).__name__
