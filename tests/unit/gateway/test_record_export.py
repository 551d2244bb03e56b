"""Places for downloads and searches of refused records: no reader takes them from all others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.unit.gateway.quarantine_records import NOW, Process, refused
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.access.principal import ANONYMOUS, Principal, TooManyRequests, read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.record_export import STALLED_AFTER, ExportFormat, RecordExports

ANN, BOB, CY = (Principal(name, read_grants(("viewer",))) for name in ("ann", "bob", "cy"))


class Exports:
    """Downloads of a process whose broker is away: a place is taken before the first record is read."""

    def __init__(self, factory: Factory) -> None:
        self.factory = factory
        self.now = NOW
        kafka = KafkaConnection("127.0.0.1:1")
        self.exports = RecordExports(factory.database, kafka, lambda: self.now)

    def begin(self, by: Principal) -> Iterator[bytes]:
        masking = self.factory.record_masking()
        return self.exports.begin("adm", QuarantineFilter(), ExportFormat.CSV, 10, masking, by)


@pytest.fixture
def exports(factory: Factory) -> Exports:
    factory.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))
    Process(factory, "one").ingest([refused(0)])
    return Exports(factory)


def test_a_reader_has_one_download_at_a_time(exports: Exports) -> None:
    first = exports.begin(ANN)
    with pytest.raises(TooManyRequests, match="one of your own downloads"):
        exports.begin(ANN)
    second = exports.begin(BOB)
    with pytest.raises(TooManyRequests, match="2 downloads run"):
        exports.begin(CY)
    del first, second
    exports.begin(CY)


def test_without_access_control_all_places_are_for_all(exports: Exports) -> None:
    kept = [exports.begin(ANONYMOUS), exports.begin(ANONYMOUS)]
    with pytest.raises(TooManyRequests):
        exports.begin(ANONYMOUS)
    del kept


def test_a_download_that_is_not_read_gives_its_place_away(exports: Exports) -> None:
    stalled, other = exports.begin(ANN), exports.begin(BOB)
    exports.now += STALLED_AFTER - timedelta(seconds=1)
    with pytest.raises(TooManyRequests):
        exports.begin(CY)
    exports.now += timedelta(seconds=2)
    kept = exports.begin(CY)
    for each in (stalled, other):
        with pytest.raises(Unavailable, match="was not read"):
            next(each)
    with pytest.raises(TooManyRequests, match="one of your own"):
        exports.begin(CY)
    del kept
