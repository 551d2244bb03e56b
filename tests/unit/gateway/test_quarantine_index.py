"""The index of refused records over a database: the same however it was built, and exact after each way to fail."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pyroaring import BitMap, BitMap64
from sqlalchemy import event, text

from tests.documents import contract_with
from tests.unit.gateway.quarantine_records import AGE, BROKEN, LINE, MISSING, NOW, Process, many, refused
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.verdict import Severity
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index import closures, facets, merge
from tidegate.gateway.streams.quarantine_index.avro_values import avro_decoder
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter, StreamIndex
from tidegate.gateway.streams.quarantine_index.partitions import LEASE, PartitionCommit
from tidegate.gateway.streams.quarantine_index.reading import Dimension
from tidegate.gateway.streams.quarantine_index.refusals import ContractHints, RefusalReader
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems

TABLES = ("quarantine_facets", "quarantine_bitmaps", "quarantine_pages", "quarantine_days")


def index(factory: Factory) -> dict[str, object]:
    """Return all that the index holds, and nothing of how far it is."""
    with factory.database.reading() as stores:
        return {
            table: sorted(map(tuple, stores._session.execute(text(f"SELECT * FROM {table}"))), key=repr)  # noqa: S608 - our own names
            for table in TABLES
        }


def problems(factory: Factory) -> dict[tuple[str, str, str], int]:
    with factory.database.reading() as stores:
        counts = stores.quarantine.counts("adm")
        found = stores.quarantine.facets("adm", "problem")
    keys = {each.facet: facets.ProblemKey.read(each) for each in found}
    return {(key.code, key.field, key.shape): counts[facet] for facet, key in keys.items()}


def test_records_are_counted_by_problem(factory: Factory) -> None:
    Process(factory, "one").ingest(
        [
            refused(0),
            refused(1, (LINE, replace(LINE, pointer="/lines/4/name")), value=b'{"lines": [1, 1, 1, {"name": 2}, {"name": 3}]}'),
            refused(2, (MISSING, AGE), value=b'{"age": 40}'),
            refused(3, (replace(AGE, severity=Severity.WARNING), BROKEN), value=b'{"age": 1,}'),
            refused(4, contract="other"),
        ]
    )  # fmt: skip
    assert problems(factory) == {
        ("age-is-known", "/age", "999"): 1,
        ("type", "/lines/*/name", "positive integer, below 1,000"): 1,
        ("required", "/age", "absent"): 1,
        ("age-is-known", "/age", "positive integer, below 1,000"): 1,
        ("json.invalid", "", ""): 1,
    }


@pytest.mark.parametrize("at_once", [3, 50, 1_000])
def test_it_is_the_same_however_it_was_read(factory: Factory, at_once: int) -> None:
    sources = [many(60, 0), many(40, 1)]
    for records in sources:
        Process(factory, "one").ingest(records)
    first = index(factory)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    assert not any(index(factory).values())
    for records in reversed(sources):
        Process(factory, "two").ingest(records, at_once)
    assert index(factory) == first


def test_no_value_is_kept(factory: Factory) -> None:
    value = b'{"age": 999, "name": "Zaphod Beeblebrox"}'
    records = [refused(0, (AGE, replace(AGE, pointer="/name")), value=value, app="billing", team="Magrathea")]
    Process(factory, "one").ingest(records)
    kept = repr(index(factory))
    assert "billing" in kept  # the contract says that it is public
    for secret in ("Zaphod", "Magrathea", "k0"):
        assert secret not in kept


def test_two_processes_count_each_record_once(factory: Factory) -> None:
    records = many(300)
    Process(factory, "alone").ingest(records)
    expected = index(factory)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))

    first, second = Process(factory, "first"), Process(factory, "second")
    claimed = first.partitions.claim("adm", 0, 0, 10_000)
    assert claimed is not None
    assert not second.ingest(records)  # the lease holds
    (advanced,) = first.partitions.commit(
        [PartitionCommit(claimed, first.read(records[:100]), records[99].offset + 1)]
    )
    assert advanced is not None
    second.now += LEASE * 2
    assert second.ingest(records)  # it has run out
    late = PartitionCommit(advanced, first.read(records[100:]), records[-1].offset + 1)
    assert first.partitions.commit([late]) == [None]
    assert index(factory) == expected


def test_two_processes_that_race_count_each_record_once(factory: Factory) -> None:
    records = many(60)
    Process(factory, "alone").ingest(records)
    expected = index(factory)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    end = records[-1].offset + 1
    commits: list[str] = []

    def take_turns(name: str) -> None:
        """Take the lease whenever it is free, read some records, and give it back: sometimes before the commit."""
        process, chance = Process(factory, name), random.Random(name)  # noqa: S311 - test data
        while True:
            claimed = process.partitions.claim("adm", 0, 0, end)
            if claimed is None:
                continue
            part = [each for each in records if each.offset >= claimed.next_offset][:7]
            if not part:
                process.partitions.release()
                return
            step = PartitionCommit(claimed, process.read(part), part[-1].offset + 1)
            if chance.random() < 0.5:
                process.partitions.release()
            if process.partitions.commit([step]) != [None]:
                commits.append(name)
            process.partitions.release()

    threads = [threading.Thread(target=take_turns, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index(factory) == expected
    assert len(commits) == -(-len(records) // 7)


def test_a_crash_before_the_commit_loses_and_doubles_nothing(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = many(300)
    Process(factory, "alone").ingest(records)
    expected = index(factory)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))

    process = Process(factory, "one")
    claimed = process.partitions.claim("adm", 0, 0, 10_000)
    assert claimed is not None
    for broken in ("_add_pages", "_add_bitmaps", "_change_days"):
        with monkeypatch.context() as patch:

            def crash(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(merge, broken, crash)
            with pytest.raises(KeyboardInterrupt):
                process.partitions.commit(
                    [PartitionCommit(claimed, process.read(records), records[-1].offset + 1)]
                )
        assert not any(index(factory).values())
    assert Process(factory, "one").ingest(records)
    assert index(factory) == expected


@pytest.mark.parametrize("seed", range(3))
def test_retention_leaves_what_a_new_index_has(factory: Factory, seed: int) -> None:
    records = many(400, seed=seed * 100)
    others = many(50, partition=1)
    process = Process(factory, "one")
    process.ingest(records)
    process.ingest(others)
    for kept in (records[37:], records[38:], records[350:], records[-1:]):
        low = kept[0].offset
        claimed = process.partitions.claim("adm", 0, low, records[-1].offset + 1)
        assert claimed is not None
        retained = process.partitions.retain(claimed, low, records[-1].offset + 1)
        assert retained is not None
        assert (retained.low, retained.next_offset) == (low, records[-1].offset + 1)
    trimmed = index(factory)
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    Process(factory, "two").ingest(kept, low=low)
    Process(factory, "two").ingest(others)
    assert index(factory) == trimmed


def test_a_topic_that_was_made_again_begins_again(factory: Factory) -> None:
    process = Process(factory, "one")
    process.ingest(many(100))
    assert process.partitions.claim("adm", 0, 0, 5) is not None
    assert not any(index(factory).values())


def test_problems_beyond_the_bound_are_counted_together(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(facets.MOST, facets.FacetKind.PROBLEM, 3)  # type: ignore[arg-type] # the bounds are a read-only mapping by its type
    codes = [refused(n, (replace(AGE, code=f"rule-{n}"),)) for n in range(10)]
    Process(factory, "one").ingest(codes, at_once=2)
    assert Counter(code for code, _, _ in problems(factory)) == Counter(("rule-0", "rule-1", "rule-2", "*"))
    assert problems(factory)["*", "", ""] == 7


def refused_again(factory: Factory, again: dict[str, list[int]], closed: list[int] | None = None) -> None:
    """Keep why records of partition 0 were refused again, and that others are closed."""
    found = {code: Positions([(0, each) for each in offsets]) for code, offsets in again.items()}
    gone = Positions([(0, each) for each in closed or []])
    factory.database.write(lambda stores: closures.keep_reasons(stores, "adm", found, [gone]))


def by_new_reason(factory: Factory, **wanted: Any) -> dict[str, int]:
    groups, _ = factory.quarantine_index().breakdown("adm", Dimension.AGAIN, QuarantineFilter(**wanted))
    return {each.value: each.records for each in groups}


@pytest.fixture
def five_refused(factory: Factory) -> Process:
    """Five records of one rule, one of them by another version."""
    factory.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))
    process = Process(factory, "one")
    process.ingest([*(refused(n) for n in range(4)), refused(4, version="1.1.0")])
    return process


@pytest.mark.usefixtures("five_refused")
def test_what_a_replay_refused_again_is_found_by_its_newest_reason_until_it_is_closed(
    factory: Factory,
) -> None:
    refused_again(factory, {"ward-is-open": [0, 1, 4], "type": [1], "unseen": [99_999]})
    assert by_new_reason(factory) == {"ward-is-open": 3, "type": 1}
    assert by_new_reason(factory, version="1.1.0") == {"ward-is-open": 1}
    index = factory.quarantine_index()
    wanted = QuarantineFilter(again="ward-is-open", rule="age-is-known")
    assert list(index.positions("adm", wanted).places()) == [(0, 0), (0, 1), (0, 4)]
    assert [place.offset for place in index.page("adm", wanted, 10).places] == [4, 1, 0]
    since = NOW - timedelta(hours=1)
    assert sum(index.trend("adm", replace(wanted, since=since), 4)[1]) == 3
    assert index.positions("adm", QuarantineFilter(again="format")).records == 0
    assert index.refused_again_by("adm", 0, 1) == ("type", "ward-is-open")

    refused_again(factory, {"format": [0, 1]})  # another replay finds something else
    assert by_new_reason(factory) == {"format": 2, "ward-is-open": 1}
    refused_again(factory, {}, closed=[1, 4])
    assert by_new_reason(factory) == {"format": 1}
    assert index.refused_again_by("adm", 0, 4) == ()


def test_new_reasons_outlive_a_rebuild_and_go_with_their_records(
    factory: Factory, five_refused: Process
) -> None:
    refused_again(factory, {"ward-is-open": [0, 4]})
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    assert by_new_reason(factory) == {}
    Process(factory, "two").ingest(
        [refused(n) for n in range(3, 5)], low=3
    )  # retention has deleted the others
    assert by_new_reason(factory) == {"ward-is-open": 1}
    five_refused.now += LEASE * 2
    assert five_refused.partitions.claim("adm", 0, 0, 1) is not None  # the topic was made again
    assert factory.database.read(lambda stores: stores.reasons.all("adm")) == ()


@pytest.mark.usefixtures("five_refused")
def test_new_reasons_beyond_the_bound_are_counted_together(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closures, "MOST_CODES_AGAIN", 2)
    refused_again(factory, {"rule-0": [0], "rule-1": [1], "rule-2": [2], "rule-3": [2, 3]})
    refused_again(factory, {"rule-1": [4]})
    assert by_new_reason(factory) == {"rule-0": 1, "rule-1": 2, "other": 2}


def test_positions_far_apart_are_in_the_chunks_that_they_occupy() -> None:
    low, high = Positions([(0, 5), (3, 2**62)]), Positions([(0, 2**63 - 1)])
    border = Positions.of({1: BitMap64(range(65_534, 3 * 65_536 + 1))})
    assert closures._chunks(low | high | border) == {
        (0, 0): BitMap([5]),
        (0, 2**47 - 1): BitMap([65_535]),
        (1, 0): BitMap([65_534, 65_535]),
        (1, 1): BitMap(range(65_536)),
        (1, 2): BitMap(range(65_536)),
        (1, 3): BitMap([0]),
        (3, 2**46): BitMap([0]),
    }


@pytest.mark.usefixtures("five_refused")
def test_the_work_for_closed_records_does_not_grow_with_their_chunks(factory: Factory) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    def close(positions: Positions) -> int:
        statements.clear()
        with factory.database.writing() as stores:
            found = closures.problems_at(StreamIndex(stores, "adm", joined_problems), positions, 50)
            closures.add_closures(stores, "adm", {Closure.REPLAYED: positions})
            closures.keep_reasons(stores, "adm", {"type": positions}, [positions])
        assert len(found) == 1
        return len(statements)

    event.listen(factory.database._engine, "before_cursor_execute", note)
    one = close(Positions([(0, 0)]))
    assert close(Positions([(0, each << 40) for each in range(4000)])) == one
    assert len(factory.database.read(lambda stores: stores.closures.all("adm"))) == 4000


def test_the_values_of_avro_records_have_shapes(factory: Factory, client: Any) -> None:
    """By the schema that each record names, also one that is registered after the index began to read."""
    definition = {
        "type": "record",
        "name": "Stay",
        "fields": [
            {"name": "age", "type": "int"},
            {"name": "note", "type": ["null", "bytes"], "default": None},
        ],
    }
    rules = [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}]
    contract = contract_with(
        definition, kind="avro", framing="confluent-prefix", rules=rules, id="adm", topic="adm"
    )
    decode = avro_decoder(contract, factory.subjects())
    assert decode is not None
    reader = RefusalReader(Origin("adm", "adm"), b"secret", lambda _: ContractHints.of(contract, decode))

    def keys(value: bytes, field: str) -> list[str]:
        found = reader.read(refused(0, (replace(AGE, pointer=field),), value=value))
        assert found is not None
        return [
            facets.ProblemKey.read(each).shape for each in found[1] if each.kind == facets.FacetKind.PROBLEM
        ]

    def registered(**changes: Any) -> bytes:
        body = json.dumps({"schema": json.dumps({**definition, **changes})})
        answer = client.post("/subjects/adm-value/versions", body)
        assert answer.status_code == 200, answer.text
        return b"\0" + int(answer.json()["id"]).to_bytes(4, "big")

    first = registered()
    assert keys(first + b"\xce\x0f\x00", "/age") == ["999"]
    assert keys(first + b"\x01\x00", "/age") == ["negative integer, below 1,000"]
    assert keys(first + b"\xce\x0f\x02\x00", "/note") == ["empty bytes"]
    assert keys(first + b"\xce\x0f\x02\x02A", "/note") == ["bytes"]
    fields = [*definition["fields"], {"name": "ward", "type": "string", "default": ""}]
    assert keys(b"\0\0\0\x0f\xff\xce\x0f\x00", "/age") == ["unknown"]  # it is not registered
    second = registered(fields=fields)
    assert keys(second + b"\xce\x0f\x00\x02W", "/age") == ["999"]
    assert keys(second + b"\xce", "/age") == ["unknown"]
    assert avro_decoder(contract_with({}), factory.subjects()) is None
