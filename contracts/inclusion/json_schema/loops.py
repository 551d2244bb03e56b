"""References that lead back to themselves on the same value: `{"$ref": "#"}` says nothing that a proof could use."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.contracts.inclusion.json_schema.nodes import Node
from tidegate.contracts.inclusion.json_schema.work import below, beside


def loop_in(root: Node) -> Node | None:
    """Return a node of a loop that takes no step into the value; None when there is none."""
    colours: dict[int, bool] = {}  # by identity: False while its parts are being looked at
    starts = [root]
    while starts:
        start = starts.pop()
        if id(start) in colours:
            continue
        colours[id(start)] = False
        stack: list[tuple[Node, Iterator[Node]]] = [(start, iter(beside(start)))]
        starts.extend(below(start))
        while stack:
            node, parts = stack[-1]
            part = next(parts, None)
            if part is None:
                colours[id(node)] = True
                stack.pop()
            elif id(part) not in colours:
                colours[id(part)] = False
                starts.extend(below(part))
                stack.append((part, iter(beside(part))))
            elif not colours[id(part)]:
                return part
    return None
