"""Which fields of a contract are classified: by the contract itself, and by tags in its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from tidegate.contracts.document.fields import join, tokens, value_at
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.formats.json_keywords import REFERENCES

Path = tuple[str | int, ...]
"""Where a value stands in a record: names of properties, and positions in arrays."""

ANY: Final = "*"
"""A step that stands for every element of an array, and every property of an object."""
WHOLE_RECORD: Final = ""
TAGS: Final = "confluent:tags"
CLASSIFICATION: Final = "classification"
"""What a field of an Open Data Contract Standard schema says of itself, beside its type."""
MASKED: Final = "masked"
"""The class of a field that only a mask names."""
_OPEN: Final = frozenset({"public"})
_MOST_PLACES: Final = 5_000
_DEEPEST: Final = 40


@dataclass(frozen=True, slots=True)
class Classes:
    """The classified fields of one contract: pointer, in which `*` stands for any step, to the name of the class.

    A classified field is classified with all that stands below it. Falsy when nothing is classified.
    """

    by_pointer: Mapping[str, str]
    _root: _Step = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root = _Step()
        for pointer, name in self.by_pointer.items():
            root.plant(tokens(pointer), pointer, name)
        object.__setattr__(self, "_root", root)

    def __bool__(self) -> bool:
        return bool(self.by_pointer)

    def of(self, path: Path, besides: Iterable[str] = ()) -> str | None:
        """Return the class of the value at a path, None when it is not classified.

        `besides` are pointers of `by_pointer` that do not count.
        """
        left_out = frozenset(besides)
        steps = [self._root]
        for token in (None, *path):
            if token is not None:
                steps = [each for step in steps for each in step.next(str(token))]
            for step in steps:
                if step.pointer is not None and step.pointer not in left_out:
                    return step.name
        return None

    def touches(self, path: Path, besides: Iterable[str] = ()) -> bool:
        """Return whether classified values may stand at a path or below it.

        So they may in a value that stands where an object with a classified field was agreed, whatever it is: text, or
        an element of an array.
        """
        left_out = frozenset(besides)
        steps = [self._root]
        for token in (None, *path):
            if token is not None:
                below = [each for step in steps for each in step.next(str(token))]
                if isinstance(token, int) and not below and any(step.is_open(left_out) for step in steps):
                    return True
                steps = below
            if any(step.pointer is not None and step.pointer not in left_out for step in steps):
                return True
        return any(step.is_open(left_out) for step in steps)


@dataclass(slots=True)
class _Step:
    """A step of the classified pointers; `pointer` and `name` where one of them ends."""

    children: dict[str, _Step] = field(default_factory=dict)
    pointer: str | None = None
    name: str | None = None

    def plant(self, path: tuple[str, ...], pointer: str, name: str) -> None:
        step = self
        for token in path:
            step = step.children.setdefault(token, _Step())
        step.pointer, step.name = pointer, name

    def is_open(self, left_out: frozenset[str]) -> bool:
        """Return whether a pointer that counts ends here or below."""
        is_end = self.pointer is not None and self.pointer not in left_out
        return is_end or any(child.is_open(left_out) for child in self.children.values())

    def next(self, token: str) -> Iterator[_Step]:
        for known in {token, ANY}:
            if known in self.children:
                yield self.children[known]


def classes_of(contract: DataContract) -> Classes:
    """Return the classified fields of a contract.

    These are its `classification`, the tags of its schema (`confluent:tags`, `classification`), and the fields of its `mask`. Every class
    and tag but `public` counts, whatever its case: of a word that no one here knows it is not known to be harmless.
    """
    found = {
        pointer: name for pointer, name in _tagged(contract).items() if pointer not in contract.classification
    }
    found |= {pointer: name for pointer, name in contract.classification.items() if name.lower() not in _OPEN}
    return Classes(dict.fromkeys(contract.mask, MASKED) | found)


def _tagged(contract: DataContract) -> dict[str, str]:
    definition: Any = contract.schema_.definition
    tag = _first_tag(definition)
    if tag is None:
        return {}
    walk: _Walk
    try:
        if isinstance(contract.schema_, JsonSchema):
            walk = _JsonWalk(definition, tag)
            walk.visit(definition, ())
        else:
            named: dict[str, Any] = {}
            parsed = fastavro.parse_schema(definition, named_schemas=named)  # names written out in full
            walk = _AvroWalk(named, tag)
            walk.visit(parsed, ())
    except (_TooManyPlacesError, SchemaParseException, UnknownType):
        return {WHOLE_RECORD: tag}
    # What stands below a classified field is classified with it.
    return {
        pointer: name
        for pointer, name in walk.found.items()
        if not any(pointer.startswith(f"{other}/") for other in walk.found)
    }


class _TooManyPlacesError(Exception):
    """A schema with more places than are worth walking."""


class _Walk:
    """Walks a schema that has tags. Where it leads back into itself, the place is classified as a whole."""

    def __init__(self, tag: str) -> None:
        self.found: dict[str, str] = {}
        self._tag = tag
        self._open: list[object] = []
        self._visits = 0

    def visit(self, schema: Any, path: tuple[str, ...]) -> None:
        """Look at a schema that stands for the values at `path`."""
        self._visits += 1
        if self._visits > _MOST_PLACES or len(self._open) > _DEEPEST:
            raise _TooManyPlacesError
        schema = self._resolved(schema)
        if not isinstance(schema, dict | list):
            return
        identity = self._identity(schema)
        if identity in self._open:
            if path:
                self.found.setdefault(join(path), self._tag)
            return
        self._open.append(identity)
        if isinstance(schema, dict):
            self.note(schema, path)
        for step, part in self._parts(schema):
            self.visit(part, path if step is None else (*path, step))
        self._open.pop()

    def note(self, node: dict[str, Any], path: tuple[str, ...]) -> None:
        """Take the tags of a node."""
        name = _tag_of(node)
        if name is not None:
            self.found.setdefault(join(path), name)

    def _resolved(self, schema: Any) -> Any:
        return schema

    def _identity(self, schema: Any) -> object:
        return id(schema)

    def _parts(self, schema: Any) -> Iterator[tuple[str | None, Any]]:
        raise NotImplementedError


class _JsonWalk(_Walk):
    """Walks a JSON Schema; its references all stay inside it."""

    _BESIDE = ("allOf", "anyOf", "oneOf")
    _INSTEAD = ("if", "then", "else", "not")
    _ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
    _MEMBERS = ("additionalProperties", "unevaluatedProperties")

    def __init__(self, definition: Any, tag: str) -> None:
        super().__init__(tag)
        self._definition = definition
        self._anchors = dict(_anchors(definition))

    def _parts(self, schema: Any) -> Iterator[tuple[str | None, Any]]:
        if not isinstance(schema, dict):
            return
        for keyword in REFERENCES:
            if isinstance(schema.get(keyword), str):
                yield None, self._referred(schema[keyword])
        for keyword in self._BESIDE:
            yield from ((None, part) for part in _listed(schema.get(keyword)))
        yield from ((None, schema[keyword]) for keyword in self._INSTEAD if keyword in schema)
        for keyword in ("dependentSchemas", "dependencies"):
            yield from ((None, part) for part in _members(schema.get(keyword)).values())
        yield from _members(schema.get("properties")).items()
        for keyword in ("patternProperties",):
            yield from ((ANY, part) for part in _members(schema.get(keyword)).values())
        for keyword in (*self._MEMBERS, *self._ITEMS):
            part = schema.get(keyword)
            yield from ((ANY, each) for each in (part if isinstance(part, list) else [part]))
        yield from ((ANY, part) for part in _listed(schema.get("prefixItems")))

    def _referred(self, reference: str) -> Any:
        base, _, fragment = reference.partition("#")
        if base in self._anchors and not fragment:
            return self._anchors[base]
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(f"#{fragment}")
        node = self._anchors.get(base, self._definition) if base else self._definition
        return value_at(node, tokens(fragment))


class _AvroWalk(_Walk):
    """Walks an Avro schema as fastavro parsed it; a name stands for the type that was defined under it."""

    def __init__(self, named: dict[str, Any], tag: str) -> None:
        super().__init__(tag)
        self._named = named

    def _resolved(self, schema: Any) -> Any:
        return self._named.get(schema) if isinstance(schema, str) else schema

    def _identity(self, schema: Any) -> object:
        name = schema.get("name") if isinstance(schema, dict) else None
        return id(schema) if name is None else name

    def _parts(self, schema: Any) -> Iterator[tuple[str | None, Any]]:
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


def _first_tag(schema: Any) -> str | None:
    """Return some tag that stands anywhere in a schema, so that a value of it may be classified."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            name = _tag_of(node)
            if name is not None:
                return name
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return None


def _anchors(definition: Any) -> Iterator[tuple[str, Any]]:
    """Yield what references may name beside pointers: `$id`, `id`, `$anchor` and `$dynamicAnchor`."""
    stack = [definition]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            for keyword in ("$id", "id"):
                if isinstance(node.get(keyword), str):
                    yield node[keyword].rstrip("#") or "#", node
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    yield f"#{node[keyword]}", node
            stack.extend(node.values())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
