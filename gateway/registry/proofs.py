"""Proofs about documents: each is made once, and none while the write lock is held, because a proof may take seconds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from hashlib import blake2b
from typing import Final, TypeVar, cast

from tidegate.contracts.document.load import dump_contract
from tidegate.contracts.document.model import DataContract
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores

_KEPT: Final = 4_096
_MOST_ATTEMPTS: Final = 100
"""After so many write transactions that lacked a proof, the rest is proven in the last one, so that each write ends."""

T = TypeVar("T")
_Key = tuple[str, bytes]

_kept: OrderedDict[_Key, object] = OrderedDict()
_lock = threading.Lock()
_held: ContextVar[dict[_Key, object] | None] = ContextVar("held", default=None)
"""The proofs that were made for the write transaction of this context; None outside of one."""


class _ProofMissing(Exception):  # noqa: N818 - ends an attempt, and reaches no caller
    """A write transaction needs a proof that is not made yet; `make` makes it."""

    def __init__(self, make: Callable[[], object]) -> None:
        super().__init__()
        self.make = make


def proven(prove: Callable[..., T], *arguments: object) -> T:
    """Return `prove(*arguments)`, from the last 4,096 results if it is there; `prove` is a function of its arguments alone.

    In a transaction of `write`, a proof that is missing ends the attempt.
    """
    held = _held.get()
    key = _key_of(prove, arguments)
    if held is not None and key in held:
        return cast("T", held[key])
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return cast("T", _kept[key])

    def make() -> T:
        found = prove(*arguments)
        with _lock:
            _kept[key] = found
            while len(_kept) > _KEPT:
                _kept.popitem(last=False)
        if held is not None:
            held[key] = found
        return found

    if held is not None:
        raise _ProofMissing(make)
    return make()


def write(database: Database, work: Callable[[Stores], T]) -> T:
    """Run `work` in a write transaction that holds every proof it needs.

    When one is missing, the transaction is rolled back, the proof is made while others write, and `work` runs again.
    """
    held: dict[_Key, object] = {}
    for _ in range(_MOST_ATTEMPTS):
        token = _held.set(held)
        try:
            return database.write(work)
        except _ProofMissing as missing:
            make = missing.make
        finally:
            _held.reset(token)
        make()
    return database.write(work)


def _key_of(prove: Callable[..., object], arguments: tuple[object, ...]) -> _Key:
    """Return a short key: the documents themselves may have a megabyte each."""
    digest = blake2b()
    for each in arguments:
        match each:
            case bytes():
                content = each
            case DataContract():
                content = dump_contract(each)
            case _:
                content = repr(each).encode()
        digest.update(len(content).to_bytes(8))
        digest.update(content)
    return f"{prove.__module__}.{prove.__qualname__}", digest.digest()
