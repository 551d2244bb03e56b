"""The reference is that of the code, and every command of every page is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from docs.generate import current_pages
from tidegate.gateway.cli.verbs import GROUP, VERBS, command_of

PAGES = [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]
TARGETS = {
    **{verb.name: verb.group or verb.target for verb in VERBS},
    **{found.name: f"{found.module}:{found.attr}" for found in entry_points(group=GROUP)},
}
SETTINGS = Path("docs/reference/settings.md").read_text("utf-8")
OF_PROCESSES = {"TIDEGATE_PROCESS_TOKEN", "TIDEGATE_COMPLETE"}
"""Variables that processes of ours give each other."""
FILES = (
    "contract.yaml",
    "orders.odcs.yaml",
    "schema.yml",
    "records.jsonl",
    "person.txt",
    "topics.yaml",
    "audit.jsonl",
    "suite.json",
    "old.yaml",
    "new.yaml",
)


def test_exit_codes_are_items_of_a_list() -> None:
    page = Path("docs/reference/cli.md").read_text("utf-8")
    lists = [part.partition("\n\n#")[0] for part in page.split("Exit codes:\n\n")[1:]]
    items = [line for part in lists for line in part.partition("\n\n")[0].splitlines()]
    assert len(items) > 100
    assert [each for each in items if not re.match(r"\* \d+( or \d+)?: ", each)] == []


def test_every_generated_part_is_current() -> None:
    pages = list(current_pages())
    assert len(pages) >= 10
    assert [str(page) for page, text in pages if page.read_text("utf-8") != text] == []


def test_every_variable_of_the_code_is_a_setting() -> None:
    sources = [path for part in ("contracts", "gateway", "spark_jobs") for path in Path(part).rglob("*.py")]
    named = {
        name for path in sources for name in re.findall(r"\bTIDEGATE_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))
    }
    explained = set(re.findall(r"`(TIDEGATE_[A-Z_]+)`", SETTINGS))
    assert len(named) > 15
    assert (
        sorted(name for name in named - OF_PROCESSES if not any(each.startswith(name) for each in explained))
        == []
    )


def test_every_path_of_the_code_is_there() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    roots = "contracts|gateway|spark_jobs|schemas|tests|docs|benchmarks|docker"
    named = set(re.findall(rf"`((?:{roots})/[A-Za-z0-9_./-]*)`", text))
    assert len(named) > 30
    assert sorted(name for name in named if not Path(name).exists()) == []


def commands() -> Iterator[str]:
    """Yield each command line of `tidegate` in a block of code."""
    for page in PAGES:
        for block in re.findall(
            r"^```(?:console)?\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(
                    r"^\s*(?:\$ )?(?:[A-Z_]+=(?:\"[^\"]*\"|\S+) +)*(tidegate [a-z][a-z-]+( .*)?)$", line
                )
                if found and "..." not in found[1]:
                    yield found[1]


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_each_command_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    shown = re.split(r" (?:>>?|<|\|) ", line)[0].replace("contracts/*.yaml", "contract.yaml")
    words = shlex.split(shown, comments=True)[1:]
    verb = words.pop(0)
    command: Any = command_of(verb, resolve_name(TARGETS[verb]))
    while hasattr(command, "commands") and words:
        command = command.commands[words.pop(0)]
    with command.make_context("tidegate", words) as context:  # closes the files that options open
        assert context.command is command
