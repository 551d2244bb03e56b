from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.embedded import ports


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server((ports.HOST, 0)) as server:
        yield server.getsockname()[1]


def test_the_preferred_port_is_taken_when_it_is_free(taken: int) -> None:
    first = ports.claim(taken)
    first.release()
    second = ports.claim(first.port)
    second.release()
    assert second.port == first.port


def test_another_port_is_taken_when_the_preferred_one_is_in_use(taken: int) -> None:
    claim = ports.claim(taken)
    claim.release()
    assert claim.port != taken
    assert ports.is_free(claim.port)


def test_the_port_of_the_last_start_is_taken_before_the_preferred_one(taken: int, tmp_path: Path) -> None:
    last = tmp_path / "port"
    first = ports.claim(taken, last=last)
    ports.keep(last, first.port)
    first.release()
    free = ports.claim()
    free.release()
    again = ports.claim(free.port, last=last)
    again.release()
    assert again.port == first.port != free.port


@pytest.mark.parametrize("text", ["", "x", "-1", "80", "70000", "9" * 5000, "\n"])
def test_a_damaged_file_keeps_no_port(tmp_path: Path, text: str) -> None:
    last = tmp_path / "port"
    last.write_text(text)
    free = ports.claim()
    free.release()
    claim = ports.claim(free.port, last=last)
    claim.release()
    assert claim.port == free.port


def test_a_claimed_port_is_not_given_twice_before_a_process_listens() -> None:
    first = ports.claim()
    second = ports.claim(first.port)
    with pytest.raises(SettingsError, match=f"port {first.port} is in use by another process"):
        ports.claim_exactly(first.port, option="--port")
    first.release()
    second.release()
    assert second.port != first.port


def test_a_port_that_was_asked_for_and_is_in_use_names_who_holds_it(taken: int) -> None:
    with pytest.raises(SettingsError) as caught:
        ports.claim_exactly(taken, option="--port")
    me = f"{psutil.Process().name()} (pid {os.getpid()})"
    expected = f"port {taken} is in use by {me}: stop it, or leave --port out and a free port is picked"
    assert str(caught.value) == expected


def test_a_listener_on_all_interfaces_holds_the_port_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - what is under test; closed at once
        assert not ports.is_free(server.getsockname()[1])
