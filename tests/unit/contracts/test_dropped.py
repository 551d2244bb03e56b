"""The chain of dropped positions: what the ledger does not name is no part of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.positions import Positions, chained, digest_of, dropped_by, following, named_by

LEDGER = "shop.orders@iceberg:1"
MOST_BYTES = 1_000_000

batches = st.lists(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2**40)), min_size=1), max_size=5)


def texts_of(dropped: set[Position], after: str, most_bytes: int = MOST_BYTES) -> list[bytes]:
    return [each.text for each in chained(LEDGER, after, Positions(sorted(dropped)), most_bytes)]


@given(batches, st.integers(60, 2_000))
def test_a_chain_gives_back_what_was_put_in(batches: list[set[Position]], most_bytes: int) -> None:
    texts: list[bytes] = []
    for batch in batches:
        texts += texts_of(batch, digest_of(texts[-1]) if texts else "", most_bytes)
    head = digest_of(texts[-1]) if texts else ""
    assert dropped_by(LEDGER, head, ([each] for each in reversed(texts))) == set[Position]().union(*batches)


def test_records_of_an_attempt_that_was_never_published_are_not_in_the_chain() -> None:
    first = texts_of({(0, 1)}, "")
    unpublished = texts_of({(0, 5), (1, 7)}, digest_of(first[-1]))
    second = texts_of({(0, 6)}, digest_of(first[-1]))
    found = dropped_by(LEDGER, digest_of(second[-1]), [second, unpublished, first])
    assert found == {(0, 1), (0, 6)}


def test_older_parts_than_those_of_the_chain_are_not_read() -> None:
    texts = texts_of({(0, 1)}, "") + texts_of({(0, 2)}, digest_of(texts_of({(0, 1)}, "")[-1]))

    def parts() -> Iterator[list[bytes]]:
        yield texts
        pytest.fail("the chain was complete")

    assert dropped_by(LEDGER, digest_of(texts[-1]), parts()) == {(0, 1), (0, 2)}


def test_what_goes_on_behind_the_chain_is_found_with_all_its_branches() -> None:
    first = texts_of({(0, 1)}, "")
    head = digest_of(first[-1])
    ahead = [*texts_of({(0, 5)}, head), *texts_of({(0, 5), (0, 6)}, head)]
    later = texts_of({(0, 7)}, digest_of(ahead[0]))
    assert following(LEDGER, head, [*later, *ahead, *first]) == {(0, 5), (0, 6), (0, 7)}
    assert following(LEDGER, "", first) == {(0, 1)}
    assert not following(LEDGER, digest_of(later[-1]), [*first, *ahead, *later])
    assert not following(LEDGER, "d" * 64, [*first, *ahead])
    assert not following("another", head, ahead)


def test_records_of_others_are_not_in_the_chain() -> None:
    texts = texts_of({(0, 1)}, "")
    forged = next(chained(LEDGER, "", Positions([(0, 2)]), MOST_BYTES)).text
    others = next(chained("shop.refunds@kafka", "", Positions([(0, 3)]), MOST_BYTES)).text
    changed = texts[0].replace(b'"partition":0', b'"partition":1')
    strange = [b"", b"{}", b"\xff", b'{"version":2}', forged, others, changed]
    assert dropped_by(LEDGER, digest_of(texts[0]), [[*strange, *texts]]) == {(0, 1)}
    assert not dropped_by(LEDGER, digest_of(texts[0]), [strange])


def test_what_a_topic_has_deleted_ends_the_chain() -> None:
    first = texts_of({(0, 1)}, "")
    second = texts_of({(0, 2)}, digest_of(first[-1]))
    assert dropped_by(LEDGER, digest_of(second[-1]), [second]) == {(0, 2)}
    assert not dropped_by(LEDGER, digest_of(second[-1]), [first])


def test_a_record_is_no_larger_than_its_topic_takes() -> None:
    offsets = [number * 20_011 for number in range(50_000)]
    texts = texts_of({(0, offset) for offset in offsets}, "", 20_000)
    assert len(texts) > 1
    assert max(map(len, texts)) < 20_500
    assert dropped_by(LEDGER, digest_of(texts[-1]), [texts]) == {(0, offset) for offset in offsets}


def test_all_positions_of_a_ledger_are_found_without_its_digest() -> None:
    first, unpublished = texts_of({(0, 1)}, ""), texts_of({(0, 5), (1, 7)}, "ab")
    others = next(chained("shop.refunds@kafka", "", Positions([(0, 3)]), MOST_BYTES)).text
    assert named_by(LEDGER, [b"no json", *first, others, *unpublished]) == {(0, 1), (0, 5), (1, 7)}
