"""Refuses secrets among the arguments of a command: every user of the machine can list them while it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from contracts.errors import SettingsError

_USER_AND_PASSWORD: Final = re.compile(r"^[A-Za-z][\w+.:-]*://[^/?#@:]*:(?![0-9]*([/?#]|$))[^@]*@")
"""A URL with `user:password@`; what is a port, with a path behind it, is no password."""
_PARAMETER: Final = re.compile(
    r"^[A-Za-z][\w+.:-]*://.*[?&;](\w*password|passwd|pwd|\w*secret|\w*token)=[^&;]", re.IGNORECASE
)
_VARIABLES: Final = {
    "--database-url": "TIDEGATE_DATABASE_URL",
    "--registry": "TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD, or TIDEGATE_REGISTRY_TOKEN",
    "--against": "TIDEGATE_REGISTRY_USER and TIDEGATE_REGISTRY_PASSWORD, or TIDEGATE_REGISTRY_TOKEN",
}
"""What to set instead, by the option that has the URL."""


def refuse_secrets(arguments: Sequence[str]) -> None:
    """Raise SettingsError for a URL with a password; the message names the variable to set, and never the URL."""
    option = ""
    for argument in arguments:
        name, _, value = argument.partition("=") if argument.startswith("--") else (option, "", argument)
        if _USER_AND_PASSWORD.search(value) or _PARAMETER.search(value):
            what = f"the address after {name}" if name else "an address among the arguments"
            instead = _VARIABLES.get(name, "the variable TIDEGATE_... of that setting")
            raise SettingsError(
                f"{what} holds a password, which every user of this machine can read in the list of processes: set "
                f"{instead} instead, and change the password if others use this machine"
            )
        option = argument if argument.startswith("--") else ""
