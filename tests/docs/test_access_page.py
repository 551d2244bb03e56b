"""The page about access: its commands exist, its settings are complete, its matrix is the one that is enforced."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE, RULES, Reach
from tidegate.gateway.access.settings import AccessSettings
from tidegate.gateway.cli import audit, keys
from tidegate.gateway.http.confluent.operations import OPERATIONS

PAGE = Path("docs/access.md").read_text("utf-8")
LINES = [line for block in re.findall(r"```\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
COMMANDS = [
    shlex.split(line.partition(">")[0])[1:]
    for line in LINES
    if line.startswith(("tidegate keys", "tidegate audit"))
]
MATRIX = re.findall(
    r"^\| `([a-z]+)`( of everything)? \| [^|]+ \| ([^|]+) \|$",
    PAGE[PAGE.index("| `viewer` |") :].partition("\n\n")[0],
    flags=re.MULTILINE,
)
ALL_RULES = {**RULES, **{(one.method, one.path): one.rule for one in OPERATIONS}}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_is_one(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.jsonl").touch()
    group = get_command({"keys": keys.app, "audit": audit.app}[words[0]])
    verb = group.commands[words[1]]  # type: ignore[attr-defined]  # several commands make a group
    assert verb.make_context(words[1], words[2:]) is not None


def test_every_setting_is_on_the_page_and_no_other() -> None:
    named = set(re.findall(r"^\| `TIDEGATE_(\w+)` \|", PAGE, flags=re.MULTILINE))
    assert named == {name.upper() for name in AccessSettings.model_fields}


def test_the_matrix_is_the_one_that_is_enforced() -> None:
    checked = 0
    for word, everything, operations in MATRIX:
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", operations):
            rule = ALL_RULES[method, path]
            assert rule.role is Role[word.upper()], (method, path)
            assert (rule.reach is Reach.EVERYWHERE) == bool(everything), (method, path)
            checked += 1
    assert checked > 20
    assert {word for word, _, _ in MATRIX} == {role.word for role in Role}


def test_every_operation_that_changes_something_stands_in_the_matrix() -> None:
    named = {
        (method, path)
        for _, _, operations in MATRIX
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", operations)
    }
    changing = {key for key, rule in NATIVE.items() if rule.role > Role.VIEWER}
    assert changing - named == set()
