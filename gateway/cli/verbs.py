"""The verbs of `tidegate`, loaded only when they run, so that `tidegate --help` is fast.

VERBS lists the verbs of the gateway. Other packages (the job, plug-ins) add verbs in the entry-point group
`tidegate.verbs`: plain functions with typer annotations, in modules that are cheap to import. A verb that needs more
than `pip install tidegate` names its extra; an entry point does so in brackets.
"""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tidegate.contracts.collector import without_collector
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.options import HELP
from tidegate.gateway.cli.usage_errors import reword
from tidegate.gateway.exits import ExitCode

GROUP = "tidegate.verbs"

_BEGINNINGS = frozenset({"init", "new", "create", "generate", "profile", "discover"})
"""Names of the first command for beginners in other tools."""
_CONTRACTS = "Contracts"
_RUNNING = "Running"
_REGISTRY = "Registry"
_MACHINE = "This machine"


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: its name, the function that runs it as `module:function`, and its line in `tidegate --help`.

    `summary` repeats the first line of the function's docstring, because the overview does not load the function. For a
    verb with subcommands, `group` names their `typer.Typer`, and the function is its callback. `extra` is the extra of
    the distribution that installs the imports of the verb; None if the base installation has them.
    """

    name: str
    target: str
    summary: str
    panel: str
    group: str | None = None
    extra: str | None = None


VERBS = (
    Verb(
        "infer",
        "tidegate.gateway.cli.infer:infer",
        "Propose a contract from records that you have.",
        _CONTRACTS,
    ),
    Verb(
        "lint",
        "tidegate.gateway.cli.lint:lint",
        "Check that contract documents are valid.",
        _CONTRACTS,
    ),
    Verb(
        "check",
        "tidegate.gateway.cli.check:check",
        "Check contract changes for breaking changes before they are merged.",
        _CONTRACTS,
    ),
    Verb(
        "diff",
        "tidegate.gateway.cli.diff:diff",
        "Show the differences between two contracts and the affected consumers.",
        _CONTRACTS,
    ),
    Verb(
        "judge",
        "tidegate.gateway.cli.judge:judge",
        "Judge records by a contract, as the job does.",
        _CONTRACTS,
    ),
    Verb(
        "backtest",
        "tidegate.gateway.cli.backtest:backtest",
        "Judge existing records by a changed contract and by the version before it.",
        _CONTRACTS,
    ),
    Verb(
        "audit-table",
        "tidegate.gateway.cli.audit_table:audit_table",
        "Judge the rows of a table by a contract: its schema, rules and expectations.",
        _CONTRACTS,
    ),
    Verb(
        "mutate",
        "tidegate.gateway.cli.mutate:mutate",
        "Measure which corrupted records a contract would miss, and suggest rules.",
        _CONTRACTS,
    ),
    Verb(
        "publish",
        "tidegate.gateway.cli.publish:publish",
        "Publish contract versions to the registry, with their schema files.",
        _CONTRACTS,
    ),
    Verb(
        "promote",
        "tidegate.gateway.cli.shadow:promote",
        "Show what a draft would change; with --yes, enforce it.",
        _CONTRACTS,
    ),
    Verb(
        "approve",
        "tidegate.gateway.cli.approve:approve",
        "Approve a change that weakens an enforced contract, or list pending ones.",
        _CONTRACTS,
    ),
    Verb(
        "consumers",
        "tidegate.gateway.cli.consumers:consumers",
        "Manage the consumers of a contract, and acknowledge breaking changes.",
        _CONTRACTS,
        "tidegate.gateway.cli.consumers:app",
    ),
    Verb(
        "import",
        "tidegate.gateway.cli.exchange:import_",
        "Make a contract from a document of another format.",
        _CONTRACTS,
    ),
    Verb(
        "export",
        "tidegate.gateway.cli.exchange:export",
        "Write a contract in another format.",
        _CONTRACTS,
    ),
    Verb(
        "suite",
        "tidegate.gateway.cli.suite:suite",
        "Convert expectations to a suite of Great Expectations, or the reverse.",
        _CONTRACTS,
    ),
    Verb(
        "schema",
        "tidegate.gateway.cli.schema:schema",
        "Print the JSON Schema of contract documents, for editors.",
        _CONTRACTS,
    ),
    Verb(
        "login",
        "tidegate.gateway.cli.login:login",
        "Store an API key or a token for a registry, after the registry accepted it.",
        _REGISTRY,
    ),
    Verb(
        "logout",
        "tidegate.gateway.cli.login:logout",
        "Delete the stored credentials of a registry from this machine.",
        _REGISTRY,
    ),
    Verb(
        "whoami",
        "tidegate.gateway.cli.login:whoami",
        "Show the principal and the roles of your credentials.",
        _REGISTRY,
    ),
    Verb(
        "keys",
        "tidegate.gateway.cli.keys:keys",
        "Create, list and revoke API keys of a registry.",
        _REGISTRY,
        "tidegate.gateway.cli.keys:app",
        extra="registry",
    ),
    Verb(
        "audit",
        "tidegate.gateway.cli.audit:audit",
        "Export the audit log, or verify its hash chain.",
        _REGISTRY,
        "tidegate.gateway.cli.audit:app",
        extra="registry",
    ),
    Verb(
        "serve",
        "tidegate.gateway.cli.serve:serve",
        "Serve the registry and the desk until SIGTERM or Ctrl-C.",
        _RUNNING,
        extra="registry",
    ),
    Verb(
        "status", "tidegate.gateway.cli.status:status", "Show the state of all streams, or of one.", _RUNNING
    ),
    Verb(
        "problems",
        "tidegate.gateway.cli.quarantine:problems",
        "List the problems of a stream: what is refused, grouped by cause.",
        _RUNNING,
    ),
    Verb(
        "quarantine",
        "tidegate.gateway.cli.quarantine:quarantine",
        "List, show and export the refused records of a stream.",
        _RUNNING,
        "tidegate.gateway.cli.quarantine:app",
    ),
    Verb("pause", "tidegate.gateway.cli.streams:pause", "Pause a stream from its next batch on.", _RUNNING),
    Verb("resume", "tidegate.gateway.cli.streams:resume", "Resume a paused stream.", _RUNNING),
    Verb(
        "quarantine-record",
        "tidegate.gateway.cli.streams:quarantine_record",
        "Quarantine one record that stops its stream, without judging it.",
        _RUNNING,
    ),
    Verb(
        "shadow",
        "tidegate.gateway.cli.shadow:shadow",
        "Judge records also by another version, and only report its verdicts.",
        _RUNNING,
    ),
    Verb(
        "demo",
        "tidegate.gateway.cli.demo:demo",
        "Run a demo that enforces contracts on two streams and checks all counts.",
        _RUNNING,
        extra="demo",
    ),
    Verb(
        "up",
        "tidegate.gateway.cli.up:up",
        "Run broker, registry and enforcement on this machine.",
        _RUNNING,
        extra="demo",
    ),
    Verb(
        "send",
        "tidegate.gateway.cli.send:send",
        "Send the records of a file to the topic of a stream.",
        _RUNNING,
        extra="kafka",
    ),
    Verb(
        "topics",
        "tidegate.gateway.cli.topics:topics",
        "Create and update the topics of a Kafka cluster from a file.",
        _RUNNING,
        "tidegate.gateway.cli.topics:app",
        extra="kafka",
    ),
    Verb(
        "jars",
        "tidegate.gateway.cli.jars:jars",
        "Install the jars of broker and job, or check the installed ones.",
        _MACHINE,
    ),
    Verb(
        "doctor",
        "tidegate.gateway.cli.doctor:doctor",
        "Check this machine: versions, jars, ports, disk, memory, processes.",
        _MACHINE,
        extra="demo",
    ),
)


class VerbGroup(TyperGroup):
    """The command `tidegate`: it lists all verbs, and loads only the one that runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        plugged = [
            Verb(
                found.name, f"{found.module}:{found.attr}", "", _RUNNING, extra=next(iter(found.extras), None)
            )
            for found in entry_points(group=GROUP)
        ]
        for verb in (*VERBS, *plugged):
            self.add_command(_LazyCommand(verb))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the overview. Loads the verbs of other packages for their summaries."""
        for command in self.commands.values():
            command.help = command.help or _summary(command)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb. Raises SettingsError that points to `infer` for a name in _BEGINNINGS."""
        if args and args[0] in _BEGINNINGS:
            raise SettingsError(
                f"there is no command `{args[0]}`: `tidegate infer SOURCE` proposes a contract from records that you have, "
                "and `tidegate infer --help` has examples. To write one by hand, see docs/how-to/write-a-contract.md; "
                "`tidegate schema` prints the schema by which editors complete it"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. A closed pipe (`tidegate judge ... | head`) ends it without a message."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except typer.BadParameter as error:
            reword(error)
            raise
        except BrokenPipeError:
            # Discard the buffered output: Python would report an error for it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.PIPE_CLOSED) from None
        except ModuleNotFoundError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            if not isinstance(command, _LazyCommand) or command.verb.extra is None or _is_ours(error):
                raise
            raise SettingsError(f"`tidegate {command.name}` {_missing(command.verb.extra, error)}") from error
        return result


class _LazyCommand(TyperCommand):
    """A placeholder for a verb; it loads the real command when it parses the arguments."""

    def __init__(self, verb: Verb) -> None:
        super().__init__(name=verb.name, help=verb.summary, rich_help_panel=verb.panel)
        self.verb = verb

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the verb and parse its arguments. Raises SettingsError if the verb cannot be loaded."""
        if self.rich_help_panel == _RUNNING:
            _offer_jars()
        try:
            with without_collector():  # imports make many objects and hardly any cycles: a tenth of a start
                function = resolve_name(self.verb.group or self.verb.target)
        except ImportError as error:
            if self.verb.extra is not None and isinstance(error, ModuleNotFoundError):
                raise  # VerbGroup.invoke names the extra to install
            raise SettingsError(f"`{self.name}` cannot be loaded: {error}") from error
        return command_of(self.name or "", function).make_context(info_name, args, parent, **extra)


def command_of(name: str, found: Any) -> Any:
    """Return the command of a verb; `found` is its function, or the `typer.Typer` of its subcommands."""
    if isinstance(found, typer.Typer):
        return get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(name, context_settings=HELP)(found)
    return get_command(app)


def _offer_jars() -> None:
    """Point the job at the cached jars, unless other jars were chosen or the cache is empty."""
    jars = resolve_name("tidegate.gateway.embedded.jars:find_jars")()
    if jars is not None:
        os.environ.setdefault("TIDEGATE_SPARK_JARS", str(jars.spark_dir))


def _summary(command: Any) -> str:
    try:
        function = resolve_name(command.verb.target)
    except ImportError as error:
        missing = error if command.verb.extra is None else f"it {_missing(command.verb.extra, error)}"
        return escape(f"Not usable here: {missing}.")
    return inspect.getdoc(function) or ""


def _missing(extra: str, error: ImportError) -> str:
    module = (error.name or str(error)).partition(".")[0]
    return f"needs {module}, which is not installed: pip install 'tidegate[{extra}]'"


def _is_ours(error: ModuleNotFoundError) -> bool:
    return (error.name or "tidegate").partition(".")[0] == "tidegate"
