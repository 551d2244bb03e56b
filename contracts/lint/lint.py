"""Lint: check a contract file for its author, and report all mistakes together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tidegate.contracts.compiled import check_compiles, schema_fields
from tidegate.contracts.document.fields import SchemaFields, join, tokens
from tidegate.contracts.document.load import LoadedContract, read_draft
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.exchange.read import recognised
from tidegate.contracts.formats.json_keywords import (
    ONE_SCHEMA,
    REFERENCES,
    SCHEMA_LIST,
    SCHEMA_MAP,
    subschemas,
)
from tidegate.contracts.formats.json_schema import require_schema
from tidegate.contracts.inclusion.json_schema.dialect import FORMATS, Dialect, dialect_of
from tidegate.contracts.inclusion.json_schema.keywords import KEYWORDS
from tidegate.contracts.rules.cel import roots_of, tree_of
from tidegate.contracts.rules.cel_syntax import (
    Const,
    Fold,
    FunctionCall,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from tidegate.contracts.rules.places import ANYWHERE, EACH
from tidegate.contracts.rules.places import Path as FieldPath
from tidegate.contracts.rules.rule_kind import undeclared
from tidegate.contracts.suggestions import closest, suggestion_budget


class ForeignFormatError(ContractError):
    """A document that describes a contract or a schema in another format."""


def foreign_message(document: object) -> str | None:
    """Return a sentence on a parsed document of another format; None for any other document."""
    name = recognised(document)
    if name is None:
        return None
    return f"this is a document of another format ({name}); `tidegate import` makes a contract of it"


@suggestion_budget()
def lint(path: Path) -> LoadedContract:
    """Load a contract file and compile it, so that its rules are checked against its schema.

    Return the contract with its warnings. Raises ContractError with every problem of the document and its position, in
    document order.
    """
    draft = read_draft(path)
    if draft.contract is None and (message := foreign_message(draft.document.value)) is not None:
        raise ForeignFormatError((draft.document.problem("", message),))
    contract, problems = _without_mistakes(draft.contract)
    known = {_identity(each) for each in draft.problems}
    known |= {each.pointer.rpartition("/")[0] for each in draft.problems}  # a mapping with a wrong part
    problems = [each for each in map(draft.locate, problems) if _identity(each) not in known]
    spelling = Spelling() if contract is None else _spelling(contract)
    loaded = draft.finish([*problems, *map(draft.locate, spelling.errors)])
    return replace(loaded, warnings=tuple(map(loaded.locate, spelling.warnings)))


def _without_mistakes(contract: DataContract | None) -> tuple[DataContract | None, list[Problem]]:
    """Compile a contract; remove faulty parts of its JSON Schema, so that the other parts are checked too.

    Return the contract without these parts, and the problems with pointers into the contract document. The contract is
    None if such a part may declare fields, because then its rules cannot be checked.
    """
    found: list[Problem] = []
    if contract is not None and isinstance(contract.schema_, JsonSchema):
        definition, found = _sound_schema(contract.schema_)
        if definition is None:
            return None, found
        schema = contract.schema_.model_copy(update={"definition": definition})
        contract = contract.model_copy(update={"schema_": schema})
    if contract is None:
        return None, found
    try:
        check_compiles(contract)
    except ContractError as error:
        found += error.problems
    return contract, found


def _sound_schema(schema: JsonSchema) -> tuple[Any, list[Problem]]:
    """Return the schema without its faulty parts, and their problems, found by compiling again after each.

    The schema is None if a removed part may declare fields, or if there are too many problems.
    """
    definition: Any = schema.definition
    found: list[Problem] = []
    while len(found) < _MAX_MISTAKES:
        try:
            require_schema(definition, assert_formats=schema.formats == "assert")
        except ContractError as error:
            for problem in error.problems:
                found.append(problem)
                definition = _removed(definition, tokens(problem.pointer.removeprefix(_DEFINITION)))
        else:
            return (None if any(_may_declare(each) for each in found) else definition), found
    return None, found


def _may_declare(problem: Problem) -> bool:
    """Return whether the faulty part of a schema may declare fields."""
    *_, holder, last = tokens(problem.pointer)
    is_part = holder in SCHEMA_MAP or (holder in SCHEMA_LIST and last.isdecimal())
    return is_part or last in _DECLARING or problem.pointer == _DEFINITION


def _removed(schema: Any, path: FieldPath) -> Any:
    """Return a schema without the keyword at a path; a part that is not a valid schema object becomes `true`."""
    if not path or not isinstance(schema, dict):
        return True
    keyword, *rest = path
    value = schema.get(keyword)
    if keyword in ONE_SCHEMA and isinstance(value, dict):
        return {**schema, keyword: _removed(value, tuple(rest))}
    if keyword in SCHEMA_MAP and isinstance(value, dict) and rest:
        name, *inner = rest
        return {**schema, keyword: {**value, name: _removed(value.get(name), tuple(inner))}}
    if keyword in SCHEMA_LIST and isinstance(value, list) and rest:
        index, *inner = rest
        parts = [_removed(part, tuple(inner)) if str(at) == index else part for at, part in enumerate(value)]
        return {**schema, keyword: parts}
    return {name: part for name, part in schema.items() if name != keyword}


def _spelling(contract: DataContract) -> Spelling:
    try:
        return check_spelling(contract)
    except ContractError:  # the schema does not compile, which is reported separately
        return Spelling()


def _identity(problem: Problem) -> str:
    """Return the pointer that identifies a problem: one mistake in a rule can cause several problems."""
    match problem.pointer.split("/"):
        case ["", "rules", index, *_]:
            return f"/rules/{index}"
        case _:
            return problem.pointer


_DEFINITION: Final = "/schema/definition"
_DECLARING: Final = ONE_SCHEMA | SCHEMA_LIST | SCHEMA_MAP | {*REFERENCES}
_MAX_MISTAKES: Final = 50
"""Maximum number of mistakes in one schema: finding each takes one more compilation."""
_MAX_WARNINGS: Final = 100
"""Maximum number of warnings about one schema: a generated one may use an unknown keyword in every field."""
_NEAR: Final = 0.75
"""Minimum similarity of an unknown keyword and a known one: `javaType` is not a misspelt `type`."""
_ANNOTATIONS: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$ref", "$defs", "definitions", "$comment", "$vocabulary"}
    | {"$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
    | {"title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"}
    | {"then", "else", "minContains", "maxContains", "contentEncoding", "contentMediaType", "contentSchema"}
)
"""Keywords that refuse no value by themselves. Source: JSON Schema 2020-12 core and validation, chapters 8 and 9."""
_DRAFTS: Final = {
    Dialect.DRAFT4: "draft 4",
    Dialect.DRAFT6: "draft 6",
    Dialect.DRAFT7: "draft 7",
    Dialect.DRAFT201909: "draft 2019-09",
    Dialect.DRAFT202012: "draft 2020-12",
}
_ANNOTATING_FORMATS: Final = frozenset(
    {"int32", "int64", "float", "double", "byte", "binary", "password", "date-time-local", "duration", "uuid"}
)
"""Formats that are not asserted, but no mistakes. Source: OpenAPI format registry; docs/reference/rule-kinds.md."""
_EVERY_DRAFT: Final = frozenset().union(*KEYWORDS.values()) | _ANNOTATIONS


@dataclass(frozen=True, slots=True)
class Spelling:
    """Findings about unknown names. With an error, a rule would never see a value; a warning may be intended."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@suggestion_budget()
def check_spelling(contract: DataContract) -> Spelling:
    """Return the unknown names in a contract that compiles; pointers are into the contract document."""
    fields = schema_fields(contract)
    errors: dict[Problem, None] = {}
    warnings: dict[Problem, None] = {}
    for index, rule in enumerate(contract.rules):
        if isinstance(rule, Cel):
            for path, is_closed in _unknown_members(rule, fields):
                problem = Problem(f"/rules/{index}/expr", undeclared(join(path), fields))
                (errors if is_closed else warnings)[problem] = None
    if isinstance(contract.schema_, JsonSchema):
        for pointer, message in _unknown_words(contract.schema_.definition):
            if len(warnings) == _MAX_WARNINGS:
                break
            warnings[Problem(_DEFINITION + pointer, message)] = None
    return Spelling(tuple(errors), tuple(warnings))


def _unknown_members(rule: Cel, fields: SchemaFields) -> Iterator[tuple[FieldPath, bool]]:
    """Yield the path of each member that an expression reads and no field declares; and if its object is closed."""
    roots = roots_of(rule)
    variables: dict[str, FieldPath | None] = {"this": ()}
    if rule.field is not None:
        variables |= {"value": roots.value, "parent": roots.parent}
    for path in _paths_read(tree_of(rule), variables):
        holder = fields.find(join(path[:-1]))
        if holder is not None and "object" in holder.types and fields.find(join(path)) is None:
            yield path, holder.is_closed


def _paths_read(tree: Node, variables: dict[str, FieldPath | None]) -> Iterator[FieldPath]:
    """Yield the path of each member in an expression, including the inner members of a chain.

    An element of a list has the path of the list and `*`. Computed values have no path, so their members are not checked.
    """
    pending: list[tuple[Node, dict[str, FieldPath | None]]] = [(tree, variables)]
    while pending:
        node, known = pending.pop()
        match node:
            case Select(operand, _, _):
                pending.append((operand, known))
            case FunctionCall(_, parts) | ListLiteral(parts) | MapLiteral(parts):
                pending.extend((part, known) for part in parts)
            case Fold(names, parts):
                inner = {**known, **dict.fromkeys(names, None), names[0]: _element(_path(parts[0], known))}
                pending.append((parts[0], known))
                pending.extend((part, inner) for part in parts[1:])
        if _names_member(node) and (path := _path(_asked(node), known)):
            yield path


def _names_member(node: Node) -> bool:
    match node:
        case Select() | FunctionCall("_[_]", (_, Const(str()))) | FunctionCall("@in", (Const(str()), _)):
            return True
        case _:
            return False


def _asked(node: Node) -> Node:
    """Return a node that reads the member that a node names: `holder["name"]` for `"name" in holder`."""
    match node:
        case FunctionCall("@in", (Const(str()) as name, holder)):
            return FunctionCall("_[_]", (holder, name))
        case _:
            return node


def _path(node: Node, known: dict[str, FieldPath | None]) -> FieldPath | None:  # noqa: PLR0911 - one for each node
    """Return the path of a part of the record; None for a computed value."""
    match node:
        case Ident(name):
            return known.get(name)
        case FunctionCall("dyn", (operand,)):
            return _path(operand, known)
        case Select(operand, name, _) | FunctionCall("_[_]", (operand, Const(str(name)))):
            return _below(_path(operand, known), name)
        case FunctionCall("_[_]", (operand, Const(int(index)))) if index >= 0:
            return _below(_path(operand, known), str(index))
        case FunctionCall("_[_]", (operand, _)):
            return _element(_path(operand, known))
        case Fold(
            (element, _),
            (whole, ListLiteral(()), _, FunctionCall("_?_:_", (_, FunctionCall("_+_", (_, kept)), _)), _),
        ):
            # A filter keeps elements of the same list.
            return _path(whole, known) if kept == ListLiteral((Ident(element),)) else None
    return None


def _below(holder: FieldPath | None, name: str) -> FieldPath | None:
    # A token `*` would mean every element, and `**` every object.
    return None if holder is None or name in {ANYWHERE, EACH} else (*holder, name)


def _element(holder: FieldPath | None) -> FieldPath | None:
    return None if holder is None else (*holder, EACH)


def _unknown_words(definition: Any) -> Iterator[tuple[str, str]]:
    """Yield (pointer, message) for unknown keywords and formats, and for required names without a property."""
    dialect = dialect_of(definition)
    if dialect is None:
        return
    declared = frozenset(
        name
        for _, part in _schemas(definition)
        if isinstance(part.get("properties"), dict)
        for name in part["properties"]
    )
    for pointer, part in _schemas(definition):
        for word in part:
            if word not in KEYWORDS[dialect] | _ANNOTATIONS and not _is_extension(word):
                yield f"{pointer}/{escape(word)}", _unknown_keyword(word, dialect)
        name = part.get("format")
        if isinstance(name, str) and name not in FORMATS[dialect] | _ANNOTATING_FORMATS:
            yield (
                f"{pointer}/format",
                f"unknown format `{name:.40}` refuses nothing{_near(name, FORMATS[dialect])}",
            )
        yield from _undeclared_required(pointer, part, declared)


def _undeclared_required(
    pointer: str, part: dict[str, Any], declared: frozenset[str]
) -> Iterator[tuple[str, str]]:
    properties, required = part.get("properties"), part.get("required")
    # A part without `properties`, such as a branch of `anyOf`, refers to the properties of the enclosing schema.
    known = frozenset(properties) if isinstance(properties, dict) and not _applies_others(part) else declared
    if not isinstance(required, list) or part.get("patternProperties"):
        return
    for index, name in enumerate(required):
        if isinstance(name, str) and name not in known:
            message = f"required property `{name:.80}` is declared nowhere{_near(name, known)}"
            yield f"{pointer}/required/{index}", message


def _applies_others(part: dict[str, Any]) -> bool:
    return any(
        word in part for word in ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else")
    )


def _schemas(definition: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each schema object of a document once, with its pointer."""
    pending: list[tuple[str, Any]] = [("", definition)]
    while pending:
        pointer, part = pending.pop()
        if not isinstance(part, dict):
            continue
        yield pointer, part
        pending.extend((pointer + join(path), each) for path, each in subschemas(part))


def _is_extension(word: str) -> bool:
    """Return whether a keyword has the prefix of an extension: `x-unit`, `connect.name`, `confluent:tags`."""
    return word.startswith(("x-", "x_")) or "." in word or ":" in word


def _unknown_keyword(word: str, dialect: Dialect) -> str:
    if word in _EVERY_DRAFT:
        return f"keyword `{word}` has no meaning in {_DRAFTS[dialect]}, which this schema is written in"
    return (
        f"unknown keyword `{word:.40}` refuses nothing{_near(word, KEYWORDS[dialect] | _ANNOTATIONS, _NEAR)}"
    )


def _near(word: str, known: frozenset[str], cutoff: float = 0.6) -> str:
    near = closest(word, known, cutoff=cutoff)
    return f"; did you mean `{near}`?" if near else ""
