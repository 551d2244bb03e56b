"""Mutants of a module: its syntax tree with one change, and an importer that loads it instead of the file."""

from __future__ import annotations

import ast
import copy
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
DELETED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Assign)
"""Statements that a mutant deletes; of assignments only those to attributes and items, because a missing name fails at once."""


UNTOUCHED = {"annotation", "returns", "decorator_list", "type_params"}
Place = tuple[str, ast.stmt | ast.expr]


@dataclass(frozen=True)
class Mutant:
    """One change of a module. Its key has no line number, so that edits elsewhere do not change it."""

    module: str
    key: str
    line: int
    place: int
    number: int

    def tree(self) -> ast.Module:
        """Return the syntax tree of the module with the change."""
        return _replaced(ast.parse(path_of(self.module).read_text()), self.place, self.number)


def path_of(module: str) -> Path:
    """Return the path of a module of the product."""
    return ROOT / f"{module.replace('.', '/')}.py"


def mutants(module: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its source."""
    tree = ast.parse(path_of(module).read_text())
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for place, (scope, node) in enumerate(_places(tree)):
        for number, changed in enumerate(_changes(node)):
            key = f"{scope}: {_text(node)} -> {_text(changed)}"
            seen[key] += 1
            if seen[key] > 1:
                key += f" ({seen[key]})"
            found.append(Mutant(module, key, node.lineno, place, number))
    return found


def _places(tree: ast.Module) -> list[Place]:
    """Return the statements and expressions inside functions, each with the dotted name of its scope."""
    return list(_walk(tree, ()))


def _walk(node: ast.AST, scope: tuple[str, ...], *, is_in_function: bool = False) -> Iterator[Place]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        scope = (*scope, node.name)
        is_in_function = not isinstance(node, ast.ClassDef)
    for name, value in ast.iter_fields(node):
        if name in UNTOUCHED:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            if is_in_function and isinstance(child, ast.stmt | ast.expr):
                yield ".".join(scope), child
            yield from _walk(child, scope, is_in_function=is_in_function)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.stmt | ast.expr) -> Iterator[ast.AST]:
    """Yield each node that can replace this one."""
    yield from _other_operators(node)
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(body=body, orelse=other):
            yield from (body, other)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _with(node, value=ast.Constant(None))
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
    if isinstance(node, DELETED) and not _binds_names_only(node):
        yield ast.Pass()


def _other_operators(node: ast.stmt | ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=operators):
            for index, operator in enumerate(operators):
                changed = [*operators[:index], COMPARISONS[type(operator)](), *operators[index + 1 :]]
                yield _with(node, ops=changed)
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.And() if isinstance(operator, ast.Or) else ast.Or())


def _binds_names_only(node: ast.stmt | ast.expr) -> bool:
    return isinstance(node, ast.Assign) and all(
        isinstance(each, ast.Name | ast.Tuple) for each in node.targets
    )


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _text(node: ast.AST) -> str:
    """Return the first line of a node's source in backticks, cut to 100 characters."""
    first, *more = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()
    return f"`{first[:100]}{' ...' if more else ''}`"


def _replaced(tree: ast.Module, place: int, number: int) -> ast.Module:
    _, node = _places(tree)[place]
    new = list(_changes(node))[number]

    class Replace(ast.NodeTransformer):
        def visit(self, visited: ast.AST) -> ast.AST:
            return ast.copy_location(new, visited) if visited is node else super().generic_visit(visited)

    replaced = Replace().visit(tree)
    assert isinstance(replaced, ast.Module)
    return ast.fix_missing_locations(replaced)


class _Loader(SourceFileLoader):
    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(path_of(mutant.module)))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one module
        return compile(self._mutant.tree(), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return spec_from_file_location(fullname, path_of(fullname), loader=_Loader(self._mutant))


def install(mutant: Mutant) -> None:
    """Make imports in this process load the mutant. Raise RuntimeError if the module was imported before."""
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} was imported before its mutant")
    sys.meta_path.insert(0, _Finder(mutant))
