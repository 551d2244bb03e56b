"""A real REST catalog for one run of the tests: the server of Apache Iceberg's own compatibility tests, over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic

import httpx

from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.ivy import pyspark_home
from tidegate.gateway.embedded.jars import JarCache, Jars, default_cache
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import Command, RunDirectory

LOCK_FILE = Path(__file__).with_name("jars.lock")
IVY_FILE = Path(__file__).with_name("ivy.xml")
_READY_SECONDS = 120
_STOP_SECONDS = 30


@contextmanager
def rest_catalog(folder: Path, java: Java, jars: Jars) -> Iterator[str]:
    """Run a catalog whose tables and metadata are in `folder`; returns its address. The first run fetches its jars."""
    # Beside those of the product, whose lock has another hash.
    cache = JarCache(default_cache().folder.parent, LOCK_FILE, IVY_FILE)
    cache.ensure()
    hadoop = (pyspark_home() / "jars").glob("hadoop-client-*.jar")
    sqlite = jars.spark_dir.glob("sqlite-jdbc-*.jar")
    class_path = [*cache.folder.glob("catalog/*.jar"), *hadoop, *sqlite]
    claimed = ports.claim()
    # Its settings are CATALOG_ and the name of a property.
    settings = {
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db",
        "CATALOG_WAREHOUSE": f"file://{folder}/rest",
        "CATALOG_REST_PORT": str(claimed.port),
    }
    arguments = (str(java.path), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    main = ("-cp", ":".join(map(str, class_path)), "org.apache.iceberg.rest.RESTCatalogServer")
    server = RunDirectory(folder / "run", folder / "logs").start(
        Command("rest-catalog", (*arguments, *main), settings)
    )
    try:
        address = f"http://{ports.HOST}:{claimed.port}"
        deadline = monotonic() + _READY_SECONDS
        while not _answers(address):
            assert server.exit_code() is None, server.tail()
            assert monotonic() < deadline, server.tail()
            Event().wait(0.2)
        yield address
    finally:
        server.stop(deadline_seconds=_STOP_SECONDS)
        claimed.release()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/v1/config").is_success
    except httpx.HTTPError:
        return False
