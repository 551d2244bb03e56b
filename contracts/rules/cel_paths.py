"""The paths of a record that an expression in CEL names."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.rules.cel_syntax import Call, Const, Ident, Items, Node, Select
from tidegate.contracts.rules.cel_zeros import names_it
from tidegate.contracts.rules.places import Path


@dataclass(frozen=True, slots=True)
class Roots:
    """The paths of what an expression can name: the record, and for a rule about a field its value and its holder.

    The value is asked about only where it is there and not null.
    """

    value: Path = ()
    parent: Path = ()

    def path(self, node: Node) -> Path | None:
        """Return the path of a member of the record; None for anything else."""
        match node:
            case Ident("this"):
                return ()
            case Ident("value") if self.value:
                return self.value
            case Ident("parent") if self.value:
                return self.parent
            case Select(operand, field, False):
                holder = self.path(operand)
            case Call("_[_]", (operand, Const(str(field)))):
                holder = self.path(operand)
            case _:
                return None
        # A token of digits, or `*`, is no name to those who read paths; one with U+0000 is none to the library.
        is_name = not field.isdigit() and field != "*" and not names_it(field)
        return None if holder is None or not is_name else (*holder, field)

    def paths(self, node: Node) -> frozenset[Path]:
        """Return the paths of the record that an expression reads."""
        if (path := self.path(node)) is not None:
            return frozenset({path}) if path else frozenset()
        match node:
            case Select(operand, field):
                holder = self.path(operand)
                return frozenset() if holder is None else frozenset({(*holder, field)})
            case Call(_, args) | Items(args):
                return frozenset().union(*(self.paths(arg) for arg in args))
            case _:
                return frozenset()

    def holders(self, node: Node) -> frozenset[Path]:
        """Return the paths that an expression takes for lists or maps: to count them, or to look into them."""
        match node:
            case Call("size", (operand,)) | Call("@in", (_, operand)) if path := self.path(operand):
                return frozenset({path})
            case Call(_, args):
                return frozenset().union(*(self.holders(arg) for arg in args))
            case _:
                return frozenset()
