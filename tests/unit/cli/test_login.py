"""`tidegate login`, `logout` and `whoami`, against a registry that listens on a socket and wants to know who asks."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, listening
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.client.credentials import credentials_for, store_token
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"access": "on", "key_cache_seconds": 0.0})


@pytest.fixture
def registry(factory: Factory) -> Iterator[str]:
    """The address of a registry."""
    with listening(factory) as address:
        yield address


@pytest.fixture
def key(factory: Factory) -> Callable[[str], Credentials]:
    return lambda grant: factory.keys().create("test", read_grants([grant]), "cli:test")


@ON_SQLITE
def test_who_logged_in_needs_no_variable(
    tidegate: Run, contract: Path, registry: str, key: Callable[[str], Credentials], configuration: Path
) -> None:
    made = key("producer:hospital.")
    assert tidegate("whoami", "--registry", registry).returncode == 7
    ran = tidegate("login", "--registry", registry, stdin=f"{made.token}\n".encode())
    assert ran.returncode == 0
    assert ran.stdout.decode() == f"logged in to {registry} as key:{made.key_id} (producer:hospital.)\n"
    assert made.secret.encode() not in ran.stdout + ran.stderr
    path = configuration / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o700
    assert tidegate("publish", contract, "--registry", f"{registry}/").returncode == 0

    shown = json.loads(tidegate("whoami", "--registry", registry, "--format=json").stdout)
    assert shown == {"name": f"key:{made.key_id}", "grants": ["producer:hospital."], "access_control": True}

    assert tidegate("logout", "--registry", registry).stdout == f"logged out of {registry}\n".encode()
    assert json.loads(path.read_text()) == {"tokens": {}}
    assert tidegate("whoami", "--registry", registry).returncode == 7
    again = tidegate("logout", "--registry", registry)
    assert (again.returncode, again.stdout) == (0, f"no credentials are stored for {registry}\n".encode())


@ON_SQLITE
def test_a_rejected_key_is_not_stored(tidegate: Run, registry: str, configuration: Path) -> None:
    ran = tidegate("login", "--registry", registry, stdin=b"tgk_3f9c2a71b0de_wrong\n")
    assert ran.returncode == 7
    assert b"rejects the credentials of this login" in ran.stderr
    assert b"wrong\n" not in ran.stderr
    assert not configuration.exists()


@ON_SQLITE
def test_a_key_that_was_revoked_since_is_named(
    tidegate: Run, registry: str, key: Callable[[str], Credentials], factory: Factory
) -> None:
    made = key("viewer")
    tidegate("login", "--registry", registry, stdin=made.token.encode())
    factory.keys().revoke(made.key_id, "cli:test")
    ran = tidegate("whoami", "--registry", registry)
    assert ran.returncode == 7
    assert b"rejects the credentials of `tidegate login` (" in ran.stderr


@pytest.mark.parametrize("typed", [b"", b"\n", b"two words\n", "schl\u00fcssel\n".encode(), b"x" * 17_000])
def test_what_is_no_key_is_refused_before_it_is_sent(tidegate: Run, typed: bytes) -> None:
    ran = tidegate("login", "--registry", "http://127.0.0.1:9", stdin=typed)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"no key was given" in ran.stderr


@ON_SQLITE
def test_the_environment_has_priority(
    tidegate: Run, registry: str, key: Callable[[str], Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, of_environment = key("viewer"), key("admin")
    tidegate("login", "--registry", registry, stdin=stored.token.encode())
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", of_environment.token)
    assert of_environment.key_id.encode() in tidegate("whoami", "--registry", registry).stdout


@ON_SQLITE
def test_the_key_is_typed_unseen_on_a_terminal(
    registry: str, key: Callable[[str], Credentials], tmp_path: Path
) -> None:
    made = key("viewer")
    terminal, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm"}
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "login", "--registry", registry]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = b""
        while b"API key or token: " not in seen:
            seen += os.read(terminal, 4096)
        os.write(terminal, f"{made.token}\n".encode())
        while b"stored in" not in seen:
            seen += os.read(terminal, 4096)
        assert process.wait(60) == 0
    os.close(terminal)
    assert made.secret.encode() not in seen
    assert (tmp_path / ".config" / "tidegate" / "credentials.json").exists()


class TestTheFile:
    def test_a_token_is_for_one_address(self) -> None:
        store_token("https://Registry.example:443/path/", "secret")
        assert credentials_for("https://registry.example/path").token is not None
        for other in (
            "http://registry.example/path",
            "https://registry.example",
            "https://registry.example:8443/path",
        ):
            assert credentials_for(other).token is None

    def test_one_that_others_can_read_is_refused(self) -> None:
        path = store_token("https://a", "secret")
        path.chmod(0o644)
        with pytest.raises(SettingsError, match=r"mode 644\): chmod 600"):
            credentials_for("https://a")

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"tokens": 1}', '{"tokens": {"https://a": 1}}'])
    def test_one_that_is_not_ours_is_refused(self, content: str) -> None:
        store_token("https://a", "secret").write_text(content)
        with pytest.raises(SettingsError, match="log in again"):
            credentials_for("https://a")

    def test_a_folder_that_cannot_be_written_is_named(self, configuration: Path) -> None:
        configuration.parent.mkdir()
        configuration.write_text("a file")
        with pytest.raises(SettingsError, match=r"credentials\.json"):
            store_token("https://a", "secret")


def test_an_unencrypted_address_is_warned_of(tidegate: Run) -> None:
    ran = tidegate("login", "--registry", "http://registry.example", stdin=b"")
    assert b"warning: http://registry.example is not encrypted" in ran.stderr


class TestWithoutAccessControl:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        return settings.model_copy(update={"access": "off"})

    @ON_SQLITE
    def test_nothing_is_stored(self, tidegate: Run, registry: str, configuration: Path) -> None:
        ran = tidegate("login", "--registry", registry, stdin=b"anything\n")
        assert ran.returncode == 0
        assert b"nothing was stored" in ran.stdout
        assert not configuration.exists()
        assert b"every user may do everything" in tidegate("whoami", "--registry", registry).stdout
