"""Write the parts of the reference that the code knows: `python -m docs.generate`, with `--check` to compare only.

A page marks such a part with two comments, `<!-- generated: NAME -->` and `<!-- end -->`; all else is written by hand.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from docs.log_events import MEANINGS as EVENTS
from tidegate.contracts.compatibility.weakening import CODES as WEAKENINGS
from tidegate.contracts.document import model
from tidegate.contracts.document.rule_model import Condition, Rule
from tidegate.contracts.stream.kafka_connection import KafkaSettings
from tidegate.gateway import exits
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.access.rules import RULES, AccessRule, Reach
from tidegate.gateway.access.settings import AccessSettings
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.checks.codes import MEANINGS as CODES
from tidegate.gateway.cli.verbs import GROUP, VERBS, command_of
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.settings import GatewaySettings
from tidegate.spark_jobs.settings import JobSettings, SparkSettings

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "docs"
_PART = re.compile(r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
_PARTS_OF_A_CONTRACT = (
    model.DataContract,
    model.Team,
    model.JsonSchema,
    model.AvroSchema,
    model.Column,
    model.ReferenceSet,
    model.Expectation,
    model.ErrorBudget,
    model.Consumer,
)
_TYPES: Final[dict[type, str]] = {
    str: "text",
    SecretStr: "text",
    Path: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    dict: "object",
}
_HEADER_MODULES = ("contracts/stream/evidence.py",)


def main() -> int:
    """Write every page that is not current; with `--check` name them. Return the exit code."""
    stale = [(page, text) for page, text in current_pages() if page.read_text("utf-8") != text]
    for page, text in stale:
        if "--check" in sys.argv:
            sys.stderr.write(f"{page.relative_to(ROOT)} is not current: run 'make generate'\n")
        else:
            page.write_text(text, "utf-8")
    return 1 if stale and "--check" in sys.argv else 0


def current_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with generated parts, and what it should hold."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text("utf-8")
        if _PART.search(text):
            yield page, _PART.sub(_filled, text)


def _filled(found: re.Match[str]) -> str:
    body = "\n".join(_WRITERS[found["name"]]()).strip("\n")
    return f"{found['begin']}\n{body}\n\n{found['end']}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"
    yield ""


def _cell(text: str) -> str:
    """Return text for one cell: `<` outside of code would be HTML, and a bar would end the cell."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part[:1] == "`" else part.replace("<", "&lt;") for part in parts).replace(
        "|", r"\|"
    )


def _code(value: object) -> str:
    return f"`{value}`" if value not in {None, ""} else ""


# Contracts


def _contract_fields() -> Iterator[str]:
    for part in _PARTS_OF_A_CONTRACT:
        title = "The document" if part is model.DataContract else f"`{_place_of(part)}`"
        yield from (f"### {title}", "", _first_sentences(part), "")
        yield from _fields(part)


def _place_of(part: type[BaseModel]) -> str:
    """Return where in the document a part stands."""
    if part in (model.JsonSchema, model.AvroSchema):
        return f"schema, type {get_args(part.model_fields['type'].annotation)[0]}"
    for name, field in model.DataContract.model_fields.items():
        if part in _models(field.annotation):
            return field.alias or name
    raise LookupError(part)


def _models(annotation: Any) -> set[Any]:
    return {annotation}.union(*map(_models, get_args(annotation)))


def _rule_kinds() -> Iterator[str]:
    kinds = get_args(get_args(Rule)[0])
    common = set.intersection(*(set(kind.model_fields) for kind in kinds)) - {"kind"}
    yield from ("### Fields of every rule", "")
    yield from _fields(kinds[0], only=common)
    for kind in kinds:
        name = get_args(kind.model_fields["kind"].annotation)[0]
        yield from (f"### `{name}`", "", _first_sentences(kind), "")
        yield from _fields(kind, only=set(kind.model_fields) - common - {"kind"})
    yield from ("### `when` of `required_when`", "", _first_sentences(Condition), "")
    yield from _fields(Condition)


def _first_sentences(part: type) -> str:
    """Return the first paragraph of a docstring, a sentence a line."""
    paragraph = inspect.cleandoc(part.__doc__ or "").partition("\n\n")[0]
    return re.sub(r"(?<=[.;]) (?=[A-Z])", "\n", " ".join(paragraph.split()))


def _fields(part: type[BaseModel], only: set[str] | None = None) -> Iterator[str]:
    rows = []
    for name, field in part.model_fields.items():
        if only is None or name in only:
            told = " ".join(filter(None, (field.description or "", _examples(field))))
            rows.append((_code(field.alias or name), _type(field.annotation), _default(field), told))
    yield from _table(("field", "type", "default", "meaning"), rows)


def _examples(field: FieldInfo) -> str:
    examples = (_code(str(each).replace("'", '"')) for each in field.examples or ())
    joined = ", ".join(examples)
    return f"For example {joined}." if joined else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default in ((), {}):
        return ""
    return _code(_plain(default))


def _plain(value: Any) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Enum():
            return str(value.value)
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case int() | float():
            return str(value).removesuffix(".0")
        case _:
            return str(value)


def _type(annotation: Any) -> str:
    """Return a type as an author writes it: text, number, one of these words, list, object."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(_code(each).replace("True", "true") for each in arguments)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if origin in (dict, Mapping):
        return "object"
    return _one_of(arguments) if arguments else _plain_type(annotation)


def _one_of(arguments: tuple[Any, ...]) -> str:
    kinds = dict.fromkeys(_type(each) for each in arguments if each is not type(None))
    if {"text", "number", "true or false"} <= kinds.keys():
        return "scalar"
    return " or ".join(kind for kind in kinds if kind != "integer" or "number" not in kinds)


def _plain_type(annotation: Any) -> str:
    match annotation:
        case type() if issubclass(annotation, Enum):
            return ", ".join(_code(each.value) for each in annotation)
        case type() if issubclass(annotation, BaseModel):
            return "object"
        case type() if annotation in _TYPES:
            return _TYPES[annotation]
    return "anything" if annotation is Any else ""


# Command line


def _command_line() -> Iterator[str]:
    panels: dict[str, list[tuple[str, str, str | None]]] = defaultdict(list)
    for verb in VERBS:
        panels[verb.panel].append((verb.name, verb.group or verb.target, verb.extra))
    for found in sorted(entry_points(group=GROUP)):
        panels["Running"].append((found.name, f"{found.module}:{found.attr}", next(iter(found.extras), None)))
    for panel, verbs in panels.items():
        yield from (f"## {panel}", "")
        for name, target, extra in verbs:
            yield from _verb(name, command_of(name, resolve_name(target)), 3)
            if extra is not None:
                yield from (f"Needs the libraries of `tidegate[{extra}]`.", "")


def _verb(name: str, command: Any, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} tidegate {name}", "")
    yield from _help(inspect.cleandoc(command.help or ""))
    rows = [
        (_code(_spelling(each)), _default_of(each), each.help or "")
        for each in command.params
        if getattr(each, "help", None) and not getattr(each, "hidden", False) and each.name != "help"
    ]
    if rows:
        yield from _table(("argument or option", "default", "meaning"), rows)
    for inner, verb in getattr(command, "commands", {}).items():
        yield from _verb(f"{name} {inner}", verb, level + 1)


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return ", ".join((*parameter.opts, *parameter.secondary_opts))


def _default_of(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    default = parameter.default
    return "" if callable(default) or default in (None, False, (), []) else _code(_plain(default))


def _help(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: examples become code, exit codes a list, sentences lines."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"\[/?[a-z]+\]", "", text.replace("\b", ""))):
        head, _, rest = paragraph.partition("\n")
        if head.strip() in {"Examples:", "Example:"}:
            yield from ("```", inspect.cleandoc("\n" + rest), "```", "")
        elif head.startswith("Exit codes: "):
            codes = " ".join(paragraph.split()).removeprefix("Exit codes: ").removesuffix(".").split("; ")
            yield from (
                "Exit codes:",
                "",
                *(re.sub(r"^(\d+(?: or \d+)?) ", r"* \1: ", code) for code in codes),
                "",
            )
        else:
            yield from (re.sub(r"(?<=[.]) (?=[A-Z`]|--)", "\n", " ".join(paragraph.split())), "")


def _exit_codes() -> Iterator[str]:
    rows = [(str(int(code)), meaning) for code, meaning in exits.MEANINGS.items()]
    yield from _table(("code", "meaning"), rows)


# Settings


def _settings(which: type[BaseModel], without: Sequence[type[BaseModel]] = ()) -> Iterator[str]:
    inherited = {name for each in without for name in each.model_fields}
    rows = [
        (_code(f"TIDEGATE_{name.upper()}"), _type(field.annotation), _default(field), field.description or "")
        for name, field in which.model_fields.items()
        if name not in inherited
    ]
    yield from _table(("variable", "type", "default", "meaning"), rows)


# HTTP API


def _http_api() -> Iterator[str]:
    with _factory() as factory:
        document = create_app(factory).openapi()
    roles = {**RULES, **{(one.method, one.path): one.rule for one in OPERATIONS}}
    operations: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            role = _role(roles[method.upper(), path])
            operations[found["tags"][0]].append((_code(f"{method.upper()} {path}"), role, found["summary"]))
    told = {tag["name"]: tag["description"] for tag in document["tags"]}
    for tag, rows in operations.items():
        yield from (f"### {tag}", "", told.get(tag, ""), "")
        yield from _table(("operation", "role", "what it does"), rows)


def _role(rule: AccessRule) -> str:
    if rule.reach is Reach.NOBODY_ASKED:
        return ""
    return _code(rule.role.word) + " of everything" * (rule.reach is Reach.EVERYWHERE)


def _desk_roles() -> Iterator[str]:
    rows = [
        (_code(f"{method} {path}"), _role(rule)) for (method, path), rule in RULES.items() if "/desk" in path
    ]
    yield from _table(("operation", "role"), [row for row in rows if row[1]])


class _factory:  # noqa: N801 - used like a function
    """A gateway over an empty database, in a folder that is removed."""

    def __enter__(self) -> Factory:
        self._folder = tempfile.TemporaryDirectory()
        url = SecretStr(f"sqlite:///{self._folder.name}/registry.db")
        self._made = Factory(GatewaySettings(database_url=url))
        self._made.database.migrate()
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.close()
        self._folder.cleanup()


def _metrics() -> Iterator[str]:
    with _factory() as factory:
        families = list(factory.stream_metrics(ANONYMOUS).collect())
    rows = []
    for each in families:
        suffix = "_total" if each.type == "counter" else ""
        labels = ", ".join(getattr(each, "_labelnames", ()))
        rows.append((_code(each.name + suffix), each.type, labels, each.documentation))
    yield from _table(("metric", "type", "labels", "meaning"), rows)


def _log_events() -> Iterator[str]:
    found: dict[str, tuple[str, str, set[str]]] = {}
    for part in ("gateway", "spark_jobs"):
        for path in sorted((ROOT / part).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                if event := _event(call):
                    name, level, fields = event
                    known = found.setdefault(name, (part, level, set()))
                    known[2].update(fields)
    if found.keys() != EVENTS.keys():
        raise SystemExit(f"docs/log_events.py: add or remove {sorted(found.keys() ^ EVENTS.keys())}")
    for part, title in (("gateway", "Registry"), ("spark_jobs", "Job")):
        yield from (f"## {title}", "")
        rows = [
            (_code(name), level, ", ".join(map(_code, sorted(fields))), EVENTS[name])
            for name, (where, level, fields) in sorted(found.items())
            if where == part
        ]
        yield from _table(("event", "level", "fields", "meaning"), rows)


def _event(call: ast.AST) -> tuple[str, str, list[str]] | None:
    """Read `log.info("event", name=...)`; None for any other node."""
    match call:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Name(id="log" | "_log"), attr="info" | "warning" | "error" | "exception" as level
            ),
            args=[ast.Constant(value=str(name))],
            keywords=keywords,
        ):
            level = {"exception": "error"}.get(level, level)
            return name, level, [each.arg for each in keywords if each.arg not in {None, "exc_info"}]  # type: ignore[misc] # None is left out
    return None


def _kafka_headers() -> Iterator[str]:
    rows = []
    for module in _HEADER_MODULES:
        body = ast.parse((ROOT / module).read_text("utf-8")).body
        for node, after in pairwise(body):
            match node, after:
                case (
                    ast.Assign(targets=[ast.Name(id=constant)], value=ast.Constant(value=str(name))),
                    ast.Expr(value=ast.Constant(value=str(told))),
                ) if constant.endswith("_HEADER"):
                    rows.append((_code(name), told))
    yield from _table(("header", "value"), rows)


def _finding_codes() -> Iterator[str]:
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for code, meaning in CODES.items():
        groups[code.partition(".")[0]].append((_code(code), meaning))
    for group, rows in groups.items():
        yield from (f"## {group}", "")
        yield from _table(("code", "meaning"), rows)


def _weakening_codes() -> Iterator[str]:
    yield from _table(("code", "meaning"), [(_code(code), meaning) for code, meaning in WEAKENINGS.items()])


_WRITERS: Final = {
    "contract-fields": _contract_fields,
    "rule-kinds": _rule_kinds,
    "command-line": _command_line,
    "exit-codes": _exit_codes,
    "settings-registry": lambda: _settings(GatewaySettings, (AccessSettings, AlertSettings, KafkaSettings)),
    "settings-access": lambda: _settings(AccessSettings),
    "settings-alerts": lambda: _settings(AlertSettings),
    "settings-kafka": lambda: _settings(KafkaSettings),
    "settings-spark": lambda: _settings(SparkSettings),
    "settings-job": lambda: _settings(JobSettings, (KafkaSettings, SparkSettings)),
    "http-api": _http_api,
    "desk-roles": _desk_roles,
    "metrics": _metrics,
    "log-events": _log_events,
    "kafka-headers": _kafka_headers,
    "finding-codes": _finding_codes,
    "weakening-codes": _weakening_codes,
}

if __name__ == "__main__":
    raise SystemExit(main())
