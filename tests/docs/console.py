"""Runs what a page shows: files with a title are written, commands after `$` are run, their output is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r'```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)```', re.DOTALL)


@dataclass(frozen=True)
class File:
    """A file that the page shows with its name."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line after `$`, and what the page says that it prints; `...` stands for anything."""

    line: str
    output: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.output).replace(re.escape("..."), ".*"), re.DOTALL)


def steps(page: Path) -> Iterator[File | Command]:
    """Yield the files and commands of a page, in its order."""
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        if block["title"]:
            yield File(block["title"], block["text"])
        elif block["language"] == "console":
            for shown in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                line, _, output = shown.partition("\n")
                yield Command(line, output.rstrip("\n"))


class Terminal:
    """A folder in which steps are carried out. `said` replaces what the page calls otherwise, such as ports."""

    def __init__(self, folder: Path, said: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._said = dict(said or {})
        self._last_code = 0
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }

    def do(self, step: File | Command, *, within_seconds: float = 0) -> None:
        """Carry out a step. A command that prints otherwise is run again until the time is over."""
        if isinstance(step, File):
            path = self.folder / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.translated(step.text), "utf-8")
            return
        deadline = time.monotonic() + within_seconds
        printed = self.run(step.line)
        while not step.pattern.fullmatch(printed) and time.monotonic() < deadline:
            printed = self.run(step.line)
        assert step.pattern.fullmatch(printed), f"$ {step.line}\n{printed}"

    def run(self, line: str) -> str:
        """Return what a command prints on both streams, without the last line end."""
        script = f"(exit {self._last_code})\n{self.translated(line)}"
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self._last_code = ran.returncode
        return ran.stdout.rstrip("\n")

    def translated(self, text: str) -> str:
        """Return what the page says in the words of this terminal."""
        for shown, real in self._said.items():
            text = text.replace(shown, real)
        return text
