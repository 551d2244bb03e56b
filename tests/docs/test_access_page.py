"""The pages about roles name the role of each operation that the registry enforces."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import RULES, Reach
from tidegate.gateway.http.confluent.operations import OPERATIONS

ACCESS, HTTP_API = (Path(f"docs/reference/{name}.md").read_text("utf-8") for name in ("access", "http-api"))
OPERATION_AND_ROLE = re.compile(
    r"^\| `([A-Z]+) ([^`]+)` \| (?:`([a-z]+)`)?( of everything)? \|", re.MULTILINE
)


def test_each_operation_has_the_role_that_is_enforced() -> None:
    named = {
        (method, path): (word, bool(everything))
        for method, path, word, everything in OPERATION_AND_ROLE.findall(HTTP_API + ACCESS)
        if word
    }
    rules = {**RULES, **{(one.method, one.path): one.rule for one in OPERATIONS}}
    assert named == {
        key: (rule.role.word, rule.reach is Reach.EVERYWHERE)
        for key, rule in rules.items()
        if rule.reach is not Reach.NOBODY_ASKED
    }


def test_the_page_explains_every_role() -> None:
    explained = re.findall(
        r"^\| `([a-z]+)` \| [^|`]+ \|$", ACCESS.partition("generated")[0], flags=re.MULTILINE
    )
    assert explained == [role.word for role in Role]
