"""Connections to Kafka: permitted properties, their form for each client, and no secret in any output."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from tests.certificates import Authority
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings, SaslLogin

SECRET = 'S3CR3T "with" \\ and = ; #'  # noqa: S105 - it opens nothing
OPENS = "opens the key"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f"sasl.mechanism=SCRAM-SHA-512\nsasl.username=tidegate\nsasl.password={SECRET}\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def connect(tmp_path: Path, text: str, **settings: Any) -> KafkaConnection:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return KafkaSettings(kafka_config=path, **settings).connection_to("b:1")


def test_without_a_file_no_properties_are_set() -> None:
    connection = KafkaSettings().connection_to("a:1,b:2")
    assert connection == KafkaConnection("a:1,b:2")
    assert connection.for_librdkafka() == {"bootstrap.servers": "a:1,b:2", "security.protocol": "PLAINTEXT"}
    assert connection.for_spark() == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_a_login_is_given_to_each_client_in_its_own_properties(tmp_path: Path) -> None:
    connection = connect(tmp_path, f"# who we are\n\nsecurity.protocol = sasl_plaintext\n{LOGIN}")
    assert connection.for_librdkafka() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "tidegate",
        "sasl.password": SECRET,
    }
    assert connection.for_spark() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} required username="tidegate" '
        'password="S3CR3T \\"with\\" \\\\ and = ; #";',
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_file_for_java_means_the_same(tmp_path: Path, mechanism: str) -> None:
    login = SaslLogin(mechanism, 'ti"de', SecretStr(SECRET))
    first, _, rest = login.jaas().partition(" username")
    text = (
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={first} \\\n   username{rest}\n"
    )
    assert connect(tmp_path, text) == KafkaConnection("b:1", "SASL_PLAINTEXT", login)


def test_certificates_are_read_from_pem_by_either_name(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("client", password=OPENS)
    ours = connect(
        tmp_path,
        f"security.protocol=SSL\nssl.ca.location={authority.path}\nssl.certificate.location={certificate}\n"
        f"ssl.key.location={key}\nssl.key.password={OPENS}\n",
    )
    assert ours.for_librdkafka() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.path),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": OPENS,
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert ours.for_spark() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": authority.path.read_text(),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": certificate.read_text(),
        "kafka.ssl.keystore.key": opened(key, OPENS),
        "kafka.ssl.endpoint.identification.algorithm": "https",
    }
    certificate, key = authority.issue("open")
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    java = connect(
        tmp_path,
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.path}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={both}\nssl.endpoint.identification.algorithm=\n",
    )
    assert java.tls is not None
    assert (java.tls.authorities, java.tls.certificate, java.tls.key) == (authority.path, both, both)
    assert java.for_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    assert java.for_spark()["kafka.ssl.endpoint.identification.algorithm"] == ""
    # Both are clients that librdkafka can make.
    for connection in (ours, java):
        AdminClient({**connection.for_librdkafka(), "log_level": 0})


def test_the_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanisms=PLAIN\nsasl.username=of-the-file\n")
    monkeypatch.setenv("TIDEGATE_KAFKA_CONFIG", str(path))
    monkeypatch.setenv("TIDEGATE_KAFKA_SASL_PASSWORD", SECRET)
    login = KafkaSettings().connection_to("b:1").sasl
    assert login == SaslLogin("PLAIN", "of-the-file", SecretStr(SECRET))
    monkeypatch.setenv("TIDEGATE_KAFKA_SASL_USERNAME", "of-the-environment")
    login = KafkaSettings().connection_to("b:1").sasl
    assert login == SaslLogin("PLAIN", "of-the-environment", SecretStr(SECRET))
    for name in ("CONFIG", "SASL_USERNAME", "SASL_PASSWORD"):
        monkeypatch.setenv(f"TIDEGATE_KAFKA_{name}", "")
    assert KafkaSettings().connection_to("b:1") == KafkaConnection("b:1")


def test_the_representation_of_a_connection_shows_no_secret(tmp_path: Path) -> None:
    connection = connect(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{LOGIN}")
    assert str(connection) == "b:1"
    assert "S3CR3T" not in repr(connection)
    assert "S3CR3T" not in repr(KafkaSettings(kafka_sasl_password=SecretStr(SECRET)))
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S3CR3T", ":1: a line says name=value"),
        (
            "sasl.pasword=S3CR3T",
            ":1: sasl.pasword does not say how to reach Kafka; did you mean sasl.password?",
        ),
        ("linger.ms=5", "linger.ms does not say how to reach Kafka; there are sasl.mechanism, "),
        ("bootstrap.servers=x:1", "the brokers are named by --bootstrap-servers"),
        ("ssl.truststore.password=S3CR3T", "read as PEM: use ssl.ca.location, ssl.certificate.location and"),
        (
            "#\nsasl.password=S3CR3T\nsasl.password=S3CR3T",
            ":3: sasl.password is set twice",
        ),
        ("security.protocol=S3CR3T", "security.protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            LOGIN,
            "sasl.mechanism has no effect with security.protocol PLAINTEXT; make it SASL_PLAINTEXT, SASL_SSL",
        ),
        (f"security.protocol=SSL\n{LOGIN}", "sasl.mechanism has no effect with security.protocol SSL"),
        (
            f"security.protocol=SASL_PLAINTEXT\nssl.key.password=S3CR3T\n{LOGIN}",
            "ssl.key.password has no effect with security.protocol SASL_PLAINTEXT; make it SSL, SASL_SSL",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI",
            "sasl.mechanism is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u", "TIDEGATE_KAFKA_SASL_PASSWORD"),
        (
            f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username=u;",
            "SASL needs sasl.username and sasl.password",
        ),
        (
            'sasl.jaas.config=com.sun.Krb5LoginModule required password="S3CR3T";',
            f'sasl.jaas.config is read as `{PLAIN} required username="..." password="...";`',
        ),
        (
            "security.protocol=SSL\nssl.ca.location=/no/such",
            "/no/such cannot be read: No such file or directory",
        ),
        (
            "security.protocol=SSL\nssl.ca.location={here}",
            "is not a PEM file: it must contain -----BEGIN CERTIFICATE-----",
        ),
        (
            "security.protocol=SSL\nssl.certificate.location=/x",
            "ssl.certificate.location and ssl.key.location go together",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/x.jks",
            "ssl.truststore.location is read with ssl.truststore.type=PEM only; or use ssl.ca.location",
        ),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=maybe",
            "ssl.endpoint.identification.algorithm is https or none",
        ),
    ],
)
def test_what_cannot_work_says_what_to_do_and_repeats_no_value(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        connect(tmp_path, text.replace("{here}", str(tmp_path / "client.properties")))
    assert message in str(raised.value)
    assert "S3CR3T" not in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(SettingsError, match=r"--kafka-config .*gone cannot be read: No such file"):
        KafkaSettings(kafka_config=gone).connection_to("b:1")
    gone.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read: it is no text"):
        KafkaSettings(kafka_config=gone).connection_to("b:1")


def test_a_key_in_an_older_form_is_given_to_java_in_pkcs_8(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("client")
    text = opened(key)
    own = f"security.protocol=SSL\nssl.certificate.location={certificate}\nssl.key.location={key}\n"
    private = serialization.load_pem_private_key(text.encode(), None)
    older = serialization.PrivateFormat.TraditionalOpenSSL
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, older, serialization.NoEncryption()))
    assert "BEGIN EC PRIVATE KEY" in key.read_text()
    assert connect(tmp_path, own).for_spark()["kafka.ssl.keystore.key"] == text


def opened(key: Path, password: str | None = None) -> str:
    """The key as Java reads it: in PKCS #8, without a password."""
    private = serialization.load_pem_private_key(key.read_bytes(), password.encode() if password else None)
    form = serialization.PrivateFormat.PKCS8
    return private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def test_files_that_do_not_fit_together_are_found_at_once(tmp_path: Path, authority: Authority) -> None:
    first, first_key = authority.issue("first", password=OPENS)
    second, second_key = authority.issue("second")
    start = "security.protocol=SSL\nssl.certificate.location={}\nssl.key.location={}\n"
    for text in (
        start.format(first, second_key),
        start.format(second, first_key) + f"ssl.key.password={OPENS}\n",
        start.format(first, first_key),
        start.format(first, first_key) + "ssl.key.password=S3CR3T\n",
    ):
        with pytest.raises(
            SettingsError, match=r"\.key does not open: it belongs to another certificate"
        ) as raised:
            connect(tmp_path, text)
        assert "S3CR3T" not in str(raised.value)
    authority.path.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(SettingsError, match=r"authority\.pem holds no certificate that can be read"):
        connect(tmp_path, f"security.protocol=SSL\nssl.ca.location={authority.path}\n")


def test_a_machine_s_own_authorities_are_trusted_by_default(tmp_path: Path) -> None:
    connection = connect(tmp_path, "security.protocol=SSL\n")
    assert connection.for_spark() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.endpoint.identification.algorithm": "https",
    }
    assert connection.for_librdkafka() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_a_continuation_that_the_file_does_not_finish_is_a_line(tmp_path: Path) -> None:
    text = f"security.protocol=SASL_PLAINTEXT\n{LOGIN}ssl.key.password=\\"
    with pytest.raises(SettingsError, match=r"ssl\.key\.password has no effect"):
        connect(tmp_path, text)
