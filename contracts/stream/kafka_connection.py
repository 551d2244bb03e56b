"""How to reach Kafka: one value, said to librdkafka and to Spark's connector in the words of each.

The two call the same things by other names: `sasl.mechanisms` and `sasl.mechanism`, a user and a password or a line for
JAAS, files of PEM or a trust store. A file of client properties may use either's.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.contracts.errors import SettingsError

# An admin client asks the controller that it saw last. When that node died, each attempt of a stream timed out until
# librdkafka looked again, by default after five minutes, though the cluster had gone on within seconds.
_REFRESH_MILLISECONDS: Final = 5_000
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_NAMES: Final = frozenset(
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
_IN_JAVA: Final = frozenset(
    {
        "sasl.jaas.config",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.type",
    }
)
_JAAS: Final = re.compile(r"\s*(?P<module>\S+)\s+required\s+(?P<options>.*?);?\s*", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r'(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";]+))')
_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A name and a password, and how they are shown to the broker: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: SecretStr

    def jaas(self) -> str:
        """Write the line that Java's clients want. Source: JAAS login configuration, of one entry."""
        username, password = (_quoted(text) for text in (self.username, self.password.get_secret_value()))
        return f"{_LOGIN_MODULES[self.mechanism]} required username={username} password={password};"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of PEM: authorities to trust (None: those of the machine), and a certificate and key of one's own."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: SecretStr | None = None
    checks_names: bool = True

    def check(self) -> None:
        """Load the files as OpenSSL does. Raises SettingsError for what no client could use."""
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
            self.opened_key()

    def opened_key(self) -> str:
        """Return the key in PKCS #8 and without its password: Java 17 does not open what OpenSSL locks by default.

        Raises SettingsError for a file that holds no key, or one that the password does not open.
        """
        assert self.key is not None  # noqa: S101 - asked only where there is one
        block = _KEY.search(_read_pem(self.key))
        if block is None:
            raise SettingsError(f"{self.key} holds no key in PEM: it should hold -----BEGIN PRIVATE KEY-----")
        is_locked = "ENCRYPTED" in block[0]
        password = self.key_password.get_secret_value().encode() if self.key_password and is_locked else None
        try:
            key = serialization.load_pem_private_key(block[0].encode(), password)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise SettingsError(f"{self.key} does not open: it needs another ssl.key.password") from None
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Brokers as host:port,host:port, and what they ask of a client. Shown as the brokers alone."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    sasl: SaslLogin | None = None
    tls: Tls | None = None

    def __str__(self) -> str:
        return self.bootstrap_servers

    def for_librdkafka(self) -> dict[str, str]:
        """Return the properties of a client of librdkafka. They hold secrets."""
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
            found["ssl.endpoint.identification.algorithm"] = "https" if self.tls.checks_names else "none"
        return found

    def for_admin(self) -> dict[str, str | int]:
        """Return the properties of an admin client of librdkafka. They hold secrets."""
        return {**self.for_librdkafka(), "topic.metadata.refresh.interval.ms": _REFRESH_MILLISECONDS}

    def for_spark(self) -> dict[str, str]:
        """Return the options of Spark's connector. They hold secrets, and what the files hold: executors need no file.

        Raises SettingsError for a file that cannot be read any more.
        """
        found = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.sasl is not None:
            found |= {"sasl.mechanism": self.sasl.mechanism, "sasl.jaas.config": self.sasl.jaas()}
        if self.tls is not None:
            found["ssl.endpoint.identification.algorithm"] = "https" if self.tls.checks_names else ""
            if self.tls.authorities is not None:
                found["ssl.truststore.type"] = "PEM"
                found["ssl.truststore.certificates"] = _read_pem(self.tls.authorities)
            if self.tls.certificate is not None and self.tls.key is not None:
                found["ssl.keystore.type"] = "PEM"
                found["ssl.keystore.certificate.chain"] = _read_pem(self.tls.certificate)
                found["ssl.keystore.key"] = self.tls.opened_key()
        return {f"kafka.{name}": value for name, value in found.items()}


_T = TypeVar("_T")
_Given = Annotated[_T | None, BeforeValidator(lambda value: None if value == "" else value)]
"""A variable that is set to nothing is not set: so a process keeps from another what it has itself."""


class KafkaSettings(BaseSettings):
    """The settings of every process that reaches Kafka, beside the addresses of the brokers."""

    model_config = SettingsConfigDict(env_prefix="TIDEGATE_", frozen=True, extra="ignore")

    kafka_config: _Given[Path] = Field(
        default=None, description="File of client properties that say how to reach Kafka: SASL, TLS."
    )
    kafka_sasl_username: _Given[str] = Field(
        default=None, description="Goes before the user of --kafka-config."
    )
    kafka_sasl_password: _Given[SecretStr] = Field(
        default=None, description="Goes before the password of --kafka-config."
    )

    def connection_to(self, bootstrap_servers: str) -> KafkaConnection:
        """Return how to reach brokers. Reads the file each time; raises SettingsError for one that cannot work."""
        properties = (
            _Properties.of_file(self.kafka_config)
            if self.kafka_config
            else _Properties({}, "TIDEGATE_KAFKA_...")
        )
        if self.kafka_sasl_username is not None:
            properties.values["sasl.username"] = self.kafka_sasl_username
        if self.kafka_sasl_password is not None:
            properties.values["sasl.password"] = self.kafka_sasl_password.get_secret_value()
        return properties.connection(bootstrap_servers)


class _Properties:
    """Properties under librdkafka's names, and where they stand. No message repeats a value: it may be a secret."""

    def __init__(self, values: dict[str, str], origin: str) -> None:
        self.values = values
        self._origin = origin

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read `name=value` lines; `#` and `!` begin comments, and a backslash at its end continues a line."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--kafka-config {path} cannot be read: {_reason(error)}") from None
        properties = cls({}, str(path))
        given: dict[str, str] = {}
        for number, line in _lines(text):
            name, separator, value = (part.strip() for part in line.partition("="))
            if not separator or not name:
                raise SettingsError(
                    f"{path}:{number}: a line says name=value, as in security.protocol=SASL_SSL"
                )
            if name in given:
                raise SettingsError(f"{path}:{number}: {name} stands here for the second time")
            properties._require_known(name, number)
            given[name] = value
        properties.values = properties._in_librdkafka(given)
        return properties

    def connection(self, bootstrap_servers: str) -> KafkaConnection:
        """Check that the properties fit together. Raises SettingsError."""
        values = self.values
        protocol = values.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise self._wrong(f"security.protocol is one of {', '.join(PROTOCOLS)}")
        kinds = {"sasl": protocol.startswith("SASL_"), "ssl": protocol.endswith("SSL")}
        for kind, is_used in kinds.items():
            unused = sorted(name for name in values if name.startswith(f"{kind}."))
            if unused and not is_used:
                fitting = ", ".join(each for each in PROTOCOLS if kind.upper() in each)
                raise self._wrong(
                    f"{unused[0]} has no effect with security.protocol {protocol}; make it {fitting}"
                )
        return KafkaConnection(
            bootstrap_servers,
            protocol,
            self._sasl() if kinds["sasl"] else None,
            self._tls() if kinds["ssl"] else None,
        )

    def _sasl(self) -> SaslLogin:
        mechanism = self.values.get("sasl.mechanism", "").upper()
        if mechanism not in _LOGIN_MODULES:
            raise self._wrong(f"sasl.mechanism is one of {', '.join(_LOGIN_MODULES)}")
        username, password = self.values.get("sasl.username"), self.values.get("sasl.password")
        if not username or not password:
            raise self._wrong(
                "SASL needs sasl.username and sasl.password, there, as sasl.jaas.config, or as "
                "TIDEGATE_KAFKA_SASL_USERNAME and TIDEGATE_KAFKA_SASL_PASSWORD"
            )
        return SaslLogin(mechanism, username, SecretStr(password))

    def _tls(self) -> Tls:
        files = {}
        for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
            files[name] = Path(self.values[name]) if name in self.values else None
        authorities, certificate, key = files.values()
        if (certificate is None) != (key is None):
            raise self._wrong("ssl.certificate.location and ssl.key.location go together")
        password = self.values.get("ssl.key.password")
        names = self.values.get("ssl.endpoint.identification.algorithm", "https").lower()
        if names not in {"https", "none", ""}:
            raise self._wrong("ssl.endpoint.identification.algorithm is https or none")
        secret = SecretStr(password) if password is not None else None
        tls = Tls(authorities, certificate, key, secret, names == "https")
        tls.check()
        return tls

    def _require_known(self, name: str, line: int) -> None:
        known = _NAMES | _IN_JAVA | {"sasl.mechanisms"}
        if name in known:
            return
        if name == "bootstrap.servers":
            hint = "the brokers are named by --bootstrap-servers"
        elif name.startswith(("ssl.truststore.", "ssl.keystore.")):
            hint = f"certificates and keys are read as PEM: use {_PEM_NAMES}"
        else:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(_NAMES))}"
        raise SettingsError(f"{self._origin}:{line}: {name} does not say how to reach Kafka; {hint}")

    def _in_librdkafka(self, given: Mapping[str, str]) -> dict[str, str]:
        """Translate the names that only Java's clients have."""
        values = {name: value for name, value in given.items() if name in _NAMES}
        if "sasl.mechanisms" in given:
            values["sasl.mechanism"] = given["sasl.mechanisms"]
        for store, names in (
            ("ssl.truststore", ("ssl.ca.location",)),
            ("ssl.keystore", ("ssl.certificate.location", "ssl.key.location")),
        ):
            if f"{store}.location" in given or f"{store}.type" in given:
                if given.get(f"{store}.type", "JKS").upper() != "PEM" or f"{store}.location" not in given:
                    raise self._wrong(
                        f"{store}.location is read with {store}.type=PEM only; or use {', '.join(names)}"
                    )
                values |= dict.fromkeys(names, given[f"{store}.location"])
        if "sasl.jaas.config" in given:
            values |= self._of_jaas(given["sasl.jaas.config"])
        return values

    def _of_jaas(self, line: str) -> dict[str, str]:
        match = _JAAS.fullmatch(line)
        if match is None or match["module"] not in _LOGIN_MODULES.values():
            modules = sorted(set(_LOGIN_MODULES.values()))
            raise self._wrong(
                f'sasl.jaas.config is read as `{modules[0]} required username="..." password="...";`, or with {modules[1]}'
            )
        options = {
            option["name"]: option["plain"] or re.sub(r"\\(.)", r"\1", option["quoted"] or "")
            for option in _JAAS_OPTION.finditer(match["options"])
        }
        return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}

    def _wrong(self, message: str) -> SettingsError:
        return SettingsError(f"{self._origin}: {message}")


_PEM_NAMES: Final = "ssl.ca.location, ssl.certificate.location and ssl.key.location"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, continued ones as one, with the number of the first."""
    begun: tuple[int, str] | None = None
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


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_pem(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {_reason(error)}; it should be PEM") from None
    if "-----BEGIN " not in text:
        raise SettingsError(
            f"{path} is no PEM: it should hold -----BEGIN CERTIFICATE----- or -----BEGIN PRIVATE KEY-----"
        )
    return text


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "it is no text"
