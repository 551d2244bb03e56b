from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tidegate.gateway.embedded.broker import _new_cluster_id


def test_a_cluster_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: Iterator[uuid.UUID] = iter([uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(int=0)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert _new_cluster_id() == "A" * 22
