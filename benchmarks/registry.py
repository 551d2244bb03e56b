"""How fast the registry answers: schemas by id and latest versions beside a bare route, registration, long lists.

`python -m benchmarks.registry [--smoke] [--out FILE]`. The server is uvicorn with httptools and uvloop, on loopback, in
a process of its own; `wrk` asks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.figures import Figure, benchmark_parser, report_figures
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.registry.schema_content import SchemaContent
from tidegate.gateway.registry.schemas.parsing import parse_schema
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import SubjectVersion

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
BY_ID = "/schemas/ids/1?subject=s1"
LATEST = "/subjects/many-00000/versions/latest"
ROUNDS = 3


def main() -> None:
    """Measure and write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--serve", choices=("bare", "registry"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--database", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.port, arguments.database)
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        figures = measure(f"sqlite:///{folder}/registry.db", smoke=arguments.smoke)
    report_figures(figures, arguments.out)


def serve(what: str, port: int, database: str) -> None:
    """Serve the registry, or a bare route that returns the bytes of the file `database`."""
    if what == "registry":
        app = create_app(Factory(GatewaySettings(database_url=database)))
        uvicorn.run(app, port=port, http="httptools", loop="uvloop", log_level="error", access_log=False)
        return
    body = Path(database).read_bytes()

    async def answer(_: HttpRequest) -> Response:
        return Response(body, media_type=MEDIA_TYPE)

    bare = Starlette(
        routes=[Route("/schemas/ids/{id}", answer), Route("/subjects/{name}/versions/latest", answer)]
    )
    uvicorn.run(bare, port=port, http="httptools", loop="uvloop", log_level="error", access_log=False)


def measure(database: str, *, smoke: bool) -> list[Figure]:
    """Fill a registry, and return the figures of its answers."""
    versions, subjects, seconds = (20, 50, 1) if smoke else (1000, 10_000, 3)
    factory = Factory(GatewaySettings(database_url=database))
    factory.database.migrate()
    fill(factory, versions, subjects)
    factory.close()
    with served("registry", database) as url:
        first, under = registrations(url, versions)
        page = listing(url, subjects)
        body = get(url + BY_ID)
        assert json.loads(body)["schema"] == schema_text(1)
        by_id, bare, _ = requests_a_second(url, BY_ID, seconds)
        assert json.loads(get(url + LATEST))["version"] == 1
        latest, bare_latest, slowest = requests_a_second(url, LATEST, seconds)
    return [
        Figure.of("registry_latest_over_bare_route", latest, "requests/s", bare_latest),
        Figure.of("registry_latest_p99_ms", slowest, "ms", 30.0),
        Figure.of("registry_by_id_over_bare_route", by_id, "requests/s", bare),
        Figure.of("registry_latest_over_by_id", latest, "requests/s", by_id),
        Figure.of("registration_under_1000_over_first", under * 1e3, "ms", first * 1e3),
        Figure.of("subjects_page_of_10000_ms", page * 1e3, "ms", 200.0),
    ]


def fill(factory: Factory, versions: int, subjects: int) -> None:
    """Store versions of one subject, and one schema under many subjects, in one transaction."""
    at = datetime.now(UTC)

    def work(stores: Stores) -> None:
        for number in range(1, versions + 1):
            content = SchemaContent(parse_schema("AVRO", schema_text(number), {}))
            schema = content.keep(stores, ".", None, at)
            stores.subjects.add_version(SubjectVersion("s1", number, schema, None, at))
        for number in range(subjects):
            stores.subjects.add_version(SubjectVersion(f"many-{number:05d}", 1, schema, None, at))

    factory.database.write(work)


def registrations(url: str, versions: int) -> tuple[float, float]:
    """Return the median seconds of a first registration under a subject, and of one under a subject with many versions."""
    firsts, lasts = [], []
    for more in range(1, 16):
        firsts.append(timed_registration(url, f"first-{more}", versions + more, 1))
        lasts.append(timed_registration(url, "s1", 2 * versions + more, versions + more))
    return statistics.median(firsts), statistics.median(lasts)


def timed_registration(url: str, subject: str, fields: int, expected: int) -> float:
    """Register the schema of `schema_text(fields)`; return the seconds."""
    request = Request(  # noqa: S310 - our own server on loopback
        f"{url}/subjects/{subject}/versions",
        json.dumps({"schema": schema_text(fields)}).encode(),
        {"Content-Type": MEDIA_TYPE},
    )
    start = time.perf_counter()
    with urlopen(request) as answer:  # noqa: S310 - the same
        body = answer.read()
    seconds = time.perf_counter() - start
    assert json.loads(body)["version"] == expected, body
    return seconds


def schema_text(number: int) -> str:
    """Return an Avro record schema with this number as the default of a field."""
    field = f'{{"name":"f","type":"int","default":{number}}}'
    return f'{{"type":"record","name":"R","fields":[{field}]}}'


def listing(url: str, subjects: int) -> float:
    """List all subjects in ten pages; return the median seconds of a page."""
    taken = []
    for _ in range(ROUNDS):
        found: list[str] = []
        for page in range(10):
            start = time.perf_counter()
            body = get(
                f"{url}/subjects?subjectPrefix=many-&offset={page * subjects // 10}&limit={subjects // 10}"
            )
            taken.append(time.perf_counter() - start)
            found += json.loads(body)
        assert found == sorted(f"many-{number:05d}" for number in range(subjects))
    return statistics.median(taken)


def requests_a_second(url: str, path: str, seconds: int) -> tuple[float, float, float]:
    """Measure the registry and a bare route with the same bytes alternately.

    Return the median requests per second of both, and the median p99 of the registry in ms.
    """
    registry: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    body = get(url + path)
    with tempfile.NamedTemporaryFile() as content:
        content.write(body)
        content.flush()
        with served("bare", content.name) as other:
            assert get(other + path) == get(url + path) == body
            for _ in range(ROUNDS):
                registry.append(wrk(url + path, seconds))
                bare.append(wrk(other + path, seconds))
    (rate, slowest), (bare_rate, _) = (
        map(statistics.median, zip(*each, strict=True)) for each in (registry, bare)
    )
    return rate, bare_rate, slowest


def wrk(url: str, seconds: int) -> tuple[float, float]:
    """Return the requests per second, and the 99th percentile of the latency in milliseconds."""
    program = shutil.which("wrk")
    assert program, "this benchmark asks with wrk; install it (Debian: apt-get install wrk)"
    done = subprocess.run(
        [program, "-t1", "-c16", f"-d{seconds}s", "--latency", url],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Non-2xx" not in done.stdout, done.stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    slowest = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    assert rate, done.stdout
    assert slowest, done.stdout
    return float(rate[1]), float(slowest[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[slowest[2]]


@contextlib.contextmanager
def served(what: str, database: str) -> Iterator[str]:
    """Serve in another process; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "benchmarks.registry",
        "--serve",
        what,
        "--port",
        str(port),
        "--database",
        database,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def get(url: str) -> bytes:
    """Return the body of one answer."""
    with urlopen(url) as answer:  # noqa: S310 - our own server on loopback
        content: bytes = answer.read()
    return content


if __name__ == "__main__":
    main()
