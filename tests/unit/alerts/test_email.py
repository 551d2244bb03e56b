"""E-mail over an encrypted connection, to a real mail server: what it gets, and what a wrong one never gets."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.unit.alerts.mail_server import HOST, PASSWORD, USER, MailServer, mail_server, make_certificate
from tidegate.gateway.alerts.alert import Alert, AlertKind
from tidegate.gateway.alerts.channels import Email, TargetError

RECEIVERS = ("a@example.org", "b@example.org")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The certificate, which OpenSSL trusts as one of the system's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return certificate


def email_to(server: MailServer, scheme: str = "smtp", password: str = PASSWORD) -> Email:
    account = f"{quote(USER, safe='')}:{quote(password, safe='')}"
    return Email(f"{scheme}://{account}@{HOST}:{server.port}", "tidegate@example.org", RECEIVERS)


def alert() -> Alert:
    return Alert(AlertKind.PAUSED, "adm", datetime(2026, 7, 1, tzinfo=UTC), "paused: gr\u00fcn", "")


@pytest.mark.parametrize(("scheme", "implicit"), [("smtp", False), ("smtps", True)])
def test_the_password_and_the_message_go_over_an_encrypted_connection(
    trusted: Path, scheme: str, implicit: bool
) -> None:
    with mail_server(trusted, implicit=implicit) as server:
        email_to(server, scheme).send(alert())
        receivers, content = server.received.get(timeout=30)
        assert server.logins == [(not implicit, PASSWORD.encode())]
    assert receivers == list(RECEIVERS)
    message = message_from_bytes(content, policy=policy.default)
    assert message["To"] == ", ".join(RECEIVERS)
    assert "paused: gr\u00fcn" in message.get_content()


def test_a_wrong_password_is_a_failure_that_does_not_repeat_it(trusted: Path) -> None:
    with mail_server(trusted) as server:
        with pytest.raises(TargetError, match="the mail server refused the message") as error:
            email_to(server, "smtp", "sesame-47").send(alert())
        assert server.received.empty()
    assert "sesame" not in str(error.value)


def test_a_server_without_a_trusted_certificate_gets_no_password(certificate: Path) -> None:
    with mail_server(certificate) as server:
        with pytest.raises(TargetError, match=r"certificate verify failed"):
            email_to(server).send(alert())
        assert (server.logins, server.received.empty()) == ([], True)


def test_a_server_that_offers_no_encryption_gets_no_password() -> None:
    with mail_server() as server:
        with pytest.raises(TargetError, match="STARTTLS"):
            email_to(server).send(alert())
        assert (server.logins, server.received.empty()) == ([], True)
