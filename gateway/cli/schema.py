"""`tidegate schema`: what an editor needs to help with contracts."""

from __future__ import annotations

from importlib.resources import files

import typer


def schema() -> None:
    """Print the JSON Schema of contract documents, for editors.

    Editors with a YAML language server complete and check a contract with this
    first line:

      # yaml-language-server: $schema=tidegate-v1.schema.json

    Examples:
      tidegate schema > tidegate-v1.schema.json
    """
    typer.echo((files("tidegate.schemas") / "meta" / "tidegate-v1.schema.json").read_text("utf-8"), nl=False)
