"""Takes the pictures of the desk for the documentation: `python -m tests.browser.pictures`.

Everything runs for real: broker, gateway, judge, browser; the traffic is seeded, so that pictures stay alike.
"""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from pydantic import SecretStr

from tests.browser.conftest import CHROMIUM, FLAGS, serve
from tests.browser.test_problems import opened
from tests.browser.traffic import ADMISSIONS, Refused, Traffic, admission, written
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1280, 960, 1.5


def refused(number: int, rng: random.Random) -> bytes:
    """One of the ways in which admissions go wrong."""
    whole = admission(number)
    without_id = {name: value for name, value in whole.items() if name != "admission_id"}
    changes: list[dict[str, Any]] = [
        {**whole, "discharge_date": "2026-09-30"},
        {**whole, "discharge_date": "2026-09-28"},
        {**whole, "age": 999},
        {**whole, "age": "42"},
        {**whole, "discharge_date": "1900-01-01", "length_of_stay": -46_298},
        without_id,
    ]
    return rng.choice([*map(written, changes), written(whole)[:210]])


def feed(traffic: Traffic) -> None:
    """Two contracts, a day of reports, and the records that were refused last."""
    rng = random.Random(11)  # noqa: S311 - a picture's data
    now = datetime.now(UTC)
    flights = {**ADMISSIONS, "id": "nyc.flights", "topic": "nyc.flights", "classification": {}}
    for contract in (ADMISSIONS, flights):
        traffic.publish(contract)
    telling = written(admission(4711, age=999, discharge_date="1900-01-01", length_of_stay=-46_298))
    records = [Refused(telling, source_offset=121_963, timestamp=now - timedelta(seconds=940))]
    records += [
        Refused(
            refused(number, rng), source_offset=122_000 + number * 37, timestamp=now - timedelta(seconds=at)
        )
        for number, at in enumerate(range(900, 3, -29))
    ]
    traffic.quarantine("hospital.admissions.quarantine", records, ADMISSIONS)
    for minutes in range(24 * 60, 2, -10):
        count = rng.randrange(60, 100)
        traffic.report(
            "nyc.flights",
            at=now - timedelta(minutes=minutes),
            records=rng.randrange(12_000, 14_000),
            quarantined=count,
            rules=[(Stage.RULE, "departed-flight-arrives", Severity.ERROR, count)],
        )
    traffic.day_of_admissions()
    for stream, count in (("hospital.admissions", 1_480), ("nyc.flights", 13_100)):
        traffic.report(stream, at=datetime.now(UTC), records=count, lag_records=212)


def take(browser: Browser, url: str) -> None:
    """Write the pictures."""
    stream = "/desk/streams/hospital.admissions"
    page = browser.new_page()
    opened(page, f"{url}{stream}/problems", "age-is-known")
    problem = page.get_by_role("link", name="stay-not-negative").first.get_attribute("href") or ""
    page.close()
    for theme in ("light", "dark"):
        for name, path in (
            ("streams", "/desk"),
            ("stream", f"{stream}?range=1h"),
            ("problem", problem),
            ("contract", "/desk/contracts/hospital.admissions"),
            ("record", "/desk/records/hospital.admissions.quarantine/0/0"),
        ):
            context = browser.new_context(
                viewport={"width": WIDTH, "height": HEIGHT if name != "streams" else 360},
                device_scale_factor=SCALE,
                color_scheme="dark" if theme == "dark" else "light",
            )
            page = context.new_page()
            page.goto(f"{url}{path}")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"desk-{name}-{theme}.png")
            context.close()


def main() -> None:
    """Run everything once."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        root = Path(scratch)
        run = RunDirectory(root / "run", root / "logs")
        with Broker(root / "broker", run, ensure_jars(), find_java(), BrokerOptions(port=19778)) as broker:
            database = SecretStr(f"sqlite:///{root / 'desk.db'}")
            factory = Factory(GatewaySettings(database_url=database, bootstrap_servers=broker.bootstrap))
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
            for url in serve(factory):
                feed(Traffic(url, broker.bootstrap))
                take(browser, url)
            browser.close()


if __name__ == "__main__":
    main()
