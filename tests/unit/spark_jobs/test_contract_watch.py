"""Which streams a job has while contracts come and go: the real registry, over a line that can be cut.

The streams are stand-ins that a test ends. tests/integration/enforce/test_watch.py has real ones.
"""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.unit.conftest import Client
from tests.unit.spark_jobs.registry_line import CuttableLine
from tidegate.contracts.document.model import Status
from tidegate.contracts.errors import Fenced, SettingsError, StreamStopped, Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings
from tidegate.spark_jobs.contract_source import RegistryGone
from tidegate.spark_jobs.job.contract_watch import ContractWatch
from tidegate.spark_jobs.settings import ContractSelection, JobSettings

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MakeContract = Callable[..., bytes]
HOURS = 3600.0


class StandIn:
    """A stream that runs until it is asked to end or a test ends it."""

    def __init__(self, contract_id: str) -> None:
        self.contract_id = contract_id
        self.failure: BaseException | None = None
        self.is_under_way = True
        self.ends_job = False
        self.is_stopped = False
        self._is_alive = False

    def start(self) -> None:
        self._is_alive = True

    def stop(self) -> None:
        self.is_stopped = True

    def is_alive(self) -> bool:
        return self._is_alive

    def end(self, failure: BaseException | None = None) -> None:
        self._is_alive, self.failure = False, failure


class Line(CuttableLine):
    """A line on which a test may answer some paths itself."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.answers: dict[str, httpx.Response] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.get(request.url.path)
        if answer is None or self.is_cut:
            return super().handle_request(request)
        return httpx.Response(answer.status_code, content=answer.content)


class Watched:
    """A watch over a registry, with a clock that a test turns."""

    def __init__(
        self,
        line: Line,
        selection: ContractSelection,
        auth: tuple[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.line = line
        self.clock = 0.0
        self.started: list[StandIn] = []
        needed = {
            "bootstrap_servers": "b:1",
            "registry_url": "http://registry",
            "warehouse": Path("w"),
            "checkpoints": Path("c"),
        }
        client = httpx.Client(transport=line, base_url="http://registry", auth=auth)
        self.watch = ContractWatch(
            client,
            selection,
            self._make,
            JobSettings.model_validate({**needed, **settings}),
            lambda: self.clock,
        )

    def _make(self, contract_id: str) -> StandIn:
        self.started.append(StandIn(contract_id))
        return self.started[-1]

    def after(self, seconds: float) -> Watched:
        self.clock += seconds
        self.watch.step()
        return self

    @property
    def names(self) -> list[str]:
        """Ids of the streams that run and were not asked to end."""
        return sorted(each.contract_id for each in self.watch.streams if not each.is_stopped)

    def stream(self, name: str) -> StandIn:
        return next(each for each in reversed(self.started) if each.contract_id == name)


Watch = Callable[..., Watched]
PublishIt = Callable[..., None]


@pytest.fixture
def watch(client: Any) -> Watch:
    """Return a function that makes a watch: `watch(Selection(), **settings)`."""

    def make(selection: ContractSelection | None = None, **settings: object) -> Watched:
        return Watched(Line(client), selection or ContractSelection(), **settings)

    return make


@pytest.fixture
def publish(factory: Factory, make_contract: MakeContract) -> PublishIt:
    """Return a function that publishes contracts of some ids, each of the topic of its name."""

    def run(*names: str, **changes: object) -> None:
        for name in names:
            factory.registry().publish(make_contract(id=name, topic=name, **changes), "contract.json")

    return run


def test_a_contract_that_is_published_later_starts_a_stream_of_its_own(
    watch: Watch, publish: PublishIt
) -> None:
    publish("a")
    job = watch().after(0)
    assert job.names == ["a"]
    publish("b")
    assert job.after(9).names == ["a"]  # the list is asked for every ten seconds
    assert job.after(1).names == ["a", "b"]
    assert len(job.after(10).started) == 2


def test_a_draft_starts_when_it_is_promoted(watch: Watch, publish: PublishIt, factory: Factory) -> None:
    publish("a", status="draft")
    job = watch().after(0)
    assert job.names == []
    factory.lifecycle().change_status("a", "1.2.0", Status.ACTIVE)
    assert job.after(10).names == ["a"]


def test_a_subject_of_the_confluent_api_is_enforced_too(watch: Watch, client: Any) -> None:
    job = watch().after(0)
    body = {"schemaType": "JSON", "schema": json.dumps({"type": "object"})}
    client.post("/subjects/orders-value/versions", json.dumps(body)).raise_for_status()
    assert job.after(10).names == ["orders"]


def test_a_contract_that_is_retired_ends_its_stream_and_no_other(
    watch: Watch, publish: PublishIt, factory: Factory
) -> None:
    publish("a", "b")
    job = watch().after(0)
    factory.lifecycle().change_status("a", "1.2.0", Status.DEPRECATED)
    assert job.after(10).names == ["a", "b"]
    factory.lifecycle().change_status("a", "1.2.0", Status.RETIRED)
    assert job.after(10).names == ["b"]
    assert job.stream("a").is_alive()  # asked to end: its batch is finished
    job.stream("a").end()
    assert job.after(600).names == ["b"]
    assert len(job.started) == 2


def test_a_contract_that_is_deleted_and_brought_back(
    watch: Watch, publish: PublishIt, factory: Factory
) -> None:
    publish("a")
    job = watch().after(0)
    factory.lifecycle().delete("a", "1.2.0")
    assert job.after(10).names == []  # the list is empty, and a good answer
    factory.lifecycle().undelete("a", "1.2.0")
    assert len(job.after(10).started) == 1  # not beside one that is about to end
    job.stream("a").end()
    assert job.after(0).names == ["a"]
    assert len(job.started) == 2


def test_prefixes_and_domains_choose(watch: Watch, publish: PublishIt) -> None:
    publish("hospital.a", "hospital.b", "lab.a", "lake")
    publish("ward.a", domain="ward")
    assert watch(ContractSelection(("hospital.", "lab."))).after(0).names == [
        "hospital.a",
        "hospital.b",
        "lab.a",
    ]
    assert watch(ContractSelection(domains=("ward",))).after(0).names == ["ward.a"]
    assert watch(ContractSelection(("hospital.",), ("ward",))).after(0).names == []


def test_all_is_what_the_key_may_read(
    settings: GatewaySettings, factory: Factory, publish: PublishIt
) -> None:
    publish("hospital.a", "lab.a")
    key = factory.keys().create("job", read_grants(["reporter:hospital."]), "cli:test")
    guarded = Factory(settings.model_copy(update={"access": "on", "key_cache_seconds": 0.0}))
    with closing(guarded):
        line = Line(Client(create_app(guarded)))
        job = Watched(line, ContractSelection(), (key.key_id, key.secret)).after(0)
        assert job.names == ["hospital.a"]
        publish("hospital.b", "lab.b")
        assert job.after(10).names == ["hospital.a", "hospital.b"]
        factory.keys().revoke(key.key_id, "cli:test")
        assert job.after(10).names == ["hospital.a", "hospital.b"]
    assert line.statuses[-1] == 401


def test_a_contract_that_leaves_its_domain_ends_its_stream(watch: Watch, publish: PublishIt) -> None:
    publish("a", domain="ward")
    job = watch(ContractSelection(domains=("ward",))).after(0)
    assert job.names == ["a"]
    publish("a", domain="lab", version="1.3.0")
    assert job.after(10).names == []


@pytest.mark.parametrize("status", [None, 500, 503, 429, 401, 403, 404])
def test_a_registry_that_does_not_answer_ends_and_starts_nothing(
    watch: Watch, publish: PublishIt, factory: Factory, status: int | None
) -> None:
    publish("a", "b")
    job = watch().after(0)
    job.line.is_cut, job.line.answers_with = status is None, status
    with capture_logs() as logs:
        for _ in range(12):
            assert job.after(HOURS).names == ["a", "b"]
    assert [each["event"] for each in logs] == ["contracts_not_listed"] * 12
    factory.lifecycle().delete("a", "1.2.0")
    publish("c")
    job.line.is_cut, job.line.answers_with = False, None
    assert job.after(10).names == ["b", "c"]


def test_an_outage_is_logged_every_five_minutes(watch: Watch, publish: PublishIt) -> None:
    publish("a")
    job = watch().after(0)
    job.line.is_cut = True
    with capture_logs() as logs:
        for _ in range(60):
            job.after(10)
        job.line.is_cut = False
        job.after(10)
    assert [each["event"] for each in logs] == ["contracts_not_listed"] * 2 + ["contracts_listed_again"]


@pytest.mark.parametrize("content", [b"", b"<html>", b"{}", b"[]", b'{"contracts": [{}], "total": 1}'])
def test_an_answer_that_is_no_list_is_not_believed(watch: Watch, publish: PublishIt, content: bytes) -> None:
    publish("a")
    job = watch().after(0)
    job.line.answers["/api/v1/contracts"] = httpx.Response(200, content=content)
    assert job.after(10).names == ["a"]


def test_a_stream_continues_if_only_the_list_lacks_its_contract(watch: Watch, publish: PublishIt) -> None:
    """The list is read in parts: a contract is passed over when one before it is deleted meanwhile."""
    publish("a")
    job = watch().after(0)
    job.line.answers["/api/v1/contracts"] = httpx.Response(200, json={"contracts": [], "total": 0})
    assert job.after(10).names == ["a"]
    # A proxy that says 404 is not the registry, and a key that may not read it any more is no deletion.
    latest = "/api/v1/contracts/a/versions/latest"
    for status in (404, 403):
        job.line.answers[latest] = httpx.Response(status)
        with capture_logs() as logs:
            assert job.after(10).names == ["a"]
    assert [(each["event"], each["stream"]) for each in logs] == [("contract_forbidden", "a")]


def test_the_list_is_read_to_its_end(
    watch: Watch, publish: PublishIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_PAGE_CONTRACTS", 2)
    publish(*"abcde")
    assert watch().after(0).names == list("abcde")


@pytest.mark.parametrize(
    "failure",
    [
        Unavailable("topic a of contract a does not exist; create it"),
        SettingsError("the registry answers 403 to this job: a"),
        StreamStopped("error budget spent"),
        ZeroDivisionError(),
    ],
)
def test_a_stream_that_fails_is_tried_again_ever_more_seldom_and_disturbs_no_other(
    watch: Watch, publish: PublishIt, failure: BaseException
) -> None:
    publish("a", "b")
    job = watch().after(0)
    waits = []
    for number in range(8):
        job.stream("a").end(failure)
        waits.append(0)
        job.after(0)
        while len(job.started) == 2 + number:
            assert job.names == ["b"]
            job.after(10)
            waits[-1] += 10
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert not job.stream("b").is_stopped
    job.after(HOURS)
    job.stream("a").end(failure)
    assert job.after(0).names == ["b"]
    assert job.after(10).names == ["a", "b"]  # it ran for an hour: the count begins again


def test_a_failure_that_is_kept_holds_nothing_of_its_stream(watch: Watch, publish: PublishIt) -> None:
    """The frames of its traceback hold the Kafka clients of the attempt: a thousand contracts may have failed."""

    def attempt() -> None:
        held = StandIn("what an attempt holds")
        references.append(weakref.ref(held))
        raise Unavailable(f"{held.contract_id}: the broker is away")

    def fail() -> None:
        try:
            attempt()
        except Unavailable as error:
            raise StreamStopped("the stream stops") from error

    references: list[weakref.ref[StandIn]] = []

    publish("a")
    job = watch().after(0)
    with pytest.raises(StreamStopped) as raised:
        fail()
    job.stream("a").end(raised.value)
    del raised
    gc.collect()
    (held,) = references
    assert held() is not None
    job.after(0)
    gc.collect()
    assert held() is None


def test_a_new_version_of_a_contract_that_failed_is_tried_at_once(watch: Watch, publish: PublishIt) -> None:
    publish("a")
    job = watch().after(0)
    for _ in range(6):
        job.stream("a").end(StreamStopped("error budget spent"))
        job.after(0).after(300)
    job.stream("a").end(StreamStopped("error budget spent"))
    assert job.after(10).names == []
    publish("a", version="1.3.0", description="mended")
    assert job.after(10).names == ["a"]


def test_a_stream_that_another_job_has_taken_over_is_left_to_it_while_that_one_lives(
    watch: Watch, publish: PublishIt, factory: Factory
) -> None:
    """To start it would fence the other one, which would start it too."""
    publish("a", "b")
    job = watch().after(0)
    for name in ("a", "b"):
        job.stream(name).end(Fenced("another instance has taken over"))
    publish("a", version="1.3.0", description="new")
    assert job.after(0).after(290).names == []  # the other one may still be starting
    factory.stream_controls().beat("a")
    assert job.after(10).names == ["b"]  # its ledger was claimed by a job or a command that is gone
    job.line.is_cut = True
    assert job.after(300).names == ["b"]
    job.line.is_cut = False
    assert job.after(10).names == ["b"]


def test_a_stream_that_ended_by_itself_though_its_contract_is_listed_is_not_started_in_a_loop(
    watch: Watch, publish: PublishIt
) -> None:
    publish("a")
    job = watch().after(0)
    job.stream("a").end()
    assert job.after(0).names == []
    assert job.after(10).names == ["a"]


def test_a_failure_that_no_stream_survives_ends_the_job(watch: Watch, publish: PublishIt) -> None:
    publish("a")
    job = watch().after(0)
    job.stream("a").ends_job = True
    job.stream("a").end(Unavailable("Spark's Java process has ended"))
    with pytest.raises(Unavailable, match="Java process has ended"):
        job.after(0)


def test_a_job_has_no_more_streams_than_it_may_and_says_which_it_leaves_out(
    watch: Watch, publish: PublishIt, factory: Factory
) -> None:
    publish(*"abcd")
    job = watch(max_streams=2)
    with capture_logs() as logs:
        assert job.after(0).names == ["a", "b"]
        assert job.after(10).names == ["a", "b"]
    left_out = [each for each in logs if each["event"] == "streams_left_out"]
    assert [(each["count"], each["contracts"], each["most"]) for each in left_out] == [(2, ["c", "d"], 2)]
    assert left_out[0]["advice"] == "raise TIDEGATE_MAX_STREAMS, or start another job with --prefix"
    assert job.watch.is_settled
    factory.lifecycle().delete("a", "1.2.0")
    assert job.after(10).names == ["b"]
    job.stream("a").end()
    assert job.after(0).names == ["b", "c"]


def test_many_streams_do_not_start_at_once(watch: Watch, publish: PublishIt) -> None:
    publish(*(f"s{number:02}" for number in range(25)))
    job = watch()
    assert [len(job.after(0).started) for _ in range(4)] == [10, 20, 25, 25]


def test_a_job_is_settled_when_its_streams_are_as_far_as_they_can_be(
    watch: Watch, publish: PublishIt
) -> None:
    publish("a", "b")
    job = watch()
    assert not job.watch.is_settled
    job.after(0)
    job.stream("a").is_under_way = job.stream("b").is_under_way = False
    assert not job.watch.is_settled
    job.stream("a").is_under_way = True
    job.stream("b").end(Unavailable("no topic"))
    assert job.watch.is_settled


def test_a_registry_without_contracts_is_settled(watch: Watch) -> None:
    assert watch().after(0).watch.is_settled


@pytest.mark.parametrize(("given", "seconds"), [({}, 300), ({"registry_grace_seconds": 20}, 20)])
def test_a_job_that_never_had_a_list_waits_for_a_while(
    watch: Watch, given: dict[str, object], seconds: float
) -> None:
    job = watch(**given)
    job.line.is_cut = True
    job.after(0)
    job.after(seconds)
    assert not job.watch.is_settled
    with pytest.raises(RegistryGone, match="has not listed its contracts for"):
        job.after(10)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_taken_at_the_start_is_a_wrong_setting(watch: Watch, status: int) -> None:
    job = watch()
    job.line.answers_with = status
    with pytest.raises(SettingsError, match=f"answers {status} to this job: set TIDEGATE_REGISTRY_TOKEN"):
        job.after(0)


def test_with_available_now_each_stream_of_the_first_list_runs_once(watch: Watch, publish: PublishIt) -> None:
    publish(*"abc")
    job = watch(max_streams=2, available_now=True).after(0)
    assert job.names == ["a", "b"]
    job.stream("a").end()
    job.stream("b").end(StreamStopped("error budget spent"))
    publish("d")
    assert job.after(60).names == ["c"]
    assert not job.watch.is_done
    job.stream("c").end()
    assert job.after(60).watch.is_done
    assert [str(each) for each in job.watch.failures] == ["error budget spent"]
    assert len(job.started) == 3


def test_stop_asks_every_stream_to_end(watch: Watch, publish: PublishIt) -> None:
    publish("a", "b")
    job = watch().after(0)
    job.watch.stop()
    assert all(each.is_stopped for each in job.started)
