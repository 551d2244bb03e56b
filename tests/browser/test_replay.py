"""The story of 999: unknown ages arrive, become one problem, and a fix on the desk brings them back, each of them once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect
from pyiceberg.catalog.sql import SqlCatalog

from tests.browser.conftest import Visit
from tests.browser.test_problems import opened
from tests.browser.traffic import ADMISSIONS, Traffic, admission, written
from tests.jvm import SHORT_LIVED_JAVA
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.embedded.jars import Jars

PATIENCE_MS = 120_000
"""A job starts Spark first."""
KNOWN, UNKNOWN, BROKEN = 40, 20, 3


@pytest.fixture
def stream(gateway: Traffic, broker: Broker, make_topic: Callable[..., str]) -> str:
    """A stream whose contract permits that an age is not known, and refuses 999."""
    name = make_topic("adm")
    schema = json.loads(json.dumps(ADMISSIONS["schema"]))
    schema["definition"]["properties"]["age"] = {"type": ["integer", "null"], "minimum": 0}
    contract: dict[str, Any] = {**ADMISSIONS, "id": name, "topic": name, "schema": schema}
    contract["columns"] = [
        {"name": "admission_id", "from": "/admission_id", "type": "string"},
        {"name": "age", "from": "/age", "type": "int"},
    ]
    gateway.publish(contract)
    ages: list[Any] = [*range(20, 20 + KNOWN), *[999] * UNKNOWN]
    records = [admission(number, age=age) for number, age in enumerate(ages)]
    # These have another fault too, which the fix does not correct.
    records += [
        admission(number, age=999, discharge_date="2026-09-30") for number in range(900, 900 + BROKEN)
    ]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for record in records:
        producer.produce(name, written(record))
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def job(
    gateway: Traffic, broker: Broker, stream: str, jars: Jars, tmp_path: Path
) -> Iterator[Callable[..., list[str]]]:
    """Run the job of the stream; yields a function that returns the command line of a verb with its settings."""
    settings = {
        **os.environ,
        **SHORT_LIVED_JAVA,
        "TIDEGATE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "TIDEGATE_REGISTRY_URL": gateway.url,
        "TIDEGATE_WAREHOUSE": str(tmp_path / "warehouse"),
        "TIDEGATE_CHECKPOINTS": str(tmp_path / "checkpoints"),
        "TIDEGATE_SPARK_JARS": str(jars.spark_dir),
        "TIDEGATE_SPARK_DRIVER_MEMORY": "1g",
        "TIDEGATE_HEARTBEAT_SECONDS": "1",
        "TIDEGATE_TRIGGER_SECONDS": "0.5",
    }
    command = [sys.executable, "-m", "tidegate.gateway.cli.main"]
    log = tmp_path / "job.log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [*command, "enforce", stream], env=settings, stdout=out, stderr=subprocess.STDOUT
        )

        def run(*arguments: str) -> list[str]:
            done = subprocess.run(
                [*command, *arguments], env=settings, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.splitlines()

        yield run
        running.terminate()
        assert running.wait(60) == 0, log.read_text()[-4000:]


def ages(stream: str, warehouse: Path) -> list[int | None]:
    with SqlCatalog("lake", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=str(warehouse)) as catalog:
        found: list[int | None] = (
            catalog.load_table(("tidegate", stream)).scan().to_arrow().column("age").to_pylist()
        )
    return found


@pytest.mark.full
def test_unknown_ages_are_fixed_and_replayed_on_the_desk(
    gateway: Traffic, stream: str, job: Callable[..., list[str]], visit: Visit, tmp_path: Path
) -> None:
    page = visit.page
    page.set_default_timeout(PATIENCE_MS)
    problems = f"{gateway.url}/desk/streams/{stream}/problems"
    opened(page, problems, "age-is-known", PATIENCE_MS)
    opened(page, problems, f"in {UNKNOWN + BROKEN} refused records", PATIENCE_MS)
    page.locator("#problems tbody tr", has_text="age-is-known").get_by_role("link").first.click()
    problem = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Replay", exact=True).click()
    picture(page, tmp_path, "fix")

    fix = page.get_by_role("textbox")
    fix.fill("fix: x\nsteps:\n  - action: burn\n    field: /age\n")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("The fix cannot be used")
    assert len(visit.complaints) == 1
    assert "422" in visit.complaints[0]
    visit.complaints.clear()
    text = (
        "fix: age-sentinel\nsteps:\n  - action: map\n    field: /age\n    values: [{from: 999, to: null}]\n"
    )
    fix.fill(text)
    page.get_by_role("button", name="Preview").click()
    expect(fix).to_have_value(text.strip())
    page.set_viewport_size({"width": 390, "height": 900})
    expect(fix).to_be_visible()
    preview = page.locator("#preview")
    expect(preview).to_contain_text(
        f"{UNKNOWN} of {UNKNOWN + BROKEN} records would pass; the fix changes 23."
    )
    expect(preview).to_contain_text("3 would stay refused.")
    expect(preview.locator("tbody tr")).to_contain_text(["stay-not-negative"])
    expect(preview).to_contain_text("Whether the table has a row with the same primary key")
    picture(page, tmp_path, "preview")
    page.get_by_role("button", name=f"Replay {UNKNOWN + BROKEN} records").click()

    page.wait_for_url("**/problems/*")
    opened(page, page.url.partition("#")[0], "20 written, 3 refused again of 23", PATIENCE_MS)
    opened(page, page.url, "20 replayed", PATIENCE_MS)
    expect(page.locator(".head .tag").first).to_have_text("open")
    picture(page, tmp_path, "replayed")
    page.get_by_text("Discard", exact=True).first.click()
    page.get_by_label("Reason").fill("nobody knows when they left")
    page.get_by_role("button", name=f"Discard {BROKEN} records").click()
    opened(page, page.url.partition("#")[0], "3 discarded of 3", PATIENCE_MS)
    # The registry looks at problems every few seconds.
    opened(page, page.url, "age-is-known at /age: 999\nresolved", PATIENCE_MS)
    expect(page.locator(".head .tag")).to_have_text(["resolved"])
    expect(page.locator("#replays")).to_contain_text("nobody knows when they left")
    picture(page, tmp_path, "resolved")

    found = ages(stream, tmp_path / "warehouse")
    known = [age for age in found if age is not None]
    assert (len(found), len(known), sum(known) / len(known)) == (KNOWN + UNKNOWN, KNOWN, 39.5)
    assert any("every offset has one fate" in line for line in job("reconcile", stream))
    shown = job("replay", stream, "--problem", problem, "--dry-run")
    assert shown[0] == "0 of 23 records would be written"
    assert {line.split(" would be left")[0] for line in shown[1:]} == {"20", "3"}


def picture(page: Page, folder: Path, name: str) -> None:
    """Take pictures of a page in light and dark, wide and narrow, into the folder of TIDEGATE_PICTURES if it is set."""
    folder = Path(os.environ.get("TIDEGATE_PICTURES", folder))
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=str(folder / f"replay-{name}-{width}-{scheme}.png"), full_page=True)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, f"{name} at {width}: {overflow} px too wide"
    page.set_viewport_size({"width": 1280, "height": 900})
