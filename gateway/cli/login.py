"""`tidegate login`, `logout` and `whoami`: the credentials that the command line presents to a registry."""

from __future__ import annotations

import json
import sys
from getpass import getpass
from typing import Any

import httpx
import typer

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.options import DEFAULT_REGISTRY, OutputFormat, RegistryUrl
from tidegate.gateway.cli.terminal import err, say
from tidegate.gateway.client.credentials import forget_token, of_token, store_token
from tidegate.gateway.client.registry import LOOPBACK, RegistryClient

_LONGEST_TOKEN = 16_384


def login(*, registry: RegistryUrl = DEFAULT_REGISTRY) -> None:
    """Store an API key or a token for a registry, after the registry accepted it.

    Asks for the key without showing it; from a pipe, reads its first line. The
    key is stored in the user's configuration folder, in a file that only this
    user can read (mode 0600), and sent to this URL only. Commands use it if no
    TIDEGATE_REGISTRY_ variable has credentials. The job and the commands that
    need Spark read the variables only.

    Examples:
      tidegate login --registry https://registry.example
      tidegate login < key.txt

    Exit codes: 0 stored, or the registry asks for no credentials; 2 an invalid
    URL, or no key was given; 3 the registry does not answer; 7 the registry
    rejects the key.
    """
    _warn_unencrypted(registry)
    token = _read_token()
    with RegistryClient(registry, of_token(token, "this login")) as client:
        found = client.whoami()
    if not found["access_control"]:
        say(f"{registry} asks for no credentials (access control is off); nothing was stored")
        return
    path = store_token(registry, token)
    say(f"logged in to {registry} as {_described(found)}")
    err.print(f"stored in {path}")


def logout(*, registry: RegistryUrl = DEFAULT_REGISTRY) -> None:
    """Delete the stored credentials of a registry from this machine.

    The key stays valid; `tidegate keys revoke` revokes it.

    Examples:
      tidegate logout --registry https://registry.example

    Exit codes: 0 deleted, or there were none; 2 the file cannot be read.
    """
    found = forget_token(registry)
    say(f"logged out of {registry}" if found else f"no credentials are stored for {registry}")


def whoami(*, registry: RegistryUrl = DEFAULT_REGISTRY, output_format: OutputFormat = "text") -> None:
    """Show the principal and the roles of your credentials.

    Uses the credentials that other commands would use: of the environment, or
    those that `tidegate login` stored.

    Examples:
      tidegate whoami
      tidegate whoami --registry https://registry.example --format json

    Exit codes: 0 shown; 2 an invalid URL; 3 the registry does not answer; 7 the
    credentials are missing or rejected.
    """
    with RegistryClient(registry) as client:
        found = client.whoami()
    if output_format == "json":
        typer.echo(json.dumps(found))
        return
    say(_described(found))
    if not found["access_control"]:
        say("the registry asks for no credentials: every user may do everything")


def _described(found: dict[str, Any]) -> str:
    return f"{found['name']} ({', '.join(found['grants']) or 'no role'})"


def _read_token() -> str:
    # Not typer.prompt: it turns off the echo only after its prompt, so a key that is pasted early is shown.
    is_typed = sys.stdin.isatty()
    text = getpass("API key or token: ") if is_typed else sys.stdin.readline(_LONGEST_TOKEN + 1)
    token = text.strip()
    if (
        not token
        or len(token) > _LONGEST_TOKEN
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise SettingsError(
            f"no key was given: type it at the prompt, or pipe one line of at most {_LONGEST_TOKEN:,} printable ASCII "
            "characters, such as a key of `tidegate keys create`"
        )
    return token


def _warn_unencrypted(registry: str) -> None:
    try:
        url = httpx.URL(registry)
    except httpx.InvalidURL as error:
        raise SettingsError(f"{registry} is not the URL of a registry: {error}") from error
    if url.scheme == "http" and url.host not in LOOPBACK:
        err.print(
            f"warning: {registry} is not encrypted, so others on the network can read the key; use https"
        )
