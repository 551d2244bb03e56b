"""The classified fields of a contract (declared, or tagged in its schema), and the visible part of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from tidegate.contracts.document.fields import join, objects_of, tokens, value_at
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.formats.json_keywords import REFERENCES

Path = tuple[str | int, ...]
"""The position of a value in a record: names of properties, and indexes in arrays."""

ANY: Final = "*"
"""A step that matches every element of an array and every property of an object."""
WHOLE_RECORD: Final = ""
TAGS: Final = "confluent:tags"
CLASSIFICATION: Final = "classification"
"""Attribute with the class of a field, as in schemas of the Open Data Contract Standard."""
MASKED: Final = "masked"
"""The class of a field that is masked but not classified."""
_OPEN: Final = frozenset({"public"})
_MOST_PLACES: Final = 5_000
_DEEPEST: Final = 40


T = TypeVar("T")


@dataclass(slots=True)
class PointerNode(Generic[T]):
    """A node in a tree of pointers; `value` belongs to the pointer that ends here, None if none does."""

    children: dict[str, PointerNode[T]] = field(default_factory=dict)
    value: T | None = None


def step_tree(values: Mapping[str, T]) -> PointerNode[T]:
    """Return the root of the tree of these pointers, with their values."""
    root: PointerNode[T] = PointerNode()
    for pointer, value in values.items():
        step = root
        for token in tokens(pointer):
            step = step.children.setdefault(token, PointerNode())
        step.value = value
    return root


def following(steps: list[PointerNode[T]], token: str) -> list[PointerNode[T]]:
    """Return the child steps of `steps` that match a name or index."""
    return [step.children[name] for step in steps for name in {token, ANY} if name in step.children]


@dataclass(frozen=True, slots=True)
class Classes:
    """The classified fields of one contract: pointer to the name of the class; `*` in a pointer matches any step.

    All fields below a classified field are classified too. Falsy if nothing is classified.
    """

    by_pointer: Mapping[str, str]
    _root: PointerNode[str] = field(init=False, repr=False, compare=False)
    """The root of the tree of classified pointers; the value at the end of a pointer is the pointer itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_root", step_tree({pointer: pointer for pointer in self.by_pointer}))

    def __bool__(self) -> bool:
        return bool(self.by_pointer)

    def of(self, path: Path) -> str | None:
        """Return the class of the value at a path; None if it is not classified."""
        steps = [self._root]
        for token in (None, *path):
            steps = steps if token is None else following(steps, str(token))
            for step in steps:
                if step.value is not None:
                    return self.by_pointer[step.value]
        return None

    def touches(self, path: Path, besides: Iterable[str] = ()) -> bool:
        """Return whether classified values may be at a path or below it.

        They may also be in a value of another type (a string, an array) where the schema expects an object with a
        classified field. `besides` are pointers of `by_pointer` to ignore.
        """
        left_out = frozenset(besides)
        steps = [self._root]
        for token in (None, *path):
            if token is not None:
                below = following(steps, str(token))
                if isinstance(token, int) and not below and any(_counts(step, left_out) for step in steps):
                    return True
                steps = below
            if any(step.value is not None and step.value not in left_out for step in steps):
                return True
        return any(_counts(step, left_out) for step in steps)

    def touches_pattern(self, pattern: Iterable[str]) -> bool:
        """Return whether classified values may be at a pointer with `*`, or below it, in any record.

        `*` and numbers match any step, because a record may have an array in place of an object.
        """
        steps = [self._root]
        for token in pattern:
            if any(step.value is not None for step in steps):
                return True
            is_any = token == ANY or token.isdigit()
            steps = [
                child
                for step in steps
                for name, child in step.children.items()
                if is_any or name in {token, ANY}
            ]
        return any(_counts(step, frozenset()) for step in steps)


def _counts(step: PointerNode[str], left_out: frozenset[str]) -> bool:
    """Return whether a pointer that is not in `left_out` ends at a step or below it."""
    is_end = step.value is not None and step.value not in left_out
    return is_end or any(_counts(child, left_out) for child in step.children.values())


def classes_of(contract: DataContract) -> Classes:
    """Return the classified fields of a contract.

    These are its `classification`, the tags of its schema (`confluent:tags`, `classification`), and the fields of its
    `mask`. Every class and tag except `public` counts, in upper or lower case, because an unknown word may be
    sensitive.
    """
    found = {
        pointer: name for pointer, name in _tagged(contract).items() if pointer not in contract.classification
    }
    found |= {pointer: name for pointer, name in contract.classification.items() if name.lower() not in _OPEN}
    return Classes(dict.fromkeys(contract.mask, MASKED) | found)


def with_classes_of(contract: DataContract, other: DataContract) -> DataContract:
    """Return a contract that also classifies the fields that another version of it classifies."""
    own = classes_of(contract).by_pointer
    more = {pointer: name for pointer, name in classes_of(other).by_pointer.items() if pointer not in own}
    if not more:
        return contract
    return contract.model_copy(update={"classification": {**contract.classification, **more}})


def _tagged(contract: DataContract) -> dict[str, str]:
    definition: Any = contract.schema_.definition
    tag = next((name for node in objects_of(definition) if (name := _tag_of(node)) is not None), None)
    if tag is None:
        return {}
    try:
        if isinstance(contract.schema_, JsonSchema):
            walk = _Walk(tag, partial(_json_parts, definition, dict(_anchors(definition))), {})
            walk.visit(definition, ())
        else:
            named: dict[str, Any] = {}
            parsed = fastavro.parse_schema(definition, named_schemas=named)  # resolves names to full names
            walk = _Walk(tag, _avro_parts, named)
            walk.visit(parsed, ())
    except (_TooManyPlacesError, SchemaParseException, UnknownType):
        return {WHOLE_RECORD: tag}
    # All fields below a classified field are classified too.
    return {
        pointer: name
        for pointer, name in walk.found.items()
        if not any(pointer.startswith(f"{other}/") for other in walk.found)
    }


class _TooManyPlacesError(Exception):
    """The schema has more places than a walk visits."""


_Parts = Iterator[tuple[str | None, Any]]
"""Parts of a schema, each with the step to the values that it describes; None for the same values as the schema."""


class _Walk:
    """A walk through a schema that collects tagged fields by pointer. A recursive reference is classified as a whole.

    `tag` is the class of recursive references. `parts` yields the parts of a schema. `named` maps the names of an Avro
    schema to its types.
    """

    def __init__(self, tag: str, parts: Callable[[Any], _Parts], named: Mapping[str, Any]) -> None:
        self.found: dict[str, str] = {}
        self._tag = tag
        self._parts = parts
        self._named = named
        self._open: list[object] = []
        self._visits = 0

    def visit(self, schema: Any, path: tuple[str, ...]) -> None:
        """Visit a schema that describes the values at `path`."""
        self._visits += 1
        if self._visits > _MOST_PLACES or len(self._open) > _DEEPEST:
            raise _TooManyPlacesError
        schema = self._named.get(schema) if isinstance(schema, str) else schema
        if not isinstance(schema, dict | list):
            return
        name = schema.get("name") if isinstance(schema, dict) else None
        identity = name if isinstance(name, str) and name in self._named else id(schema)
        if identity in self._open:
            if path:
                self.found.setdefault(join(path), self._tag)
            return
        self._open.append(identity)
        if isinstance(schema, dict) and (tag := _tag_of(schema)) is not None:
            self.found.setdefault(join(path), tag)
        for step, part in self._parts(schema):
            self.visit(part, path if step is None else (*path, step))
        self._open.pop()


_BESIDE: Final = ("allOf", "anyOf", "oneOf")
_INSTEAD: Final = ("if", "then", "else", "not")
_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")


def _json_parts(definition: Any, anchors: Mapping[str, Any], schema: Any) -> _Parts:
    """Yield the parts of a JSON Schema; all its references are resolved inside the definition."""
    if not isinstance(schema, dict):
        return
    for keyword in REFERENCES:
        if isinstance(schema.get(keyword), str):
            yield None, _referred(schema[keyword], definition, anchors)
    for keyword in _BESIDE:
        yield from ((None, part) for part in _listed(schema.get(keyword)))
    yield from ((None, schema[keyword]) for keyword in _INSTEAD if keyword in schema)
    for keyword in ("dependentSchemas", "dependencies"):
        yield from ((None, part) for part in _object(schema.get(keyword)).values())
    yield from _object(schema.get("properties")).items()
    yield from ((ANY, part) for part in _object(schema.get("patternProperties")).values())
    for keyword in (*_MEMBERS, *_ITEMS):
        part = schema.get(keyword)
        yield from ((ANY, each) for each in (part if isinstance(part, list) else [part]))
    yield from ((ANY, part) for part in _listed(schema.get("prefixItems")))


def _referred(reference: str, definition: Any, anchors: Mapping[str, Any]) -> Any:
    base, _, fragment = reference.partition("#")
    if base in anchors and not fragment:
        return anchors[base]
    if fragment and not fragment.startswith("/"):
        return anchors.get(f"#{fragment}")
    node = anchors.get(base, definition) if base else definition
    return value_at(node, tokens(fragment))


def _avro_parts(schema: Any) -> _Parts:
    """Yield the parts of an Avro schema that fastavro has parsed."""
    if isinstance(schema, list):
        yield from ((None, branch) for branch in schema)
        return
    for member in _listed(schema.get("fields")):
        if isinstance(member, dict) and isinstance(member.get("name"), str):
            name = member["name"]
            tag = _tag_of(member)
            if tag is not None:
                yield name, {TAGS: [tag]}
            yield name, member.get("type")
    yield from ((ANY, schema[key]) for key in ("items", "values") if key in schema)
    if isinstance(schema.get("type"), dict | list):
        yield None, schema["type"]


def _tag_of(node: dict[str, Any]) -> str | None:
    found, of_field = node.get(TAGS), node.get(CLASSIFICATION)
    names = [found] if isinstance(found, str) else [*_listed(found)]
    names += [of_field] if isinstance(of_field, str) else []
    return next((name for name in names if isinstance(name, str) and name.lower() not in _OPEN), None)


def _anchors(definition: Any) -> Iterator[tuple[str, Any]]:
    """Yield the targets that references can name besides pointers: `$id`, `id`, `$anchor` and `$dynamicAnchor`."""
    for node in objects_of(definition):
        for keyword in ("$id", "id"):
            if isinstance(node.get(keyword), str):
                yield node[keyword].rstrip("#") or "#", node
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                yield f"#{node[keyword]}", node


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


KEY: Final = "key"
"""The record's key, which often repeats a value of a field."""
HEADERS: Final = "headers"
"""The producer's headers, which may also repeat values of fields."""
BODY: Final = "body"
"""Parts of a value without declared fields: undeclared properties, unreadable bytes, Avro's raw bytes."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a user may see of records: all but the classified fields, unless they are `revealed`.

    `classes` are those of the contract; None if the contract is unknown, and then only revealed parts are shown.
    `revealed` holds pointers of classified fields, KEY, HEADERS or BODY; BODY reveals the whole value. `declared` are
    the names that the contract's schema declares; None if unknown.
    """

    classes: Classes | None
    declared: frozenset[str] | None = None
    revealed: frozenset[str] = frozenset()

    @property
    def is_limited(self) -> bool:
        """Return whether any part of a record may be hidden."""
        return self.classes is None or bool(self.classes)

    def shows(self, part: str) -> bool:
        """Return whether a part of the record is shown: KEY, HEADERS or BODY."""
        return not self.is_limited or part in self.revealed

    def hides(self, path: Path) -> bool:
        """Return whether the value at a path is hidden.

        It is if it may contain classified values, or if a name on the path is not declared.
        """
        if self.shows(BODY):
            return False
        if self.classes is None:
            return True
        if self.classes.touches(path, self.revealed):
            return True
        names = (token for token in path if isinstance(token, str))
        return self.declared is not None and any(name not in self.declared for name in names)

    def hides_pattern(self, pattern: Sequence[str]) -> bool:
        """Return whether values at a pointer with `*` may be hidden in any record; ignores `revealed`."""
        if not self.is_limited:
            return False
        names = (token for token in pattern if token != ANY)
        return (
            self.classes is None
            or self.classes.touches_pattern(pattern)
            or (self.declared is not None and any(name not in self.declared for name in names))
        )

    @property
    def hidden_fields(self) -> dict[str, str]:
        """Return the classified fields that are not shown: pointer to class."""
        if self.classes is None or self.shows(BODY):
            return {}
        return {
            pointer: name for pointer, name in self.classes.by_pointer.items() if pointer not in self.revealed
        }


def visibility_of(
    contract: DataContract, declared: frozenset[str] | None, revealed: Iterable[str] = ()
) -> Visibility:
    """Return what a user may see of a contract's records; `declared` are the names that its schema declares."""
    return Visibility(classes_of(contract), declared, frozenset(revealed))
