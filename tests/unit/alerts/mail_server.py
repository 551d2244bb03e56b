"""A real mail server on loopback, plain or encrypted, and the certificate that clients are to trust."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from queue import Queue
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
USER, PASSWORD = "tide@gate", "pass:word/?#"


class MailServer:
    """Keeps the messages that it takes, with their receivers, and what was said about each log-in."""

    def __init__(self) -> None:
        self.received: Queue[tuple[list[str], bytes]] = Queue()
        self.logins: list[tuple[bool, bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"smtp://{HOST}:{self.port}"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        self.received.put((list(envelope.rcpt_tos), bytes(envelope.content or b"")))
        return "250 kept"

    def authenticate(
        self, _server: SMTP, session: Session, _envelope: Envelope, _mechanism: str, given: Any
    ) -> AuthResult:
        assert isinstance(given, LoginPassword)
        self.logins.append((session.ssl is not None, given.password))
        return AuthResult(success=given == LoginPassword(USER.encode(), PASSWORD.encode()), handled=False)


class _AnyPort(Controller):
    """Listens on a port that the system picks; the library's own would knock at port 0 to see whether it runs."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(certificate: Path | None = None, *, implicit: bool = False) -> Iterator[MailServer]:
    """Run a server; with a certificate it offers STARTTLS (RFC 3207) and then takes a log-in, and only then messages."""
    keeper = MailServer()
    options: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        options = {"authenticator": keeper.authenticate}
        if implicit:  # whether the connection is encrypted the library asks of STARTTLS only
            options |= {"ssl_context": context, "auth_require_tls": False}
        else:
            options |= {"tls_context": context, "require_starttls": True, "auth_required": True}
    controller = _AnyPort(keeper, hostname=HOST, port=0, **options)
    controller.start()
    try:
        keeper.port = controller.port
        yield keeper
    finally:
        controller.stop()


def make_certificate(folder: Path) -> Path:
    """Make a self-signed certificate for loopback; return it with its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "mail.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
