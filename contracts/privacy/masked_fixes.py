"""The text of a fix for persons who may not see classified values: those that its steps name are hidden."""

from __future__ import annotations

import json
from typing import Any, Final

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.privacy.classes import Classes

_HIDDEN: Final = "hidden"
_VALUES: Final = frozenset({"value", "from", "to", "equals", "one_of", "not_equals"})


def masked(text: str, classes: Classes) -> str:
    """Return a fix, given as canonical JSON, without the values of steps and conditions on classified fields.

    A field to which a classified one is renamed counts as classified.
    """
    document: dict[str, Any] = json.loads(text)
    renamed: set[str] = set()

    def is_classified(field: str) -> bool:
        return field in renamed or classes.touches(tokens(field))

    for step in document["steps"]:
        if is_classified(step["field"]):
            if step["action"] == "rename":
                renamed.add(join((*tokens(step["field"])[:-1], step["to"])))
            elif step["action"] in {"set", "default", "map"}:
                _hide(step)
                for change in step.get("values", ()):
                    _hide(change)
        condition = step.get("when")
        if condition is not None and is_classified(condition["field"]):
            _hide(condition)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _hide(part: dict[str, Any]) -> None:
    for name in part.keys() & _VALUES:
        part[name] = _HIDDEN
