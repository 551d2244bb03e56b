"""`tidegate serve`: serve the registry and the desk in one process."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import structlog
import typer
import uvicorn
from pydantic import ValidationError
from structlog.typing import Processor

from tidegate.contracts.address_secrets import mask_event
from tidegate.contracts.crash import exception_without_values
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.header_limits import protocol_with_header_limits
from tidegate.gateway.settings import GatewaySettings

_SHUTDOWN_SECONDS = 4
"""Time for current requests after a signal."""
_EXIT_SECONDS = 6.0
"""Time until the process ends in any case, because Python would wait for a busy thread, which cannot be stopped."""
_LAST_SECONDS = 8.0
"""Time until the process ends even if native code holds the GIL."""
_INTERRUPTED = 130
_WARNING_SECONDS = 60.0
_log = structlog.get_logger()


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on.", show_default="127.0.0.1", envvar="TIDEGATE_HOST"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port; 0 means any free port.", show_default="8081", envvar="TIDEGATE_PORT"),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="Database of the registry.",
            show_default="sqlite:///tidegate.db",
            envvar="TIDEGATE_DATABASE_URL",
        ),
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            help="Kafka brokers (host:port,...), to show refused records.",
            envvar="TIDEGATE_BOOTSTRAP_SERVERS",
        ),
    ] = None,
    kafka_config: Annotated[
        Path | None,
        typer.Option(help="File of Kafka client properties (SASL, TLS).", envvar="TIDEGATE_KAFKA_CONFIG"),
    ] = None,
) -> None:
    """Serve the registry and the desk until SIGTERM or Ctrl-C.

    Each option can be set by an environment variable, TIDEGATE_<OPTION>. The log
    is JSON on standard error, one event a line. On a loopback address, access
    control is off by default. Any other address requires TIDEGATE_ACCESS=on and
    API keys (tidegate keys create).

    Examples:
      tidegate serve
      TIDEGATE_ACCESS=on tidegate serve --host 0.0.0.0
      tidegate serve --database-url sqlite:////var/lib/tidegate/registry.db

    Exit codes: 0 stopped by SIGTERM; 2 an invalid setting; 3 the database does
    not answer; 130 stopped by Ctrl-C.
    """
    given = {
        "host": host,
        "port": port,
        "database_url": database_url,
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
    }
    configure_logging()
    run(_settings({name: value for name, value in given.items() if value is not None}))


def run(settings: GatewaySettings) -> None:
    """Serve until a signal, then finish the current requests for at most _SHUTDOWN_SECONDS.

    Raises SettingsError if the address is not available, Unavailable if the database does not answer.
    """
    listening = listen(settings.host, settings.port)
    require_access_control(settings, listening)
    factory = Factory(settings)
    factory.database.migrate()
    config = uvicorn.Config(
        create_app(factory),
        http=protocol_with_header_limits(settings.header_seconds),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    # uvicorn shuts down at SIGTERM and then raises the signal again, which must not end the process with an error.
    signal.signal(signal.SIGTERM, lambda *_: None)
    _Server(config).run(sockets=[listening])


def require_access_control(settings: GatewaySettings, listening: socket.socket) -> None:
    """Log a warning if access control is off. Raises SettingsError if other machines can then reach the registry."""
    if settings.access == "on":
        return
    address = ip_address(listening.getsockname()[0].partition("%")[0])
    if not address.is_loopback:
        raise SettingsError(
            f"{address} can be reached from other machines, and access control is off: set TIDEGATE_ACCESS=on and "
            "make a key with `tidegate keys create NAME --grant admin`, or listen on 127.0.0.1"
        )
    _log.warning("access_control_off", host=str(address), anybody_may="everything")


class _Server(uvicorn.Server):
    """A server that logs its address, also if the system chose the port, and ends within ten seconds of a signal."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down, and end the process if that takes too long."""
        last = threading.Timer(_EXIT_SECONDS, _end, (_INTERRUPTED if sig == signal.SIGINT else 0,))
        last.daemon = True
        last.start()
        # Its thread is not a Python thread, so it runs even if native code holds the GIL. The exit code is then 1.
        faulthandler.dump_traceback_later(_LAST_SECONDS, exit=True, file=2)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            host, port = listening.getsockname()[:2]
            _log.info("registry_listening", host=host, port=port)


def _end(code: int) -> None:
    """End the process at once, without output, which could block. The database rolls back uncommitted transactions."""
    os._exit(code)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address. Raises SettingsError if the address is not available.

    The socket names the protocol TCP, because asyncio sets TCP_NODELAY only on such sockets. Without it, each small
    answer waits 40 ms for the client's delayed acknowledgement.
    """
    with ExitStack() as on_failure:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )[0]
            listening = on_failure.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen()
        except OSError as error:
            raise SettingsError(
                f"{host}:{port} cannot be listened on: {error.strerror}; choose another with --host and --port"
            ) from error
        on_failure.pop_all()
        return listening


class WebServerWarnings(logging.Filter):
    """A filter that logs each web server warning at most once a minute, because any client can cause warnings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._until: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.name != "uvicorn.error" or record.levelno > logging.WARNING:
            return True
        kind, now = (record.pathname, record.lineno), self._clock()
        if now < self._until.get(kind, now):
            return False
        self._until[kind] = now + _WARNING_SECONDS
        return True


def configure_logging() -> None:
    """Configure logs as JSON on standard error, including those of the web server."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            exception_without_values,
            mask_event,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(WebServerWarnings())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _settings(given: dict[str, Any]) -> GatewaySettings:
    try:
        return GatewaySettings(**given)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise SettingsError("; ".join(problems)) from error
