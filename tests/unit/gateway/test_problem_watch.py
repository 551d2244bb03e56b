"""What problems do by themselves: found, back after a resolution, swollen, no longer muted; each told once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from tests.unit.gateway.quarantine_records import AGE, BROKEN, NOW, Process, refused
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.positions import Positions
from tidegate.gateway.access.principal import Forbidden, Principal, read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.streams import problem_watch
from tidegate.gateway.streams.problem_states import Mute, ProblemState
from tidegate.gateway.streams.problem_watch import NewsKind, ProblemNews, ProblemWatch, resolve_emptied
from tidegate.gateway.streams.problems import ProblemQuery, ProblemService
from tidegate.gateway.streams.quarantine_index.closures import add_closures
from tidegate.gateway.streams.quarantine_index.merge import trim
from tidegate.gateway.streams.quarantine_index.partitions import IndexedPartitions


class World:
    """A stream whose time passes as the test says."""

    def __init__(self, factory: Factory) -> None:
        self.now = NOW
        self.told: list[ProblemNews] = []
        self.service = ProblemService(factory.database, lambda: self.now)
        self.watch = ProblemWatch(factory.database, lambda: self.now, self.told.append)
        self.other = ProblemWatch(factory.database, lambda: self.now, self.told.append)
        self._factory = factory
        self._process = Process(factory, "one")
        self._offset = 0

    def refuse(self, count: int, at: datetime | None = None, **more: str) -> None:
        records = [refused(self._offset + n, at=at or self.now, **more) for n in range(count)]
        self._offset += count
        self._process.now = self.now
        self._process.ingest(records)

    def expire(self, low: int) -> None:
        """Remove the records below an offset, as retention does."""
        with self._factory.database.writing() as stores:
            trim(stores, "adm", 0, low)

    def look(self) -> list[NewsKind]:
        before = len(self.told)
        self.watch.check("adm")
        self.other.check("adm")  # another process has nothing to add
        return [each.kind for each in self.told[before:]]

    @property
    def problem(self) -> str:
        return self.service.list("adm", ProblemQuery()).problems[0].id

    @property
    def state(self) -> ProblemState:
        return self.service.list("adm", ProblemQuery()).problems[0].decision.state


@pytest.fixture
def world(factory: Factory) -> World:
    factory.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))
    return World(factory)


def test_a_new_problem_is_reported_once(world: World, factory: Factory) -> None:
    world.refuse(3)
    assert world.look() == [NewsKind.NEW]
    assert world.look() == []
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    Process(factory, "two").ingest([refused(0), refused(1, (BROKEN,), value=b"{")])
    assert [(each.kind, [one.key.code for one in each.problems]) for each in world.told[1:]] == []
    assert world.look() == [NewsKind.NEW]  # of the other problem alone
    assert [one.key.code for one in world.told[-1].problems] == ["json.invalid"]


@pytest.mark.parametrize("error", [Unavailable("the database is locked"), ValueError("a stored decision")])
def test_a_check_that_fails_is_made_again_and_keeps_no_other_waiting(
    world: World, factory: Factory, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    for stream in ("abo", "zoo"):
        factory.database.write(
            lambda stores, stream=stream: stores.contracts.add_contract(stream, stream, NOW)
        )
        Process(factory, "two", stream=stream).ingest([refused(0, contract=stream, topic=stream)])
    world.refuse(1)
    check, failing = world.watch.check, {"abo", "adm"}

    def check_or_fail(stream: str) -> None:
        if stream in failing:
            failing.remove(stream)
            raise error
        check(stream)

    monkeypatch.setattr(world.watch, "check", check_or_fail)
    with capture_logs() as logs:
        world.watch.notify({"abo", "adm", "zoo"})
    assert [(each["event"], each["stream"]) for each in logs] == [
        ("problem_check_failed", "abo"),
        ("problem_check_failed", "adm"),
    ]
    assert all(type(error).__name__ in each["error"] for each in logs)
    assert [each.stream for each in world.told] == ["zoo"]
    world.watch.notify(())
    assert [each.stream for each in world.told] == ["zoo"]  # the next round has not begun
    world.now += timedelta(seconds=15)
    world.watch.notify(())
    assert [each.stream for each in world.told] == ["zoo", "abo", "adm"]
    monkeypatch.setattr(world.watch, "check", lambda stream: pytest.fail(f"{stream} has nothing new"))
    world.now += timedelta(seconds=15)
    world.watch.notify(())


def test_checks_of_many_streams_leave_time_for_the_index(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index reads nothing while streams are checked, so a call checks some and the next calls the others."""
    elapsed, checked = 0.0, list[str]()
    monkeypatch.setattr(problem_watch, "time", SimpleNamespace(monotonic=lambda: elapsed))

    def check(stream: str) -> None:
        nonlocal elapsed
        elapsed += 0.9
        checked.append(stream)

    monkeypatch.setattr(world.watch, "check", check)
    streams = [f"s{number}" for number in range(7)]
    world.watch.notify(streams)
    assert checked == streams[:3]
    world.now += timedelta(seconds=10)  # less than four times the time of the checks
    world.watch.notify(())
    assert checked == streams[:3]
    for _ in range(2):
        world.now += timedelta(seconds=15)
        world.watch.notify(("s0",))  # it has records again, and waits for the others
    assert checked == [*streams, "s0"]
    world.now += timedelta(seconds=15)
    world.watch.notify(())
    assert checked == [*streams, "s0"]


def test_a_first_index_of_an_old_topic_tells_of_nothing(world: World) -> None:
    world.refuse(3, at=NOW - timedelta(days=3))
    assert world.look() == []


def test_a_resolved_problem_comes_back(world: World) -> None:
    world.refuse(3)
    world.look()
    world.service.change_state("adm", world.problem, ProblemState.RESOLVED, resolved_in="1.1.0")
    world.now += timedelta(hours=2)
    world.refuse(2)  # by 1.0.0: jobs that still enforce the old version
    assert (world.look(), world.state) == ([], ProblemState.RESOLVED)
    world.refuse(1, version="1.1.0")
    assert (world.look(), world.state) == ([NewsKind.REGRESSED], ProblemState.REGRESSED)
    assert world.look() == []


def test_a_version_that_is_not_published_takes_the_role_that_mutes(world: World, factory: Factory) -> None:
    """Until it is published, the problem cannot come back and sends no alert."""
    document = {**CONTRACT, "id": "adm", "topic": "adm", "version": "1.2.0"}
    factory.registry().publish(json.dumps(document).encode(), "adm.json")
    world.refuse(3)
    producer, approver = (
        ProblemService(factory.database, lambda: NOW, Principal(f"key:{role}", read_grants([role])))
        for role in ("producer", "approver")
    )
    resolved = ProblemState.RESOLVED
    with pytest.raises(Forbidden, match="approver"):
        producer.change_state("adm", world.problem, resolved, resolved_in="12.0.0")
    assert world.state is ProblemState.OPEN
    producer.change_state("adm", world.problem, resolved, resolved_in="1.2.0")
    approver.change_state("adm", world.problem, resolved, resolved_in="1.3.0")
    producer.change_state("adm", world.problem, resolved)
    assert world.state is resolved


@pytest.mark.parametrize("resolved_in", [None, "1.0.0"])
def test_records_from_before_the_resolution_do_not_bring_it_back(
    world: World, resolved_in: str | None
) -> None:
    world.refuse(3)
    world.look()
    world.now += timedelta(minutes=5)
    world.service.change_state("adm", world.problem, ProblemState.RESOLVED, resolved_in=resolved_in)
    world.now += timedelta(minutes=5)
    assert (world.look(), world.state) == ([], ProblemState.RESOLVED)
    world.refuse(1)
    assert (world.look(), world.state) == ([NewsKind.REGRESSED], ProblemState.REGRESSED)


def test_a_problem_without_an_open_record_is_resolved_and_regresses_with_the_next(
    world: World, factory: Factory
) -> None:
    def close(closure: Closure, *offsets: int) -> None:
        found = {closure: Positions((0, offset) for offset in offsets)}
        factory.database.write(lambda stores: add_closures(stores, "adm", found))

    world.refuse(3)
    world.look()
    close(Closure.REPLAYED, 0, 1)
    assert (world.look(), world.state) == ([], ProblemState.OPEN)
    close(Closure.DISCARDED, 1, 2, 99_999)  # one of them twice, and one that is not indexed yet
    assert (world.look(), world.state) == ([], ProblemState.RESOLVED)
    found = world.service.get("adm", world.problem, ProblemQuery())
    assert (found.kept, found.left) == (3, 0)
    assert found.closures == {Closure.REPLAYED: 2, Closure.DISCARDED: 1}
    assert [(each.by, each.after) for each in found.decision.changes] == [("tidegate", ProblemState.RESOLVED)]
    world.refuse(1)  # in the same minute
    assert (world.look(), world.state) == ([NewsKind.REGRESSED], ProblemState.REGRESSED)
    assert world.service.get("adm", world.problem, ProblemQuery()).left == 1


def test_closed_records_are_forgotten_with_their_topic_and_outlive_a_rebuild(
    world: World, factory: Factory
) -> None:
    world.refuse(3)
    closed = {Closure.REPLAYED: Positions([(0, 0), (0, 1), (0, 2)])}
    factory.database.write(lambda stores: add_closures(stores, "adm", closed))
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    process = Process(factory, "two")
    process.ingest([refused(0), refused(1)])
    assert world.service.get("adm", world.problem, ProblemQuery()).left == 0
    partitions = IndexedPartitions(factory.database, lambda: NOW + timedelta(hours=1), "three")
    assert partitions.claim("adm", 0, 0, 1) is not None  # it ends before what was indexed
    assert factory.database.read(lambda stores: stores.closures.all("adm")) == ()


def test_a_problem_whose_records_have_expired_is_resolved_and_regresses_with_the_next(
    world: World, factory: Factory
) -> None:
    world.refuse(3)
    world.look()
    problem = world.problem
    world.service.comment("adm", problem, "the form sends 999")
    world.expire(2)
    assert (world.look(), world.state) == ([], ProblemState.OPEN)
    world.expire(3)
    world.now += timedelta(hours=1)
    world.watch.notify(())  # no record arrives: it looks by itself
    assert stored(factory) == {problem: "resolved"}
    world.now += timedelta(days=89)
    world.refuse(1)
    assert (world.look(), world.state) == ([NewsKind.REGRESSED], ProblemState.REGRESSED)
    found = world.service.get("adm", world.problem, ProblemQuery())
    assert (found.id, found.comments) == (problem, 1)
    assert entries(factory)[1:] == [("tidegate", "problem.state-changed", f"adm-value#{problem}")] * 2


def test_a_problem_without_records_for_90_days_is_removed(world: World, factory: Factory) -> None:
    world.refuse(3)
    world.look()
    problem = world.problem
    world.service.comment("adm", problem, "the form sends 999")
    world.service.change_state("adm", problem, ProblemState.RESOLVED, resolved_in="2.0.0")
    world.now += timedelta(days=200)
    assert (world.look(), stored(factory)) == ([], {problem: "resolved"})  # its records are still there
    world.expire(3)
    world.look()
    world.now += timedelta(days=50)
    world.refuse(1)
    assert (world.look(), world.state) == ([], ProblemState.RESOLVED)  # by 1.0.0
    world.expire(4)
    world.look()
    world.now += timedelta(days=89)
    assert (world.look(), stored(factory)) == ([], {problem: "resolved"})
    world.now += timedelta(days=1)
    world.watch.notify(())
    assert stored(factory) == {}
    entry = factory.audit().page(0, 100).entries[-1]
    assert (entry.who, entry.action, entry.subject) == ("tidegate", "problem.removed", f"adm-value#{problem}")
    assert entry.before is not None
    assert entry.after is None
    world.refuse(1)
    assert (world.look(), world.service.comments("adm", problem)) == ([NewsKind.NEW], ())


@pytest.mark.parametrize(
    ("mute", "state"),
    [(Mute(), "muted"), (Mute(count=9), "muted"), (Mute(until=NOW + timedelta(days=2)), "resolved")],
)
def test_a_muted_problem_whose_records_have_expired_is_resolved_when_its_mute_ends(
    world: World, factory: Factory, mute: Mute, state: str
) -> None:
    world.refuse(3)
    world.look()
    problem = world.problem
    world.service.change_state("adm", problem, ProblemState.MUTED, mute=mute)
    world.expire(3)
    world.now += timedelta(days=1)
    assert (world.look(), stored(factory)) == ([], {problem: "muted"})
    world.now += timedelta(days=1)
    assert (world.look(), stored(factory)) == ([], {problem: state})


def test_an_index_that_is_being_built_resolves_nothing(world: World, factory: Factory) -> None:
    world.refuse(3)
    world.look()
    problem = world.problem
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    assert (world.look(), stored(factory)) == ([], {problem: "open"})
    process = Process(factory, "two")
    claimed = process.partitions.claim("adm", 0, 0, 3)
    assert claimed is not None
    assert (world.look(), stored(factory)) == ([], {problem: "open"})
    process.partitions.release()
    process.ingest([refused(0), refused(1), refused(2)])
    assert (world.look(), world.state) == ([], ProblemState.OPEN)


@pytest.mark.parametrize(
    ("mute", "records", "hours", "state"),
    [
        (Mute(until=NOW + timedelta(hours=2)), 5, 1, ProblemState.MUTED),
        (Mute(until=NOW + timedelta(hours=2)), 0, 2, ProblemState.OPEN),
        (Mute(count=5), 4, 1, ProblemState.MUTED),
        (Mute(count=5), 5, 1, ProblemState.OPEN),
        (Mute(ratio=0.5), 500, 1, ProblemState.MUTED),  # no batch was reported: the share is not known
        (Mute(), 500, 99, ProblemState.MUTED),
    ],
)
def test_a_muted_problem_is_quiet_until_what_was_asked_for(
    world: World, mute: Mute, records: int, hours: int, state: ProblemState
) -> None:
    world.refuse(3)
    world.look()
    world.service.change_state("adm", world.problem, ProblemState.MUTED, mute=mute)
    world.now += timedelta(hours=hours)
    if records:
        world.refuse(records)
    assert (world.look(), world.state) == ([], state)


def test_records_that_expire_while_a_problem_is_muted_count_among_the_further_ones(world: World) -> None:
    world.refuse(3)
    world.look()
    world.service.change_state("adm", world.problem, ProblemState.MUTED, mute=Mute(count=8))
    for day, state in enumerate([ProblemState.MUTED, ProblemState.MUTED, ProblemState.OPEN], start=1):
        world.now += timedelta(days=1)
        world.refuse(3)
        world.expire(3 * day)  # as many as have come
        assert (world.look(), world.state) == ([], state)


def test_records_count_once_for_a_mute_when_the_index_is_built_again(world: World, factory: Factory) -> None:
    world.refuse(3)
    world.look()
    world.service.change_state("adm", world.problem, ProblemState.MUTED, mute=Mute(count=5))
    world.refuse(4)
    world.expire(5)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    Process(factory, "two").ingest([refused(5), refused(6)], low=5)
    assert (world.look(), world.state) == ([], ProblemState.MUTED)
    Process(factory, "two").ingest([refused(7)])
    assert (world.look(), world.state) == ([], ProblemState.OPEN)


def test_expired_records_of_every_joined_problem_count_for_its_mute(world: World, factory: Factory) -> None:
    sentences = ("is not JSON: expecting ',' delimiter", "is not JSON: expecting ':' delimiter")
    kinds = [replace(BROKEN, message=each) for each in sentences]
    process = Process(factory, "two")
    process.ingest([refused(offset, (kinds[offset % 2],)) for offset in range(4)])
    world.look()
    assert len(world.service.get("adm", world.problem, ProblemQuery()).members) == 2
    world.service.change_state("adm", world.problem, ProblemState.MUTED, mute=Mute(count=4))
    for offset, state in [(4, ProblemState.MUTED), (6, ProblemState.OPEN)]:
        process.ingest([refused(each, (kinds[each % 2],)) for each in (offset, offset + 1)])
        world.expire(offset - 2)
        assert (world.look(), world.state) == ([], state)


def test_a_surge_above_the_usual_is_reported_once_a_day(world: World) -> None:
    for day in range(7, 0, -1):
        world.refuse(240, at=NOW - timedelta(days=day))  # ten an hour
    world.look()
    world.refuse(30)
    assert world.look() == []  # three times the usual
    world.refuse(30)
    assert world.look() == [NewsKind.SURGING]
    world.now += timedelta(hours=3)
    world.refuse(100)
    assert world.look() == []
    world.now += timedelta(hours=22)
    world.refuse(200)
    assert world.look() == [NewsKind.SURGING]


def test_a_new_problem_is_not_surging_and_surges_when_it_grows_later(world: World) -> None:
    def is_surging() -> bool:
        return world.service.get("adm", world.problem, ProblemQuery()).is_surging

    world.refuse(100)
    assert world.look() == [NewsKind.NEW]
    assert not is_surging()
    world.now += timedelta(days=2)
    world.refuse(100)
    assert is_surging()
    world.service.change_state("adm", world.problem, ProblemState.RESOLVED)
    assert not is_surging()


def test_few_records_are_no_surge_whatever_their_share(world: World) -> None:
    world.refuse(1, at=NOW - timedelta(days=2))
    world.look()
    world.refuse(19)
    assert world.look() == []


def test_changes_of_states_by_themselves_are_in_the_audit_log(world: World, factory: Factory) -> None:
    """What changes no state, such as a first sight or an alert, has no entry."""
    world.refuse(3)
    world.look()
    assert entries(factory) == []
    world.service.change_state("adm", world.problem, ProblemState.MUTED, mute=Mute(count=1))
    world.refuse(1)
    world.look()
    world.service.change_state("adm", world.problem, ProblemState.RESOLVED)
    world.now += timedelta(minutes=5)
    world.refuse(1)
    world.look()
    closed = {Closure.DISCARDED: Positions((0, offset) for offset in range(5))}
    factory.database.write(lambda stores: add_closures(stores, "adm", closed))
    factory.database.write(lambda stores: resolve_emptied(stores, "adm", world.now))
    world.look()
    place = f"adm-value#{world.problem}"
    assert entries(factory) == [
        (who, "problem.state-changed", place)
        for who in ("anonymous", "tidegate", "anonymous", "tidegate", "tidegate")
    ]
    entry = factory.audit().page(0, 100).entries[-1]
    assert None not in {entry.before, entry.after}
    assert entry.before != entry.after


def test_many_changes_at_once_have_few_entries(world: World, factory: Factory) -> None:
    rules = [replace(AGE, code=f"rule-{number}") for number in range(30)]
    Process(factory, "two").ingest([refused(offset, (rule,)) for offset, rule in enumerate(rules)])
    closed = {Closure.DISCARDED: Positions((0, offset) for offset in range(30))}
    factory.database.write(lambda stores: add_closures(stores, "adm", closed))
    world.look()
    found = entries(factory)
    assert len({each for each in found if each[1] == "problem.state-changed"}) == 20
    assert found[20:] == [("tidegate", "problem.states-changed", "adm-value#10 more")]


def stored(factory: Factory) -> dict[str, str]:
    states = factory.database.read(lambda stores: stores.problems.states("adm"))
    return {problem: each.state for problem, each in states.items()}


def entries(factory: Factory) -> list[tuple[str, str, str]]:
    return [(each.who, each.action, each.subject) for each in factory.audit().page(0, 100).entries]
