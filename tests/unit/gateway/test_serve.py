from __future__ import annotations

import socket

import pytest

from contracts.errors import SettingsError
from gateway.cli.serve import listen


def test_the_socket_is_known_as_tcp_so_that_small_answers_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
        assert listening.getsockname()[1] > 0


def test_an_address_of_another_machine_is_a_wrong_setting() -> None:
    reason = "192.0.2.1:8081 cannot be listened on: Cannot assign requested address; choose another"
    with pytest.raises(SettingsError, match=f"^{reason}"):
        listen("192.0.2.1", 8081)


def test_a_port_in_use_is_a_wrong_setting() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(SettingsError, match="Address already in use"):
        listen("127.0.0.1", first.getsockname()[1])
