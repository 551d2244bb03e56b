"""Limit on the work that a JSON Schema causes for a validator, checked before one is built.

jsonschema-rs follows every path that leads to a subschema and does not cache the result. It does so when it compiles
`unevaluatedProperties` and whenever it validates. Forty definitions that each refer to the next one twice take 2 KB and
2^40 steps. The native code holds the interpreter lock and cannot be interrupted, so such a schema is refused
beforehand, by counting its paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from tidegate.contracts.document.fields import join
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_keywords import REFERENCES

if TYPE_CHECKING:
    from referencing._core import Resolved, Resolver  # part of the library's API, but not in __all__

MAX_STEPS: Final = 10_000
"""Maximum steps for one value, in addition to four for each subschema: 10,000 take about 50 ms."""
_STEPS_EACH: Final = 4
MAX_LEVELS: Final = 200
"""Maximum chain of subschemas on one value: every level takes a stack frame."""
MAX_CHAIN: Final = 5_000
"""Maximum chain of subschemas through references: compiling takes quadratic time, 0.2 s at this limit."""
_DEFINITION: Final = "/schema/definition"
_ROOT: Final = "urn:tidegate:schema"
_HERE: Final = ("not", "if", "then", "else")
_HERE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE_MAPS: Final = ("dependentSchemas", "dependencies")
_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("additionalItems", "contains", "items", "unevaluatedItems")
_ITEM_LISTS: Final = ("items", "prefixItems")
_LEADING: Final = frozenset(
    (
        *(*_HERE, *_HERE_LISTS, *_HERE_MAPS, *_MEMBERS, *_ITEMS, *_ITEM_LISTS, *REFERENCES),
        *("properties", "patternProperties", "propertyNames"),
    )
)
"""The keywords that lead to other subschemas. Most subschemas have none, and are not searched for parts."""
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_NAMED: Final = re.compile(
    rb'"(?:\$id|\$anchor|\$dynamicAnchor)":|"id":"|"\$(?:ref|dynamicRef|recursiveRef)":"(?!#["/])'
)
"""What a schema has in its JSON text if its references cannot all be resolved as JSON Pointers from its root."""


class TooMuchWorkError(ContractError):
    """A schema that would cause a validator more work than the limit."""


Key = tuple[int, str]
"""The identity of a subschema, and the base URI of its references."""


@dataclass(frozen=True, slots=True)
class NameWork:
    """The names of an object, to which `propertyNames` applies a subschema."""


@dataclass(frozen=True, slots=True)
class MemberWork:
    """The members to which a subschema applies: the one called `name`, or (None) all except `but`."""

    name: str | None = None
    but: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ItemWork:
    """The items to which a subschema applies: the one at `index`, or (None) all from `first` on."""

    index: int | None = None
    first: int = 0


Part = NameWork | MemberWork | ItemWork


def check_work(schema: Any) -> Subschema | None:
    """Check the work of a schema, in time linear in its size, and return the graph of its subschemas.

    None for a boolean schema. Raises TooMuchWorkError beyond the limits. The schema need not be valid: parts that are
    not schemas are skipped, and so are references that lead nowhere.
    """
    if not isinstance(schema, dict):
        return None
    work = _Work(schema)
    work.follow()
    work.count()
    return work.root


class Subschema:
    """One subschema, with those that apply to the same value (`here`) and those that apply to its parts (`below`).

    `closing` are those of `here` that a reference leads back to from inside. `steps` and `levels` are the steps and the
    longest chain for one value; 0 until counted. `factor` is how often `here` is evaluated.
    """

    __slots__ = ("below", "closing", "factor", "here", "levels", "node", "steps")

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node
        self.here: list[Subschema] = []
        self.below: list[tuple[Part, Subschema]] = []
        self.closing: set[Subschema] = set()
        self.steps = 0
        self.levels = 0
        # To determine what is unevaluated, the validator evaluates all adjacent keywords a second time.
        self.factor = 2 if any(keyword in node for keyword in _UNEVALUATED) else 1


class _Work:
    """The graph of the subschemas of one schema, and the count of its work."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._definition = schema
        resource = Resource.from_contents(schema, default_specification=DRAFT202012)
        registry: Registry[Any] = Registry().with_resource(_ROOT, resource)
        if _has_names(schema):
            with suppress(AttributeError, TypeError):  # a part is not a schema, which the validator reports
                # Crawl once, because each lookup of an anchor searches everything that has not been crawled yet.
                registry = registry.crawl()
        self._resolver = registry.resolver(_ROOT)
        self._known: dict[Key, Subschema] = {}
        self._targets: dict[tuple[str, str], Resolved[Any]] = {}
        """The targets of references, by the base URI and the reference."""
        self.root = Subschema(schema)
        self._open = {self.root}

    def follow(self) -> None:
        """Build the graph of the subschemas. Raises TooMuchWorkError for a chain longer than MAX_CHAIN."""
        self._known[id(self._definition), ""] = self.root
        path = [self.root]
        stack = [self._parts(self.root, self._resolver)]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                self._open.discard(path.pop())
            else:
                path.append(found[0])
                self._open.add(found[0])
                stack.append(self._parts(*found))
            if len(stack) > MAX_CHAIN:
                message = f"its references make a chain of more than {MAX_CHAIN:,} schemas; make it shorter"
                raise TooMuchWorkError.at(_DEFINITION, message)

    def _parts(self, schema: Subschema, resolver: Resolver[Any]) -> Iterator[tuple[Subschema, Resolver[Any]]]:
        """Record the parts of a subschema, and yield the new ones with their resolvers."""
        for node in _here(schema.node):
            part, is_new = self._part(node, resolver)
            if part is not None:
                schema.here.append(part)
                if is_new and _leads_on(part):
                    yield part, _inside(resolver, node)
        for about, node in _below(schema.node):
            part, is_new = self._part(node, resolver)
            if part is not None:
                schema.below.append((about, part))
                if is_new and _leads_on(part):
                    yield part, _inside(resolver, node)
        for keyword in REFERENCES:
            reference = schema.node.get(keyword)
            if isinstance(reference, str):
                yield from self._referred(schema, reference, resolver)

    def _referred(
        self, schema: Subschema, reference: str, resolver: Resolver[Any]
    ) -> Iterator[tuple[Subschema, Resolver[Any]]]:
        """Record the target of a reference, and yield it with its resolver if it is new."""
        resolved = self._targets.get((base_of(resolver), reference))
        if resolved is None:
            try:
                resolved = resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError, AttributeError):
                return  # the validator reports it
            self._targets[base_of(resolver), reference] = resolved
        if not isinstance(resolved.contents, dict):
            return
        part, is_new = self._known_as(resolved.contents, resolved.resolver)
        schema.here.append(part)
        if part in self._open:
            schema.closing.add(part)
        if is_new:
            yield part, resolved.resolver

    def _part(self, node: Any, resolver: Resolver[Any]) -> tuple[Subschema | None, bool]:
        """Return the subschema of a node and whether it is new; (None, False) for a boolean."""
        return self._known_as(node, _inside(resolver, node)) if isinstance(node, dict) else (None, False)

    def _known_as(self, node: dict[str, Any], resolver: Resolver[Any]) -> tuple[Subschema, bool]:
        key = (id(node), base_of(resolver))
        found = self._known.get(key)
        if found is not None:
            return found, False
        found = self._known[key] = Subschema(node)
        return found, True

    def count(self) -> None:
        """Count the steps for one value. Raises TooMuchWorkError for more than MAX_STEPS allows."""
        limit = MAX_STEPS + _STEPS_EACH * len(self._known)
        looped = [each for each in self._known.values() if not each.steps and self._counted(each, limit)]
        steps = 0
        for each in looped:
            steps += self._walked(each, limit - steps)

    def _counted(self, start: Subschema, limit: int) -> bool:
        """Count the steps of a subschema from those of its parts; return whether a loop was found.

        Raises TooMuchWorkError.
        """
        is_looped = False
        within = {id(start)}
        stack = [(start, iter(start.here))]
        while stack:
            schema, parts = stack[-1]
            part = next(parts, None)
            if part is None:
                schema.steps = 1 + schema.factor * sum(each.steps for each in schema.here)
                schema.levels = 1 + max((each.levels for each in schema.here), default=0)
                self._check(schema, limit)
                within.discard(id(schema))
                stack.pop()
            elif id(part) in within:
                is_looped = True
            elif not part.steps:
                within.add(id(part))
                stack.append((part, iter(part.here)))
        return is_looped

    def _walked(self, start: Subschema, limit: int) -> int:
        """Return the steps of a subschema with a loop, by walking every path until it repeats.

        Raises TooMuchWorkError for more than `limit` steps.
        """
        steps, within = 0, {id(start)}
        stack = [(start, iter(start.here))]
        while stack:
            schema, parts = stack[-1]
            part = next(parts, None)
            steps += 1
            if steps > limit:
                raise self._too_much(start, limit)
            if part is None:
                within.discard(id(schema))
                stack.pop()
            elif id(part) not in within:
                within.add(id(part))
                stack.append((part, iter(part.here)))
        return steps

    def _check(self, schema: Subschema, limit: int) -> None:
        if schema.steps > limit:
            raise self._too_much(schema, limit)
        if schema.levels > MAX_LEVELS:
            message = (
                f"more than {MAX_LEVELS} schemas are nested on one value; follow fewer references in a row"
            )
            raise TooMuchWorkError.at(_DEFINITION + _pointer_to(schema.node, self._definition), message)

    def _too_much(self, schema: Subschema, limit: int) -> TooMuchWorkError:
        message = (
            f"a value is looked at more than {limit:,} times: schemas that are named twice name others twice "
            "in turn; name each of them once"
        )
        return TooMuchWorkError.at(_DEFINITION + _pointer_to(schema.node, self._definition), message)


def _has_names(schema: dict[str, Any]) -> bool:
    """Return whether finding the targets of references takes more than a JSON Pointer from the root."""
    try:
        return _NAMED.search(orjson.dumps(schema)) is not None
    except orjson.JSONEncodeError:  # integers beyond 64 bits, or a part that is not JSON
        return True


def _leads_on(schema: Subschema) -> bool:
    return not _LEADING.isdisjoint(schema.node)


def base_of(resolver: Resolver[Any]) -> str:
    """Return the base URI of relative references; the library has no public name for it."""
    base: str = resolver._base_uri  # noqa: SLF001 - see above
    return "" if base == _ROOT else base


def _inside(resolver: Resolver[Any], node: Any) -> Resolver[Any]:
    """Return the resolver inside a subschema, which may have its own base URI."""
    if not isinstance(node, dict) or not isinstance(node.get("$id"), str):
        return resolver
    return resolver.in_subresource(Resource.from_contents(node, default_specification=DRAFT202012))


def _here(node: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value, without references."""
    yield from (node[keyword] for keyword in _HERE if keyword in node)
    for keyword in _HERE_LISTS:
        if isinstance(node.get(keyword), list):
            yield from node[keyword]
    for keyword in _HERE_MAPS:
        if isinstance(node.get(keyword), dict):
            yield from node[keyword].values()


def _below(node: dict[str, Any]) -> Iterator[tuple[Part, Any]]:
    """Yield the subschemas that apply to items, members and names, each with the part to which it applies."""
    if "propertyNames" in node:
        yield NameWork(), node["propertyNames"]
    yield from _members(node)
    yield from _items(node)


def _members(node: dict[str, Any]) -> Iterator[tuple[Part, Any]]:
    named = node.get("properties")
    declared = named if isinstance(named, dict) else {}
    for name, part in declared.items():
        yield MemberWork(name), part
    patterns = node.get("patternProperties")
    for part in patterns.values() if isinstance(patterns, dict) else ():
        yield MemberWork(), part
    for keyword in _MEMBERS:
        if keyword in node:
            yield (
                MemberWork(but=frozenset(declared if keyword == "additionalProperties" else ())),
                node[keyword],
            )


def _items(node: dict[str, Any]) -> Iterator[tuple[Part, Any]]:
    first = 0
    for keyword in _ITEM_LISTS:
        if isinstance(node.get(keyword), list):
            first = len(node[keyword])
            for index, part in enumerate(node[keyword]):
                yield ItemWork(index), part
    for keyword in _ITEMS:
        if keyword in node:
            yield ItemWork(first=first if keyword in {"items", "additionalItems"} else 0), node[keyword]


def _pointer_to(wanted: dict[str, Any], root: Any) -> str:
    """Return the pointer of a part of a schema, found by identity; "" for the root, or if it is not found."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if node is wanted:
            return join(path)
        if isinstance(node, dict):
            stack.extend(((*path, name), member) for name, member in node.items())
        elif isinstance(node, list):
            stack.extend(((*path, str(index)), item) for index, item in enumerate(node))
    return ""
