"""References that lead back to themselves on the same value: `{"$ref": "#"}` says nothing that a proof could use."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.compatibility.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Condition,
    Contains,
    ItemAt,
    ItemsFrom,
    Matching,
    Names,
    Node,
    Not,
    OneOf,
    Property,
    Reference,
)


def loop_in(root: Node) -> Node | None:
    """Give a node of a loop that takes no step into the value; None when there is none."""
    colours: dict[int, bool] = {}  # by identity: False while its parts are being looked at
    starts = [root]
    while starts:
        start = starts.pop()
        if id(start) in colours:
            continue
        colours[id(start)] = False
        stack: list[tuple[Node, Iterator[Node]]] = [(start, iter(_beside(start)))]
        starts.extend(_below(start))
        while stack:
            node, parts = stack[-1]
            part = next(parts, None)
            if part is None:
                colours[id(node)] = True
                stack.pop()
            elif id(part) not in colours:
                colours[id(part)] = False
                starts.extend(_below(part))
                stack.append((part, iter(_beside(part))))
            elif not colours[id(part)]:
                return part
    return None


def _beside(node: Node) -> tuple[Node, ...]:
    """Give the nodes that speak of the same value."""
    match node:
        case All(parts=parts) | AnyOf(parts=parts) | OneOf(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case Condition(test=test, then=then, otherwise=otherwise):
            return test, then, otherwise
        case Reference() if node.definition.node is not None:
            return (node.definition.node,)
        case _:
            return ()


def _below(node: Node) -> tuple[Node, ...]:
    """Give the nodes that speak of items, properties or names."""
    match node:
        case (
            Property(schema=schema)
            | Matching(schema=schema)
            | Additional(schema=schema)
            | Names(schema=schema)
            | ItemAt(schema=schema)
            | ItemsFrom(schema=schema)
            | Contains(schema=schema)
        ):
            return (schema,)
        case _:
            return ()
