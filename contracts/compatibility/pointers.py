"""Places in records: which lie in each other. `*` stands for any item of an array and any undeclared name."""

from __future__ import annotations

from collections.abc import Container

from tidegate.contracts.document.fields import join, tokens


def overlap(one: str, other: str, declared: Container[str] = ()) -> bool:
    """Return whether one place is the other, lies in it, or holds it.

    `declared` are the pointers that the schema declares: `*` stands for none of their names.
    """
    path: tuple[str, ...] = ()
    for left, right in zip(tokens(one), tokens(other), strict=False):
        if left != right and "*" not in (left, right):
            return False
        name = right if left == "*" else left
        path = (*path, name)
        if left != right and join(path) in declared:
            return False
    return True
