"""JSON Schema, drafts 4 to 2020-12, through jsonschema-rs. No `$ref` is ever fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from tidegate.contracts.document.diagnosis import closest
from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.json_fields import JsonFields, Schema
from tidegate.contracts.formats.json_keywords import REFERENCES, with_whole_limits
from tidegate.contracts.formats.json_patterns import EcmaPatterns
from tidegate.contracts.formats.json_records import decode_json
from tidegate.contracts.formats.json_steps import MAX_LISTED, MAX_STEPS, StepCounter
from tidegate.contracts.formats.json_work import check_work
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_VIOLATIONS: Final = 100
"""Maximum schema violations that one record is given."""
_BACKTRACK_LIMIT: Final = 100_000
_PATTERN_BYTES: Final = 20 * 2**20
"""Twice what jsonschema-rs allows: `.` as ECMA-262 has it takes twice the room."""
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
"""Names of types in other languages. An edit distance takes `int` for `integer`, and misses `float`."""
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
"""Error of a record that takes too many steps to validate."""
UNLISTED: Final = Violation(
    Stage.SCHEMA,
    _TOO_MUCH_WORK,
    "",
    Severity.ERROR,
    f"breaks the schema; to list where takes more than {MAX_LISTED:,} steps",
)
"""Error of an invalid record whose faults take too many steps to list."""


class JsonSchemaFormat:
    """One JSON Schema, compiled. Raises ContractError, located in the contract document."""

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
        self._validator, self.patterns = _compile(definition, assert_formats=self.formats_hold)
        self.is_valid = self._bounded(self._validator.is_valid)
        """Whether a decoded record fits the schema; not one that is `UNDECIDED`. Never raises."""
        self.fields = JsonFields(definition)

    @cached_property
    def _listing(self) -> StepCounter | None:
        """Return the validator that counts its steps while it lists faults; None if no record takes many."""
        found = None if self._graph is None else StepCounter(self._graph, is_once=False, limit=MAX_LISTED)
        return None if found is None or found.is_calm else found

    @property
    def is_bounded(self) -> bool:
        """Return whether no record takes so many steps to judge that it is `UNDECIDED`."""
        return self._judging is None

    def rewritten_test(self, definition: Schema) -> Callable[[Any], bool]:
        """Compile another form of the definition, of the same meaning, and return whether a record fits it."""
        return self._bounded(_compile(definition, assert_formats=self.formats_hold)[0].is_valid)

    def subschema_test(self, subschema: Schema) -> Callable[[Any], bool]:
        """Compile a part of the schema that holds no reference, and return whether a value fits it."""
        root = self.definition if isinstance(self.definition, dict) else {}
        dialect = {"$schema": root["$schema"]} if "$schema" in root else {}
        whole = {**dialect, "allOf": [subschema]}
        return _compile(whole, assert_formats=self.formats_hold)[0].is_valid

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation of stage decode that it is. The schema of its writer does not matter."""
        return decode_json(framed.payloads)

    def violations(self, record: Any) -> tuple[Violation, ...]:
        """Return every way in which a record violates the schema, at most MAX_VIOLATIONS."""
        excess = self._excess(record)
        if excess is not None:
            return (excess,)
        found: dict[Violation, None] = {}
        try:
            for error in self._validator.iter_errors(record):
                found[self._violation(error)] = None
                if len(found) == MAX_VIOLATIONS:
                    break
        except ValueError:  # an error holds its value, and Python makes no integer of more than 4,300 digits
            found = dict.fromkeys(islice(self._without_values(record), MAX_VIOLATIONS))
        return tuple(found)

    def errors(self, record: Any) -> Iterator[tuple[Violation, jsonschema_rs.ValidationError]]:
        """Yield each way in which a record breaks the schema with the error behind it, which holds its values.

        Yield nothing for a record that takes too many steps, or has an integer of more than 4,300 digits: its errors
        cannot show values.
        """
        if self._excess(record) is not None:
            return
        try:
            yield from ((self._violation(error), error) for error in self._validator.iter_errors(record))
        except ValueError:
            return

    def _bounded(self, is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """Refuse records that take too many steps before they are judged, if the schema has such records."""
        judging = self._judging
        return is_valid if judging is None else lambda record: not judging.exceed(record) and is_valid(record)

    def _excess(self, record: Any) -> Violation | None:
        """Return the violation of an invalid record that takes too many steps; None otherwise."""
        if self._judging is not None and self._judging.exceed(record):
            return UNDECIDED
        return UNLISTED if self.takes_long(record) else None

    def takes_long(self, record: Any) -> bool:
        """Return whether a validator that caches nothing takes more than MAX_LISTED steps."""
        return self._listing is not None and self._listing.exceed(record)

    def refusing(self, record: Any) -> frozenset[str]:
        """Yield JSON Pointers into the schema of the keywords that refuse a record; none if it fits."""
        errors = self._validator.iter_errors(record)
        original = self.patterns.original
        return frozenset(join(tuple(original(str(part)) for part in error.schema_path)) for error in errors)

    def _without_values(self, record: Any) -> Iterator[Violation]:
        """Yield each way in which a record breaks the schema, by keyword and place alone."""
        names = self.fields.names()
        for error in self._validator.evaluate(record).errors():
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
        keyword = error.schema_path[-1] if error.schema_path else ""
        if keyword in _CLOSING and isinstance(error.kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
            code, sentence = str(keyword), _CLOSING[str(keyword)]
        return _violation(code, join(path), sentence)


def require_schema(definition: Schema, *, assert_formats: bool) -> None:
    """Raise ContractError, located in the contract document, if a schema does not compile. Its work is not bounded."""
    _compile(definition, assert_formats=assert_formats)


def _violation(code: str, pointer: str, message: str) -> Violation:
    return Violation(Stage.SCHEMA, code, pointer, Severity.ERROR, message)


def _compile(definition: Schema, *, assert_formats: bool) -> tuple[jsonschema_rs.Validator, EcmaPatterns]:
    """Compile with linear-time patterns, or where they need look-around, with bounded backtracking.

    `maximum: 10.0` says what `maximum: 10` says. A string on which a pattern runs into the bound does not match it.
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
            validator = jsonschema_rs.validator_for(
                patterns.rewritten(whole),
                validate_formats=assert_formats,
                pattern_options=options,
                offline=True,
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as refused:
            error = refused
        else:
            return validator, patterns
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
    """Return the message about a `type` that JSON Schema has under another name, or under none."""
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
    # jsonschema-rs says what it did not find, not from where it was looked for.
    named = [
        (pointer, reference)
        for pointer, reference in _references(definition)
        if any(part and part in message for part in (reference, *reference.split("#")))
    ]
    # A folder that a base leads through is part of the name too: the one sought is at its end.
    sought = [each for each in named if any(_ends(part, message) for part in each[1].split("#"))]
    problems = tuple(
        Problem(f"{_DEFINITION}{pointer}", f"the reference `{reference}` {_whither(reference)}")
        for pointer, reference in sought or named
    )
    return ContractError(problems or (Problem(_DEFINITION, f"a reference leads nowhere: {message}"),))


def _ends(part: str, message: str) -> bool:
    """Return whether a part of a reference ends what a message quotes."""
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
    """Return the limit of the schema, never a value or an undeclared name of the record."""
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
