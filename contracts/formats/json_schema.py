"""JSON payloads with JSON Schema, drafts 4 to 2020-12, by jsonschema-rs. Remote references are never fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.json_fields import JsonFields, Schema
from tidegate.contracts.formats.json_keywords import REFERENCES, with_whole_limits
from tidegate.contracts.formats.json_numbers import EXACT_KEYWORDS, Validators, needs_exact_keywords
from tidegate.contracts.formats.json_patterns import EcmaPatterns
from tidegate.contracts.formats.json_records import decode_json
from tidegate.contracts.formats.json_steps import MAX_LISTED, MAX_STEPS, StepCounter
from tidegate.contracts.formats.json_work import check_work
from tidegate.contracts.suggestions import closest
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_VIOLATIONS: Final = 100
"""Maximum schema violations that are reported for one record."""
_BACKTRACK_LIMIT: Final = 100_000
_PATTERN_BYTES: Final = 20 * 2**20
"""Twice the default of jsonschema-rs, because `.` with the meaning of ECMA-262 takes twice the space."""
_MAX_SHOWN: Final = 120
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_OTHER_TYPE_NAMES: Final = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "list": "array",
    "map": "object",
    "dict": "object",
    "record": "object",
}
"""Type names of other languages. An edit distance matches `int` with `integer`, but misses `float`."""
_DEFINITION: Final = "/schema/definition"
_NO_MORE_PROPERTIES: Final = "has properties that the schema does not allow"
_NO_MORE_ITEMS: Final = "has items that the schema does not allow"
_CLOSING: Final = {
    "additionalProperties": _NO_MORE_PROPERTIES,
    "unevaluatedProperties": _NO_MORE_PROPERTIES,
    "additionalItems": _NO_MORE_ITEMS,
    "unevaluatedItems": _NO_MORE_ITEMS,
    "items": _NO_MORE_ITEMS,
}
"""Keywords that close an object or an array when their schema is `false`."""
_TOO_MUCH_WORK: Final = "json.too-much-work"
UNDECIDED: Final = Violation(
    Stage.SCHEMA,
    _TOO_MUCH_WORK,
    "",
    Severity.ERROR,
    f"takes more than {MAX_STEPS:,} steps to judge by the schema",
)
"""The violation of a record that takes too many steps to validate."""
UNLISTED: Final = Violation(
    Stage.SCHEMA,
    _TOO_MUCH_WORK,
    "",
    Severity.ERROR,
    f"breaks the schema; to list where takes more than {MAX_LISTED:,} steps",
)
"""The violation of an invalid record whose errors take too many steps to list."""


class JsonSchemaFormat:
    """A compiled JSON Schema. The constructor raises ContractError, located in the contract document."""

    def __init__(self, schema: JsonSchema) -> None:
        definition = schema.definition
        if definition is None:
            raise ContractError.at("/schema", "the schema itself is missing: give `definition` or `file`")
        graph = check_work(definition)
        self.definition = definition
        self._graph = graph
        judging = None if graph is None else StepCounter(graph, is_once=True, limit=MAX_STEPS)
        self._judging = None if judging is None or judging.is_calm else judging
        self.formats_hold = schema.formats == "assert"
        self._validators, self.patterns = _compile(definition, assert_formats=self.formats_hold)
        self.is_valid = self._bounded(self._validators.is_valid)
        """Tests whether a decoded record fits the schema; False for one that is `UNDECIDED`. Never raises."""
        self.fields = JsonFields(definition)

    @cached_property
    def _listing(self) -> StepCounter | None:
        """Return the counter of the steps for listing the errors of a record; None if no record takes many."""
        found = None if self._graph is None else StepCounter(self._graph, is_once=False, limit=MAX_LISTED)
        return None if found is None or found.is_calm else found

    @property
    def is_bounded(self) -> bool:
        """Return whether every record can be judged within MAX_STEPS, so that none is `UNDECIDED`."""
        return self._judging is None

    def rewritten_test(self, definition: Schema) -> Callable[[Any], bool]:
        """Compile an equivalent form of the definition, and return a test whether a record fits it."""
        return self._bounded(_compile(definition, assert_formats=self.formats_hold)[0].is_valid)

    def subschema_test(self, subschema: Schema) -> Callable[[Any], bool]:
        """Compile a part of the schema without references, and return a test whether a value without Decimals fits it."""
        root = self.definition if isinstance(self.definition, dict) else {}
        dialect = {"$schema": root["$schema"]} if "$schema" in root else {}
        whole = {**dialect, "allOf": [subschema]}
        return _compile(whole, assert_formats=self.formats_hold)[0].plain.is_valid

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield for each payload the decoded record, or a Violation. The writer's schema is ignored."""
        return decode_json(framed.payloads)

    def violations(self, record: Any) -> tuple[Violation, ...]:
        """Return the schema violations of a record, at most MAX_VIOLATIONS; only one if it takes too many steps."""
        excess = self._excess(record)
        if excess is not None:
            return (excess,)
        found: dict[Violation, None] = {}
        try:
            for error in self._validators.of(record).iter_errors(record):
                found[self._violation(error)] = None
                if len(found) == MAX_VIOLATIONS:
                    break
        except ValueError:  # errors contain values, and Python converts at most 4,300 digits of an integer
            found = dict.fromkeys(islice(self._without_values(record), MAX_VIOLATIONS))
        return tuple(found)

    def errors(self, record: Any) -> Iterator[tuple[Violation, jsonschema_rs.ValidationError]]:
        """Yield the schema violations of a record, each with the validator's error, which contains values.

        Yields nothing for a record that takes too many steps, or that has an integer of more than 4,300 digits, whose
        errors cannot be created.
        """
        if self._excess(record) is not None:
            return
        try:
            yield from (
                (self._violation(error), error) for error in self._validators.of(record).iter_errors(record)
            )
        except ValueError:
            return

    def _bounded(self, is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """Return a test that first refuses records that take too many steps, if there can be any."""
        judging = self._judging
        return is_valid if judging is None else lambda record: not judging.exceed(record) and is_valid(record)

    def _excess(self, record: Any) -> Violation | None:
        """Return the violation of an invalid record that takes too many steps to judge or to list; else None."""
        if self._judging is not None and self._judging.exceed(record):
            return UNDECIDED
        return UNLISTED if self.takes_long(record) else None

    def takes_long(self, record: Any) -> bool:
        """Return whether listing the errors of a record, which caches nothing, takes more than MAX_LISTED steps."""
        return self._listing is not None and self._listing.exceed(record)

    def refusing(self, record: Any) -> frozenset[str]:
        """Return the JSON Pointers (into the schema) of the keywords that refuse a record; empty if it fits."""
        errors = self._validators.of(record).iter_errors(record)
        original = self.patterns.original
        return frozenset(join(tuple(original(str(part)) for part in error.schema_path)) for error in errors)

    def _without_values(self, record: Any) -> Iterator[Violation]:
        """Yield the schema violations of a record with keyword and place only, without limits and values."""
        names = self.fields.names()
        for error in self._validators.of(record).evaluate(record).errors():
            keyword = tokens(error["schemaLocation"])[-1]
            path: list[str] = []
            value = record
            for token in tokens(error["instanceLocation"]):
                is_known = isinstance(value, list) or token in names
                value = value[int(token)] if isinstance(value, list) else value[token]
                path.append(token if is_known else "*")
            yield _violation(
                keyword, join(tuple(path)), f"does not fit the keyword `{keyword}` of the schema"
            )

    def _violation(self, error: jsonschema_rs.ValidationError) -> Violation:
        names = self.fields.names()
        path = tuple(
            str(part) if isinstance(part, int) or part in names else "*" for part in error.instance_path
        )
        code, sentence = error.kind.name, _sentence(error.kind, names, self.patterns)
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Custom):
            sentence = error.message
        keyword = error.schema_path[-1] if error.schema_path else ""
        if keyword in _CLOSING and isinstance(error.kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
            code, sentence = str(keyword), _CLOSING[str(keyword)]
        return _violation(code, join(path), sentence)


def require_schema(definition: Schema, *, assert_formats: bool) -> None:
    """Raise ContractError, located in the contract document, if a schema does not compile.

    The work of the schema is not limited.
    """
    _compile(definition, assert_formats=assert_formats)


def _violation(code: str, pointer: str, message: str) -> Violation:
    return Violation(Stage.SCHEMA, code, pointer, Severity.ERROR, message)


def _compile(definition: Schema, *, assert_formats: bool) -> tuple[Validators, EcmaPatterns]:
    """Compile with a linear-time pattern engine or, for look-around, with one that has bounded backtracking.

    `maximum: 10.0` means the same as `maximum: 10`. A string on which a pattern reaches the backtracking limit does not
    match it.
    """
    engines = (
        (jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES), EcmaPatterns(with_lookaround=False)),
        (
            jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_BYTES),
            EcmaPatterns(with_lookaround=True),
        ),
    )
    whole = with_whole_limits(definition)
    error: Exception | None = None
    for options, patterns in engines:
        try:
            build = partial(
                jsonschema_rs.validator_for,
                patterns.rewritten(whole),
                validate_formats=assert_formats,
                pattern_options=options,
                offline=True,
            )
            plain = build()
            exact = build(keywords=EXACT_KEYWORDS) if needs_exact_keywords(whole) else None
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as refused:
            error = refused
        else:
            return Validators(plain, exact), patterns
    raise _compile_error(error, definition, patterns)


def _compile_error(error: Exception | None, definition: Schema, patterns: EcmaPatterns) -> ContractError:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return ContractError.at(_DEFINITION, f"not a JSON Schema: {error}")
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
        return _reference_error(error.message, definition)
    pointer = _DEFINITION + join(tuple(str(part) for part in error.instance_path))
    is_type = [str(part) for part in error.schema_path][-3:] == ["properties", "type", "anyOf"]
    message = _type_mistake(error.instance) if is_type else patterns.restored(error.message)
    return ContractError.at(pointer, f"not a JSON Schema: {message}")


def _type_mistake(found: Any) -> str:
    """Return the message about an invalid `type`, with a suggestion if another name is similar."""
    unknown = [each for each in (found if isinstance(found, list) else [found]) if each not in _TYPES]
    if not unknown:
        return "`type` must list each type once, and at least one"
    word = unknown[0]
    if isinstance(word, str):
        right = _OTHER_TYPE_NAMES.get(word.casefold()) or closest(word, _TYPES)
        if right is not None:
            return f"there is no type `{word:.40}`; did you mean `{right}`?"
        return f"there is no type `{word:.40}`; use one of {', '.join(_TYPES)}"
    return f"`type` must be one of {', '.join(_TYPES)}, or a list of them"


def _reference_error(message: str, definition: Schema) -> ContractError:
    if "meta-schema" in message:
        drafts = "write one of the drafts 4 to 2020-12, such as https://json-schema.org/draft/2020-12/schema"
        return ContractError.at(f"{_DEFINITION}/$schema", f"no such draft of JSON Schema is known; {drafts}")
    # jsonschema-rs reports the target that it did not find, but not the place of the reference.
    named = [
        (pointer, reference)
        for pointer, reference in _references(definition)
        if any(part and part in message for part in (reference, *reference.split("#")))
    ]
    # The message may also contain directories of the base URI; the target that was not found is at its end.
    sought = [each for each in named if any(_ends(part, message) for part in each[1].split("#"))]
    problems = tuple(
        Problem(f"{_DEFINITION}{pointer}", f"the reference `{reference}` {_whither(reference)}")
        for pointer, reference in sought or named
    )
    return ContractError(problems or (Problem(_DEFINITION, f"a reference leads nowhere: {message}"),))


def _ends(part: str, message: str) -> bool:
    """Return whether the text that a message quotes ends with a part of a reference."""
    return bool(part) and f"{part}'" in message


def _whither(reference: str) -> str:
    if reference.startswith("#"):
        return "leads nowhere"
    return "leads out of the document, and none is ever fetched; put what it names under `$defs`"


def _references(definition: Schema) -> Iterator[tuple[str, str]]:
    stack: list[tuple[str, Any]] = [("", definition)]
    while stack:
        pointer, node = stack.pop()
        if isinstance(node, list):
            stack.extend((f"{pointer}/{index}", item) for index, item in enumerate(node))
        elif isinstance(node, dict):
            stack.extend((pointer + join((name,)), member) for name, member in node.items())
            yield from (
                (pointer + join((name,)), member)
                for name, member in node.items()
                if name in REFERENCES and isinstance(member, str)
            )


def _sentence(kind: jsonschema_rs.ValidationErrorKind, names: frozenset[str], patterns: EcmaPatterns) -> str:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return the message for an error, with the limit of the schema but no value or undeclared name of the record."""
    kinds = jsonschema_rs.ValidationErrorKind
    match kind:
        case kinds.Type(types=types):
            return f"must be of type {' or '.join(types)}"
        case kinds.Required(property=name):
            return f"required property {f'`{name}`' if name in names else ''} is missing".replace("  ", " ")
        case kinds.Minimum(limit=limit):
            return f"must be at least {limit}"
        case kinds.Maximum(limit=limit):
            return f"must be at most {limit}"
        case kinds.ExclusiveMinimum(limit=limit):
            return f"must be above {limit}"
        case kinds.ExclusiveMaximum(limit=limit):
            return f"must be below {limit}"
        case kinds.MultipleOf(multiple_of=step):
            return f"must be a multiple of {step}"
        case kinds.MinLength(limit=limit):
            return f"must have at least {limit} characters"
        case kinds.MaxLength(limit=limit):
            return f"must have at most {limit} characters"
        case kinds.MinItems(limit=limit):
            return f"must have at least {limit} items"
        case kinds.MaxItems(limit=limit):
            return f"must have at most {limit} items"
        case kinds.MinProperties(limit=limit):
            return f"must have at least {limit} properties"
        case kinds.MaxProperties(limit=limit):
            return f"must have at most {limit} properties"
        case kinds.Pattern(pattern=pattern):
            return f"must match the pattern {_shown(patterns.original(pattern))}"
        case kinds.Format(format=name):
            return f"must have the format {name}"
        case kinds.Enum():
            return "must be one of the values that the schema lists"
        case kinds.Constant():
            return "must be the value that the schema gives"
        case kind if kind.name in _CLOSING:
            return _CLOSING[kind.name]
        case kinds.UniqueItems():
            return "must have no item twice"
        case kinds.Contains():
            return "must contain an item of the kind that the schema asks for"
        case kinds.PropertyNames():
            return "has a property whose name the schema does not allow"
        case kinds.AnyOf() | kinds.OneOfNotValid():
            return "fits none of the alternatives of the schema"
        case kinds.OneOfMultipleValid():
            return "fits more than one alternative of the schema, and must fit exactly one"
        case kinds.Not():
            return "must not fit the schema that is given under `not`"
        case kinds.FalseSchema():
            return "is not allowed here"
        case _:
            return f"does not fit the keyword `{kind.name}` of the schema"


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
