"""Tests that a page names: found by name, and asked what they do after a stream has stopped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
A_STOP = r"StreamStopped|Fenced|BudgetSpent|RegistryGone|NotFoundError|Unavailable|SettingsError|exit_code"
"""How a test tells that the stream has stopped."""
TAKES = {
    "adopt": ("adopting.",),
    "archive": ("archiving.archive(",),
    "resume": ("resume",),
    "quarantine-record": ("set_aside(",),
    "publish": ("version = ", "plan(version=", "contracts.plan = ", "plan_of(", "publish(line.document("),
}
"""How a test takes a way out that is a verb."""


def named_test(path: str, name: str) -> tuple[ast.FunctionDef, str]:
    """Return a test, and its text with that of its parameters, without the escapes of patterns."""
    source = (TESTS / path).read_text()
    (found,) = (
        each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name
    )
    pieces = [*found.decorator_list, *found.body]
    return found, "\n".join(ast.unparse(each) for each in pieces).replace("\\", "")


def after_the_stop(test: ast.FunctionDef, words: str) -> str:
    """Return what a test does after the first statement that expects the stop, by its words where it has them.

    Assertions and further stops are left out: a stream that only stops again has not taken its way out.
    """
    statements = [each for each in ast.walk(test) if isinstance(each, ast.stmt) and each is not test]
    stops = [
        each for each in statements if re.search(A_STOP, ast.unparse(each)) and not isinstance(each, ast.Try)
    ]
    named = [each for each in stops if words in ast.unparse(each).replace("\\", "")]
    ends = min(each.end_lineno or 0 for each in named or stops)
    return "\n".join(text for line, text in _done(test.body) if line > ends)


def takes_its_verb(way_out: str, after: str) -> bool:
    """Return whether a test takes a way out, by what it does after the stop; True too where there are several."""
    verbs = TAKES.keys() & set(re.findall(r"`tidegate ([a-z-]+)", way_out))
    is_the_only_one = verbs and " or " not in way_out
    return not is_the_only_one or any(each in after for verb in verbs for each in TAKES[verb])


def pattern_of(message: str) -> re.Pattern[str]:
    """Return the pattern of a message in a table, in which `...` stands for names and numbers."""
    without_code = re.sub(r" \(code \d\)$", "", message)
    return re.compile(".*".join(map(re.escape, without_code.split("..."))))


def _done(body: Sequence[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each statement that neither asserts nor expects an error, also of those in blocks."""
    for each in body:
        match each:
            case ast.Assert() | ast.FunctionDef():
                continue
            case ast.With():
                heads = ", ".join(map(ast.unparse, each.items))
                if "raises(" not in heads:
                    yield each.lineno, heads
                    yield from _done(each.body)
            case ast.For() | ast.While() | ast.If() | ast.Try():
                yield from _done(each.body)
            case _ if "raises(" not in (text := ast.unparse(each)):
                yield each.lineno, text
