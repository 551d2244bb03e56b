from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import psutil
import pytest

from contracts.errors import SettingsError
from gateway.embedded import ports


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server((ports.HOST, 0)) as server:
        yield server.getsockname()[1]


def test_the_preferred_port_is_picked_when_it_is_free(taken: int) -> None:
    free = ports.pick(taken)
    assert ports.pick(free) == free


def test_another_port_is_picked_when_the_preferred_one_is_in_use(taken: int) -> None:
    picked = ports.pick(taken)
    assert picked != taken
    assert ports.is_free(picked)


def test_a_port_promised_to_another_listener_is_not_picked(taken: int) -> None:
    free = ports.pick(taken)
    assert ports.pick(free, taken=frozenset({free})) != free


def test_a_port_that_was_asked_for_and_is_in_use_names_who_holds_it(taken: int) -> None:
    with pytest.raises(SettingsError) as caught:
        ports.require(taken, option="--port")
    me = f"{psutil.Process().name()} (pid {os.getpid()})"
    expected = f"port {taken} is in use by {me}: stop it, or leave --port out and a free port is picked"
    assert str(caught.value) == expected


def test_a_listener_on_all_interfaces_holds_the_port_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - what is under test; closed at once
        assert not ports.is_free(server.getsockname()[1])
