"""Whatever arrives in whatever steps, and whatever retention removes: the index is that of the records that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.marks import examples
from tests.unit.gateway.quarantine_records import AGE, BROKEN, LINE, NOW, Process, refused
from tests.unit.gateway.test_quarantine_index import index
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import Dimension

KINDS = {
    "age": ((AGE,), b'{"age": 999}'),
    "line": ((LINE,), b'{"lines": [0, 0, 0, {"name": 1}]}'),
    "broken": ((BROKEN,), b"{"),
}
RECORDS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([1, 2, 4_000, 66_000]), st.sampled_from(sorted(KINDS)),
              st.integers(-3_000, 3_000), st.sampled_from(["1.0.0", "1.1.0"])),
    min_size=1, max_size=25,
)  # fmt: skip


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Factory]:
    path: Path = tmp_path_factory.mktemp("registry") / "registry.db"
    made = Factory(GatewaySettings(database_url=SecretStr(f"sqlite:///{path}")))
    made.database.migrate()
    made.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))
    yield made
    made.close()


@settings(max_examples=examples(10), deadline=None)
@given(RECORDS, st.integers(1, 7), st.data())
def test_the_index_is_that_of_what_is_there(
    factory: Factory, rows: list[tuple[int, int, str, int, str]], at_once: int, data: st.DataObject
) -> None:
    """The times go back and forth, as in a topic that counts a record's own time."""
    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    records = {0: [], 1: []}
    offsets = Counter[int]()
    for partition, gap, kind, minutes, version in rows:
        offsets[partition] += gap
        violations, value = KINDS[kind]
        at = NOW + timedelta(minutes=minutes)
        records[partition].append(
            (
                kind,
                version,
                refused(
                    offsets[partition], violations, partition=partition, value=value, version=version, at=at
                ),
            )
        )
    process = Process(factory, "one")
    kept = []
    for partition, found in records.items():
        if not found:
            continue
        process.ingest([each for *_, each in found], at_once)
        low = data.draw(st.integers(0, found[-1][2].offset))
        claimed = process.partitions.claim("adm", partition, low, found[-1][2].offset + 1)
        assert claimed is not None
        assert process.partitions.retain(claimed, low, found[-1][2].offset + 1) is not None
        kept += [each for each in found if each[2].offset >= low]
    followed = index(factory)
    reader = factory.quarantine_index()
    groups, total = reader.breakdown("adm", Dimension.VERSION, QuarantineFilter())
    assert total == len(kept)
    assert {each.value: each.records for each in groups} == Counter(version for _, version, _ in kept)
    since = NOW - timedelta(minutes=500)
    wanted = QuarantineFilter(rule="age-is-known", since=since, until=NOW)
    expected = [
        each
        for kind, _, each in kept
        if kind == "age" and since.timestamp() * 1000 <= each.timestamp_ms < NOW.timestamp() * 1000
    ]
    assert reader.positions("adm", wanted).records == len(expected)
    places = reader.page("adm", QuarantineFilter(), 100).places
    by_time = sorted(
        kept,
        key=lambda each: (each[2].timestamp_ms // 60_000, each[2].partition, each[2].offset),
        reverse=True,
    )
    assert [(each.partition, each.offset) for each in places] == [
        (each.partition, each.offset) for *_, each in by_time
    ]

    factory.database.write(lambda stores: stores.quarantine.drop("adm"))
    for partition in (1, 0):
        rest = [each for *_, each in kept if each.partition == partition]
        if rest:
            Process(factory, "two").ingest(rest, low=rest[0].offset)
    assert index(factory) == followed
