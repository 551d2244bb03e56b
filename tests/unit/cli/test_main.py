"""What holds for every verb: help, suggestions, exit codes, quiet ends."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import psutil
import pytest

from tests.marks import full
from tidegate.contracts.errors import (
    ConflictError,
    ContractError,
    CredentialsError,
    Fenced,
    NotFoundError,
    SettingsError,
    StreamStopped,
    TidegateError,
    Unavailable,
)
from tidegate.gateway.cli.usage_errors import choices_of
from tidegate.gateway.cli.verbs import VERBS, command_of
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.exits import MEANINGS, ExitCode, exit_code

from .conftest import Run


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ContractError.at("/id", "m"), 1),
        (ConflictError("m"), 1),
        (NotFoundError("m"), 2),
        (SettingsError("m"), 2),
        (CredentialsError("m"), 7),
        (Unavailable("m"), 3),
        (StreamStopped("m"), 4),
        (Fenced("m"), 5),
        (TidegateError("m"), 1),
    ],
)
def test_the_exit_code_of_an_error(error: TidegateError, expected: int) -> None:
    assert exit_code(error) == expected
    assert exit_code(pickle.loads(pickle.dumps(error))) == expected  # noqa: S301 - our own bytes


def test_help_names_every_verb_and_every_exit_code(process: Run) -> None:
    shown = process("--help")
    text = shown.stdout.decode()
    assert shown.returncode == 0
    assert [name for name in [verb.name for verb in VERBS] if f"│ {name} " not in text] == []
    assert [
        plugged.name for plugged in entry_points(group="tidegate.verbs") if plugged.name not in text
    ] == []
    assert [code for code in MEANINGS if f"{code:>4}  " not in text] == []
    assert process("-h").stdout == shown.stdout


ASCII = (
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
)


@pytest.mark.parametrize("env", [ASCII[0], *full(ASCII[1])], ids=["io", "locale"])
@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (("lint", "größe.yaml"), 0, rb".yaml: ok - shop.orders 1.0.0 - 1 rule"),
        (("lint", "wrong.yaml"), 1, rb"unknown key `gr\u00f6\u00dfe`"),
        (("judge", "größe.yaml", "--data", "records.jsonl"), 1, b"shop.orders 1.0.0 - 2 records judged"),
        (("diff", "größe.yaml", "next.yaml"), 0, rb"/gr\u00f6\u00dfe"),
        (("check", "next.yaml", "--against", "größe.yaml"), 1, rb"/gr\u00f6\u00dfe"),
        (("check", "next.yaml", "--against", "größe.yaml", "--format", "json"), 1, b"tidegate/check/v1"),
        (("export", "größe.yaml", "--to", "odcs"), 0, "größer als drei".encode()),
        (("infer", "records.jsonl", "--out", "made.yaml"), 0, rb"gr\u00f6\u00dfe"),
        (("--help",), 0, b"Enforce data contracts"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_terminal_of_ascii_shows_other_characters_escaped(
    process: Run, tmp_path: Path, env: dict[str, str], arguments: tuple[str, ...], code: int, shown: bytes
) -> None:
    rule = {"id": "x", "kind": "range", "field": "/größe", "minimum": 3, "description": "größer als drei"}
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "shop.orders",
        "version": "1.0.0",
        "topic": "shop.orders",
        "schema": {"type": "json-schema", "definition": {"properties": {"größe": {"type": "integer"}}}},
        "rules": [rule],
    }
    texts = {"type": "json-schema", "definition": {"properties": {"größe": {"type": "string"}}}}
    documents = {
        "größe.yaml": document,
        "wrong.yaml": document | {"größe": 1},
        "next.yaml": document | {"schema": texts, "version": "1.1.0", "rules": []},
    }
    for name, each in documents.items():
        (tmp_path / name).write_text(json.dumps(each, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "records.jsonl").write_text('{"größe": 2}\n{"größe": 5}\n', encoding="utf-8")
    here = [tmp_path / each if "." in each else each for each in arguments]
    ran = process(*here, env=env)
    assert ran.returncode == code, ran.stderr.decode()
    assert shown in ran.stdout + ran.stderr
    if "json" in arguments:
        assert "größe" in json.dumps(json.loads(ran.stdout), ensure_ascii=False)


def test_help_loads_neither_spark_nor_the_web_framework() -> None:
    program = (
        "import sys\n"
        "from tidegate.gateway.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'pyarrow', 'fastapi', 'sqlalchemy', 'pandas'} & sys.modules.keys()\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert ran.stderr == b"[]\n"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_overview_says_what_the_verb_says(verb: object) -> None:
    assert inspect.getdoc(resolve_name(verb.target)).partition("\n")[0] == verb.summary  # type: ignore[attr-defined, union-attr]  # a Verb


@pytest.mark.parametrize("name", [verb.name for verb in VERBS] + ["enforce"])
def test_every_verb_has_help(tidegate: Run, name: str) -> None:
    shown = tidegate(name, "--help")
    assert shown.returncode == 0
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", shown.stdout)  # some CI systems ask for colour
    assert f"Usage: tidegate {name} ".encode() in plain


def help_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield each verb that runs, without the groups that hold verbs."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for part, verb in inner.items():
        yield from help_of(f"{name} {part}", verb)


HELPS = dict(
    pair
    for name, target in [
        *((verb.name, verb.group or verb.target) for verb in VERBS),
        *((found.name, f"{found.module}:{found.attr}") for found in entry_points(group="tidegate.verbs")),
    ]
    for pair in help_of(name, command_of(name, resolve_name(target)))
)


@pytest.mark.parametrize("name", HELPS)
def test_help_has_examples_and_exit_codes_in_80_columns(name: str) -> None:
    text = inspect.cleandoc(HELPS[name].help).replace("\b", "")
    first, _, rest = text.partition("\n")
    assert first.endswith(".")
    assert rest.startswith("\n")
    assert "\nExamples:\n  " in text
    assert f"  tidegate {name}" in text
    assert "\nExit codes: 0 " in text
    assert max(map(len, text.splitlines())) <= 78  # the terminal takes a column at either side


@pytest.mark.parametrize("name", HELPS)
def test_help_fits_a_terminal_of_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is cut off, and no name of an option or of a value is broken at the end of a line."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    with pytest.raises(SystemExit):
        HELPS[name].main(["--help"], prog_name=f"tidegate {name}")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    words = set(re.findall(r"[\w-]+", shown))
    for parameter in HELPS[name].params:
        assert {option for option in parameter.opts if option.startswith("-")} <= words, parameter.name
        if parameter.name != "level":  # its help names the suffix of four of its values once
            assert set(choices_of(parameter)) <= words, parameter.name


@pytest.mark.parametrize("name", HELPS)
def test_json_is_asked_for_in_one_way(name: str) -> None:
    options = {option: parameter for parameter in HELPS[name].params for option in parameter.opts}
    assert "--json" not in options
    if "--format" in options:
        assert options["--format"].default == ("text" if name != "quarantine export" else "jsonl")


@pytest.mark.parametrize("name", HELPS)
def test_a_verb_that_asks_a_registry_says_what_rejected_credentials_do(name: str) -> None:
    asks = any({"--registry", "--subject"} & {*parameter.opts} for parameter in HELPS[name].params)
    text = " ".join(HELPS[name].help.split())
    assert ("; 7 " in text.partition("Exit codes:")[2]) == (asks and name != "logout")


@pytest.mark.parametrize("name", HELPS)
def test_no_option_takes_one_of_a_few_words_as_free_text(name: str) -> None:
    """A help text such as `append or upsert` belongs to a choice, which refuses another word at once."""
    for parameter in HELPS[name].params:
        closed = re.match(r"[a-z-]+(, [a-z-]+)* or [a-z-]+\b", getattr(parameter, "help", None) or "")
        if closed and parameter.name != "grant":
            assert choices_of(parameter), parameter.name


def without_frame(shown: bytes) -> str:
    """Return what is in a frame of the terminal as one line."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown.decode()).split())


@pytest.mark.parametrize("name", HELPS)
def test_a_wrong_value_is_named_with_its_option_and_the_values_that_are_taken(
    tidegate: Run, name: str
) -> None:
    """The same words for every option of every verb."""
    for parameter in HELPS[name].params:
        option = next((each for each in parameter.opts if each.startswith("--")), None)
        choices = choices_of(parameter)
        is_number = re.search(r"\b(int|float)\b", str(parameter.type_descriptor.annotation)) is not None
        if option is None or not (choices or is_number):
            continue
        ran = tidegate(*name.split(), option, "xyzzy")
        taken = (
            f"one of {', '.join(choices)}"
            if choices
            else r"a (whole )?number( of at (least|most) [\d.,]+| from [\d.,]+ to [\d.,]+)?"
        )
        assert ran.returncode == 2
        assert re.search(
            f"Invalid value for '{option}'.*: 'xyzzy' is not {taken}$", without_frame(ran.stderr)
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["judge", "--format", "jsno"], "'--format': 'jsno' is not one of text, json; did you mean json?"),
        (
            ["check", "--level", "x"],
            "'--level': 'x' is not one of NONE, BACKWARD, BACKWARD_TRANSITIVE, FORWARD",
        ),
        (["backtest", "--max-newly-refused", "5%"], "'5%' is not a number from 0 to 1; 5% is 0.05"),
        (["backtest", "--max-newly-refused", "7"], "'7' is not a number from 0 to 1"),
        (["judge", "--show", "-1"], "'-1' is not a whole number of at least 0"),
        (["mutate", "--mutants", "1001"], "'1001' is not a whole number from 1 to 1,000"),
        (["infer", ""], "error: the argument after infer is empty; is a variable of the shell not set?"),
        (["judge", "c.yaml", "--data", ""], "error: the argument after --data is empty"),
        (["backtest", "c.yaml", "--data="], "error: --data is empty"),
        (["mutate", "c.yaml", "--data", ""], "error: the argument after --data is empty"),
    ],
)
def test_a_wrong_argument_says_what_is_taken(tidegate: Run, arguments: list[str], message: str) -> None:
    ran = tidegate(*arguments)
    assert ran.returncode == 2
    assert message in without_frame(ran.stderr)


def test_a_text_for_null_may_be_empty(tidegate: Run, contract: Path) -> None:
    assert tidegate("judge", contract, "--null", "", stdin=b'{"age": 1}').returncode == 0


@pytest.mark.parametrize("name", HELPS)
def test_no_help_holds_what_the_terminal_takes_for_markup(name: str) -> None:
    """Rich drops `[default: never]` as a tag; a default belongs into `show_default`."""
    assert [each.name for each in HELPS[name].params if "[" in (getattr(each, "help", None) or "")] == []


def test_version(process: Run) -> None:
    assert process("--version").stdout.decode() == f"tidegate {version('tidegate')}\n"


@pytest.mark.parametrize(("arguments", "expected"), [(["lnt"], "Did you mean 'lint'?"), (["lint"], "FILE")])
def test_wrong_usage_ends_with_2_on_standard_error(process: Run, arguments: list[str], expected: str) -> None:
    ran = process(*arguments)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert expected in ran.stderr.decode()


def test_a_reader_that_goes_away_ends_the_run_quietly(contract: Path, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_bytes(b'{"age": 1}\n' * 200_000)
    command = [
        sys.executable,
        "-m",
        "tidegate.gateway.cli.main",
        "judge",
        str(contract),
        "--data",
        str(records),
        "--format=json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"line":1,')
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (ExitCode.PIPE_CLOSED, b"")


def await_read(pid: int) -> None:
    """Wait until a process waits for what it reads: an interrupt just before is noted by Python, which reads all the same."""
    process = psutil.Process(pid)
    while process.status() != psutil.STATUS_SLEEPING:
        time.sleep(0.01)


def test_an_interrupt_ends_with_130_and_no_traceback(contract: Path) -> None:
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "judge", str(contract), "--format=json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"age": 1}\n')
        process.stdin.flush()
        # The verdict comes although the pipe stays open; after it the run waits for the next line.
        assert process.stdout.readline() == (
            b'{"line":1,"place":"line 1","disposition":"accepted","violations":[]}\n'
        )
        await_read(process.pid)
        process.send_signal(signal.SIGINT)
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (130, b"")


def test_a_bug_does_not_look_like_a_finding(
    tidegate: Run, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.gateway.cli.lint.lint_document", None)
    ran = tidegate("lint", contract)
    assert (ran.returncode, ran.stdout) == (ExitCode.BUG, b"")
    assert ran.stderr.startswith(b"Traceback")
    assert ran.stderr.endswith(b"this is a bug in Tidegate; please report it with the lines above\n")


def test_a_verb_that_cannot_be_loaded_does_not_spoil_the_overview(
    tidegate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidegate.gateway.cli.verbs.entry_points", lambda **_: [EntryPoint("ghost", "nowhere:run", "g")]
    )
    assert b"Not usable here: No module named 'nowhere'." in tidegate("--help").stdout
    ran = tidegate("ghost")
    assert ran.returncode == 2
    assert ran.stderr == b"error: `ghost` cannot be loaded: No module named 'nowhere'\n"


def test_the_job_gets_the_place_of_its_jars(
    tidegate: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TIDEGATE_SPARK_JARS", raising=False)
    monkeypatch.setattr("tidegate.gateway.embedded.jars.find_jars", lambda: None)
    tidegate("enforce", "--help")
    assert "TIDEGATE_SPARK_JARS" not in os.environ
    monkeypatch.setattr(
        "tidegate.gateway.embedded.jars.find_jars", lambda: Jars(tmp_path / "broker", tmp_path / "spark")
    )
    tidegate("enforce", "--help")
    assert os.environ.pop("TIDEGATE_SPARK_JARS") == str(tmp_path / "spark")


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_terminals_that_want_it(
    contract: Path, process: Run, env: dict[str, str], *, coloured: bool
) -> None:
    assert b"\x1b[3" not in process("lint", contract, env=env).stdout
    terminal, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "lint", str(contract)]
        plain = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TERM": "xterm-256color"}
        subprocess.run(command, stdout=theirs, env=plain | env, check=True, timeout=60)
        shown = os.read(terminal, 4096)
    finally:
        os.close(theirs)
        os.close(terminal)
    assert (b"\x1b[32mok" in shown) is coloured
