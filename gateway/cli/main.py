"""The entry point of the command `tidegate`, and its handling of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from rich.text import Text
from typer.main import get_command

from tidegate.contracts.crash import chain_of, described
from tidegate.contracts.errors import TidegateError
from tidegate.gateway.cli.argument_secrets import refuse_secrets
from tidegate.gateway.cli.options import HELP
from tidegate.gateway.cli.terminal import err, print_in_any_encoding, show_error
from tidegate.gateway.cli.usage_errors import refuse_empty
from tidegate.gateway.cli.verbs import VerbGroup
from tidegate.gateway.exits import MEANINGS, ExitCode, exit_code

_EPILOG = "[bold]Exit codes[/]\n" + "\n".join(f"{code:>3}  {meaning}" for code, meaning in MEANINGS.items())

app = typer.Typer(
    cls=VerbGroup, rich_markup_mode="rich", no_args_is_help=True, epilog=_EPILOG, context_settings=HELP
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer passes a flag's value
    if requested:
        typer.echo(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def tidegate(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Enforce data contracts on Kafka streams: every record judged, every offset accounted for.

    Try it:            tidegate demo
    Write a contract:  tidegate lint contract.yaml
    See what it does:  tidegate judge contract.yaml --data records.jsonl
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line, by default that of the process, and exit. Only a bug shows a traceback."""
    print_in_any_encoding()
    try:
        given = sys.argv[1:] if arguments is None else arguments
        refuse_secrets(given)
        refuse_empty(given)
        get_command(app).main(arguments, prog_name="tidegate")
    except TidegateError as error:
        show_error(error)
        sys.exit(exit_code(error))
    except Exception as error:  # noqa: BLE001 - the outermost edge: a bug must not end with the code of a finding
        # Without messages of other libraries, which may quote a record: users report this, and jobs log it.
        sys.stderr.writelines(f"Traceback: {described(each)}\n" for each in chain_of(error))
        message = " this is a bug in Tidegate; please report it with the lines above"
        err.print(Text.assemble(("error:", "bold red"), message))
        sys.exit(ExitCode.BUG)


if __name__ == "__main__":
    main()
