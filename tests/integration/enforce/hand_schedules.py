"""Schedules that no search has found: contracts replaced between claims, crashes in a row, crashes within a recovery."""

from __future__ import annotations

from tests.model.one_transaction import Part
from tests.model.rewind import RewindPart
from tests.model.schedules import THREE, counterexample
from tests.model.world import Bounds

REPLACED = "the contract is replaced"
FOUR = Bounds(THREE, (2, 1, 2, 1))
"""Instances with two slots and with one, in turns."""


def lines(text: str) -> tuple[str, ...]:
    """Split a schedule that is written with semicolons."""
    return tuple(each.strip() for each in text.split(";"))


def started(who: str, epoch: int, settled: int = 0) -> tuple[str, ...]:
    """Return the whole start of an instance."""
    return lines(
        f"{who} reads the ledger; {who} claims epoch {epoch}; {who} fences slot 0; {who} fences slot 1; {who} verifies; "
        f"{who} scans, {settled} settled"
    )


def quarantined(who: str, epoch: int) -> tuple[str, ...]:
    """Return the steps of an instance that crashes when its refused records are committed, and nothing else is."""
    return (
        *started(who, epoch),
        *lines(f"{who} judges up to (2, 1) by contract 0; {who} appends two to slot 0; {who} commits slot 0"),
    )


STAGED_BY_HAND: dict[str, tuple[str, ...]] = {
    "the contract is replaced between two claims": (
        *quarantined("A", 1),
        "B reads the ledger",
        REPLACED,
        "B claims epoch 2",
        *lines("C reads the ledger; C claims epoch 3; C fences slot 0; C fences slot 1; C verifies"),
        *lines("B fences slot 0; B verifies; C scans, 2 settled; C judges up to (2, 1) by contract 1"),
        *lines("C appends one to slot 1; C commits slot 1"),
    ),
    "two crashes in a row, one in an open transaction": (
        *started("A", 1),
        *lines("A judges up to (2, 1) by contract 0; A appends two to slot 0"),
        *started("B", 2),
        *lines("B judges up to (1, 1) by contract 0; B appends one to slot 0; B commits slot 0"),
        REPLACED,
        *started("C", 3, 1),
        *lines("C judges up to (2, 0) by contract 1; C appends one to slot 0"),
    ),
    "crashes within the recovery of a crash": (
        *quarantined("A", 1),
        *lines("B reads the ledger; B claims epoch 2; B fences slot 0"),
        *lines("C reads the ledger; C claims epoch 3; C fences slot 0; C fences slot 1; C verifies"),
        *started("D", 4, 2),
        *lines("D judges up to (1, 1) by contract 0; D has nothing to quarantine; D publishes up to (1, 1)"),
    ),
    "a contract replaced while the one before commits between claim and fence": (
        *started("A", 1),
        "A judges up to (2, 1) by contract 0",
        *lines("B reads the ledger; B claims epoch 2; A appends two to slot 0; A commits slot 0"),
        REPLACED,
        *lines("B fences slot 0; B fences slot 1; B verifies; B scans, 2 settled"),
        *lines("B judges up to (2, 0) by contract 1; B has nothing to quarantine; B publishes up to (2, 0)"),
    ),
    "one slot of two committed, the other open": (
        REPLACED,
        *started("A", 1),
        *lines("A judges up to (2, 1) by contract 1; A appends one to slot 0; A commits slot 0"),
        "A appends one to slot 1",
        *started("B", 2, 1),
        *lines("B judges up to (2, 1) by contract 1; B appends one to slot 0"),
    ),
    "a zombie takes its next batch while it is overtaken": (
        *started("A", 1),
        *lines("A judges up to (1, 0) by contract 0; A appends one to slot 0; A commits slot 0"),
        *lines("A publishes up to (1, 0); B reads the ledger; A judges up to (2, 1) by contract 0"),
        *lines(
            "B claims epoch 2; A appends one to slot 0; B fences slot 0; A commits slot 0; B fences slot 1"
        ),
        *lines(
            "B verifies; B scans, 0 settled; B judges up to (2, 1) by contract 0; B appends one to slot 0"
        ),
    ),
}


def opened_late(schedule: tuple[str, ...]) -> tuple[str, ...]:
    """Let A open its last transaction just before it commits it: a reader of the ledger would wait for its end."""
    last = len(schedule) - 1 - schedule[::-1].index("A appends in a transaction")
    commits = schedule.index("A commits", last)
    return (*schedule[:last], *schedule[last + 1 : commits], schedule[last], *schedule[commits:])


LATE: dict[Part, tuple[str, ...]] = {
    part: opened_late(counterexample(part)) for part in (Part.FENCE, Part.READ_AFTER_FENCE)
}
"""Schedules of the search that real readers only take like this: in the model they need not wait."""

ONE_TRANSACTION_BY_HAND: dict[str, tuple[str, ...]] = {
    "fenced within the transaction of its claim": (
        *lines("A fences; A reads the ledger: 0; A is about to claim epoch 1; A appends in a transaction; B fences"),
        *lines("A commits; B reads the ledger: 0"),
    ),
    "overtaken before it opens its transaction": LATE[Part.FENCE],
    "read before the fence, while another commits": LATE[Part.READ_AFTER_FENCE],
    "two crashes in a row within a publication, and another contract": (
        *lines("A fences; A reads the ledger: 0; A is about to claim epoch 1; A appends in a transaction; A commits"),
        *lines("A judges up to 1 by contract 0; A appends in a transaction; B fences; B reads the ledger: 0"),
        *lines("B is about to claim epoch 2; B appends in a transaction; B commits"),
        REPLACED,
        *lines("B judges up to 2 by contract 1; B appends in a transaction"),
    ),
}  # fmt: skip


def _one_slot(who: str, epoch: int) -> tuple[str, ...]:
    """Return the whole start of an instance with one slot."""
    return lines(
        f"{who} reads the ledger; {who} claims epoch {epoch}; {who} fences slot 0; {who} verifies; {who} scans, 0 settled"
    )


_ACCEPTED = (
    *_one_slot("A", 1),
    *lines("A judges up to (1, 0) by contract 0; A has nothing to quarantine; A publishes up to (1, 0)"),
)
_REFUSES = "{0} appends [(0, 1)] to slot 0; {0} commits slot 0"
_GOES, _RETURNS = "rewind 1 is to go to (0, 0)", "rewind 1 goes back to (0, 0)"
_DECIDES = "judges up to (2, 0) by contract 0"

REWINDS_BY_HAND: dict[RewindPart, tuple[str, ...]] = {
    RewindPart.CLAIM: (
        *_ACCEPTED,
        *lines("B reads the ledger; B claims epoch 2"),
        *lines(f"{_GOES}; rewind 1 claims nothing; rewind 1 fences slot 0"),
        *lines(f"B fences slot 0; B verifies; B scans, 0 settled; B {_DECIDES}"),
        *lines(f"rewind 1 counts what goes; {_REFUSES.format('B')}; {_RETURNS}"),
    ),
    RewindPart.FENCE: (
        *_ACCEPTED,
        f"A {_DECIDES}",
        *lines(f"{_GOES}; rewind 1 claims epoch 2; rewind 1 fences slot 0; rewind 1 counts what goes"),
        *lines(f"{_REFUSES.format('A')}; {_RETURNS}"),
    ),
    RewindPart.LOOK_AFTER_FENCE: (
        *_ACCEPTED,
        f"A {_DECIDES}",
        *lines(f"{_GOES}; rewind 1 claims epoch 2; {_REFUSES.format('A')}"),
        *lines(f"rewind 1 fences slot 0; rewind 1 counts what goes; {_RETURNS}"),
    ),
    RewindPart.COMMIT_COMPARES: (
        *_ACCEPTED,
        *lines(f"{_GOES}; rewind 1 claims epoch 2; B reads the ledger; B claims epoch 3"),
        *lines("rewind 1 fences slot 0; B fences slot 0; B verifies; B scans, 0 settled"),
        *lines(f"B {_DECIDES}; rewind 1 counts what goes; {_REFUSES.format('B')}; {_RETURNS}"),
    ),
}
"""Those that the search finds have a transaction open while the rewind looks at the refusals; the code waits for its end."""
