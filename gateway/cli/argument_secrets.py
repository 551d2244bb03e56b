"""Refuse secrets in the arguments of a command: every user of the machine can list them while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.contracts.address_secrets import holds_secret
from tidegate.contracts.errors import SettingsError

_REGISTRY: Final = "TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD, or TIDEGATE_REGISTRY_TOKEN"
_VARIABLES: Final = {
    "--database-url": "TIDEGATE_DATABASE_URL",
    "--registry": _REGISTRY,
    "--against": _REGISTRY,
}
"""The environment variables to set instead, by the option that takes the URL."""


def refuse_secrets(arguments: Sequence[str]) -> None:
    """Raise SettingsError for a URL with a secret. The message names the variable to set, but not the URL."""
    option = ""
    for argument in arguments:
        name, _, value = argument.partition("=") if argument.startswith("--") else (option, "", argument)
        if holds_secret(value):
            what = f"the address after {name}" if name else "an address among the arguments"
            instead = _VARIABLES.get(name, "the variable TIDEGATE_... of that setting")
            raise SettingsError(
                f"{what} holds a password or a token, which every user of this machine can read in the list of processes: "
                f"set {instead} instead, and change the secret if others use this machine"
            )
        option = argument if argument.startswith("--") else ""
