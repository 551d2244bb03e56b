"""Keep one comment with the findings of a check on a pull request.

A second run updates the comment. A check without findings updates it too, and writes none where there was none, unless
there is a backtest to report.
A token that cannot write gives a warning and exit code 0: the comment is no part of the verdict.
Source: GitHub Docs, "REST API endpoints for issue comments".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

MAX_CHARACTERS = 65_000
"""GitHub refuses a comment above 65,536 characters."""
MAX_PAGES = 50
"""Pages of 100 comments that are searched for the own one."""


def main() -> None:
    """Write, update or leave out the comment, as the environment says."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    pull_request = event.get("pull_request")
    if pull_request is None:
        notice("this is no pull request, so there is no comment")
        return
    name = re.sub(r"[^\w ./-]", "", os.environ["INPUT_NAME"]).replace(
        "--", ""
    )  # stays inside an HTML comment
    marker = f"<!-- tidegate check: {name} -->"
    sarif = json.loads(Path(os.environ["SARIF_FILE"]).read_text("utf-8"))
    has_report = any(run["results"] for run in sarif["runs"]) or os.environ["HAS_BACKTEST"] == "true"
    body = shortened(f"{marker}\n{Path(os.environ['SUMMARY_FILE']).read_text('utf-8')}")
    repository = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
    headers = {
        "Authorization": f"Bearer {os.environ['TOKEN']}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    try:
        with httpx.Client(headers=headers, timeout=30) as client:
            keep_one(
                client, f"{repository}/issues", pull_request["number"], marker, body if has_report else None
            )
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        reason = (
            "the token cannot write comments; the job needs `permissions: {pull-requests: write}`, "
            "and the token of a pull request from a fork never has it"
            if status in {401, 403, 404}
            else f"GitHub answered {status}"
        )
        warning(f"no comment was written: {reason}")
    except httpx.HTTPError as error:
        warning(f"no comment was written: {type(error).__name__}")


def keep_one(client: httpx.Client, issues: str, number: int, marker: str, body: str | None) -> None:
    """Write `body` as the comment that begins with `marker`. None: only say so in a comment that is already there.

    Two runs at the same time may each have written one; the first is kept. Raises httpx.HTTPError.
    """
    own = list(own_comments(client, f"{issues}/{number}/comments", marker))
    text = {"body": f"{marker}\n### Contracts: no findings\n" if body is None else body}
    if own:
        client.patch(f"{issues}/comments/{own[0]}", json=text).raise_for_status()
        for duplicate in own[1:]:
            client.delete(f"{issues}/comments/{duplicate}").raise_for_status()
    elif body is not None:
        client.post(f"{issues}/{number}/comments", json=text).raise_for_status()


def own_comments(client: httpx.Client, comments: str, marker: str) -> Iterator[int]:
    """Yield the ids of the comments of this check, oldest first.

    A person's comment never counts: its author could change the report later.
    """
    for page in range(1, MAX_PAGES + 1):
        answer = client.get(comments, params={"per_page": 100, "page": page})
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        for comment in found:
            author = comment["user"] or {}  # null for a deleted account
            if author.get("type") == "Bot" and (comment["body"] or "").startswith(marker):
                yield comment["id"]
        if len(found) < 100:
            return


def shortened(body: str) -> str:
    """Return the lines that GitHub takes in one comment."""
    if len(body) <= MAX_CHARACTERS:
        return body
    return body[: body.rindex("\n", 0, MAX_CHARACTERS)] + "\n\nThe job summary has the other findings.\n"


def notice(text: str) -> None:
    """Show a sentence on the page of the run."""
    print(f"::notice title=tidegate::{text}")  # noqa: T201 - a workflow command


def warning(text: str) -> None:
    """Show a sentence on the page of the run, as a warning."""
    print(f"::warning title=tidegate::{text}")  # noqa: T201 - a workflow command


if __name__ == "__main__":
    main()
