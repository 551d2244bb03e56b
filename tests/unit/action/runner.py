"""What GitHub's runner and its API do for the action, as far as the action sees them.

GitHub cannot run here. The steps of action.yml are run by the same shell with the same environment variables, in a
real git repository with a real merge commit. A local HTTP server stands for the API of comments: it stores them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tidegate.contracts.document.yaml_source import read_yaml

ACTION_DIR = Path(".github/actions/check").absolute()
ACTION: dict[str, Any] = read_yaml("action.yml", (ACTION_DIR / "action.yml").read_text("utf-8")).value
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass
class CommentApi:
    """Comments of pull request 7 of `o/r`. `refuse` is a status that every request gets instead."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refuse: int | None = None

    def add(self, body: str, kind: str = "Bot") -> dict[str, Any]:
        comment = {"id": 1000 + len(self.comments), "body": body, "user": {"type": kind}}
        self.comments.append(comment)
        return comment

    def answer(self, method: str, path: str, sent: dict[str, Any]) -> tuple[int, Any]:
        """Answer as documented for "REST API endpoints for issue comments"."""
        self.requests.append(f"{method} {path}")
        if self.refuse:
            return self.refuse, {"message": "Resource not accessible by integration"}
        where = urlsplit(path)
        if where.path == "/repos/o/r/issues/7/comments":
            if method == "POST":
                return 201, self.add(sent["body"])
            query = parse_qs(where.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        number = int(where.path.removeprefix("/repos/o/r/issues/comments/"))
        comment = next(one for one in self.comments if one["id"] == number)
        if method == "DELETE":
            self.comments.remove(comment)
            return 204, None
        assert method == "PATCH"
        comment["body"] = sent["body"]
        return 200, comment


@contextmanager
def serving(api: CommentApi) -> Iterator[CommentApi]:
    """Serve the API on loopback; requests without the token are refused."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            sent = json.loads(self.rfile.read(length) or b"{}")
            known = self.headers["Authorization"] == "Bearer token-of-the-job"
            status, value = api.answer(self.command, self.path, sent) if known else (401, {})
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - names that http.server looks up

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Job:
    """How a run of the action ended: the log, the job summary, and the names of the steps that ran."""

    exit_code: int
    log: str
    summary: str
    steps: list[str]
    outputs: dict[str, str]


@dataclass
class Runner:
    """Runs the action's steps in a checkout. `event` and `environment` are what GitHub would set."""

    folder: Path
    checkout: Path
    environment: dict[str, str]
    event: dict[str, Any]

    def run(self, **inputs: str) -> Job:
        """Run the action; actions of others (`uses`) are only noted. Underscores of names stand for hyphens."""
        given = {name: str(part.get("default", "")) for name, part in ACTION["inputs"].items()}
        given |= {"token": "token-of-the-job"} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        values = {f"inputs.{name}": value for name, value in given.items()}
        (self.folder / "event.json").write_text(json.dumps(self.event))
        (self.folder / "summary.md").write_text("")
        job = Job(0, "", "", [], {})
        for step in STEPS:
            if not _holds(step.get("if", ""), values):
                continue
            job.steps.append(step.get("name", step.get("uses", "")))
            if "uses" in step or step["name"] == "Install":
                continue
            output = self.folder / "output"
            output.write_text("")
            own = {name: _resolved(text, values) for name, text in step["env"].items()}
            ran = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=self.checkout,
                env=self._base() | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            job.log += ran.stdout
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                job.outputs[name] = value
                values[f"steps.{step.get('id')}.outputs.{name}"] = value
            if ran.returncode:
                job.exit_code = ran.returncode
                break
        job.summary = (self.folder / "summary.md").read_text()
        return job

    def install(self) -> None:
        """Put this environment where the action's own installation would be."""
        commands = self.folder / "tidegate" / "bin"
        commands.mkdir(parents=True)
        for name, words in (("python", ""), ("tidegate", "-m tidegate.gateway.cli.main")):
            (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (commands / name).chmod(0o755)

    def _base(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": str(ACTION_DIR),
            "GITHUB_ACTOR": "someone",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        } | self.environment


def _resolved(text: str, values: dict[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def _holds(condition: str, values: dict[str, str]) -> bool:
    """Judge `${{ A == 'x' && B == 'y' }}`, the only form that the action uses."""
    if not condition:
        return True
    inner = _EXPRESSION.fullmatch(condition)
    assert inner, condition
    parts = [re.fullmatch(r"([\w.-]+) == '(\w+)'", part) for part in inner[1].split(" && ")]
    assert all(parts), condition
    return all(values.get(part[1]) == part[2] for part in parts if part)
