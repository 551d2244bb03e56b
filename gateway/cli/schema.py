"""`tidegate schema`: the JSON Schema of contracts, for editors."""

from __future__ import annotations

from importlib.resources import files

import typer


def schema() -> None:
    """Print the JSON Schema of contract documents, for editors.

    With this first line in a contract, an editor with a YAML language server
    completes and validates it:

      # yaml-language-server: $schema=tidegate-v1.schema.json

    Examples:
      tidegate schema > tidegate-v1.schema.json

    Exit codes: 0 printed.
    """
    typer.echo((files("tidegate.schemas") / "meta" / "tidegate-v1.schema.json").read_text("utf-8"), nl=False)
