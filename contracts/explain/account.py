"""Explain the violations of a record to a user: a sentence for each, and which values would pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from tidegate.contracts.document.fields import is_index, tokens
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.explain.schema_sentences import (
    column_remedy,
    json_flaw,
    payload_remedy,
    schema_remedy,
    schema_sentence,
)
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.formats.payload import NO_PAYLOAD
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.classes import ANY, BODY, Path, Visibility, visibility_of
from tidegate.contracts.rules.compiled import read
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.places import EACH, is_deep
from tidegate.contracts.rules.rule_kind import Values
from tidegate.contracts.verdict import Stage, Violation
from tidegate.contracts.words import name_of, plain_sentence, shown


@dataclass(frozen=True, slots=True)
class Explanation:
    """One violation, explained for a user.

    `sentence` contains only values that the user may see; `is_guarded` means that a value was left out. `description` is
    the rule's own, None without one. `passes` completes a sentence that begins with `passes with`; None if unknown.
    """

    violation: Violation
    sentence: str
    description: str | None = None
    passes: str | None = None
    is_guarded: bool = False


class Explainer:
    """Explains violations of one contract's records to users with the same visibility."""

    def __init__(self, plan: EnforcementPlan, visibility: Visibility) -> None:
        self._plan = plan
        self._visibility = visibility
        self._rules = {rule.id: rule for rule in plan.contract.rules}
        self._columns = {column.name: column for column in plan.typed_columns}

    @classmethod
    def of(cls, plan: EnforcementPlan, revealed: Iterable[str] = ()) -> Explainer:
        """Return the explainer for users who may see the classified fields that are `revealed`."""
        return cls(plan, visibility_of(plan.contract, plan.payload_format.fields.names(), revealed))

    def explain(
        self, value: bytes | None, violations: Sequence[Violation], header: bytes | None = None
    ) -> tuple[Explanation, ...]:
        """Return the explanation of each violation of a record; `value` are its bytes, `header` its schema header.

        Raises Unavailable if the record names an unknown schema and the registry does not answer.
        """
        if not violations:
            return ()
        record = self._plan.record_of(value, header) if self._reads_surely else NO_PAYLOAD
        errors = self._errors(record, violations)
        return tuple(self._explanation(violation, record, value, errors) for violation in violations)

    @property
    def _reads_surely(self) -> bool:
        """Return whether values can be attributed to their fields; Avro bytes of an unknown schema may be misread."""
        is_avro = isinstance(self._plan.contract.schema_, AvroSchema)
        is_unsure = is_avro and self._plan.needs_writers and self._plan.writers is None
        return not (is_unsure and self._visibility.is_limited)

    def _explanation(
        self,
        violation: Violation,
        record: Any,
        value: bytes | None,
        errors: dict[tuple[str, str, str], list[jsonschema_rs.ValidationError]],
    ) -> Explanation:
        match violation.stage:
            case Stage.RULE if violation.code in self._rules:
                return self._of_rule(violation, self._rules[violation.code], record)
            case Stage.SCHEMA:
                return self._of_schema(violation, errors.get(_key(violation), []))
            case Stage.COLUMN if violation.code in self._columns:
                return self._of_column(violation, record)
            case _:
                flaw = json_flaw(value) if value and violation.code == "json.invalid" else None
                sentence = f"{plain_sentence(violation)}: {flaw}" if flaw else plain_sentence(violation)
                return Explanation(violation, sentence, passes=payload_remedy(violation.code))

    def _of_rule(self, violation: Violation, rule: Rule, record: Any) -> Explanation:
        kind, fields = kind_of(rule), self._plan.payload_format.fields
        places = {pointer: kind.locate(rule, pointer, violation.pointer) for pointer in kind.cited(rule)}
        sentence: str | None = None
        is_guarded = False
        # The pointer of a rule at any depth does not locate an object below an undeclared property.
        is_located = not is_deep(tokens(kind.place(rule))) or EACH not in tokens(violation.pointer)
        if not isinstance(record, Violation) and places:
            is_guarded = any(self._visibility.hides(_steps(record, path)) for path in places.values())
            if is_located and not is_guarded:
                values = {pointer: read(record, path) for pointer, path in places.items()}
                named = {kind.place(rule): tokens(violation.pointer)}
                sentence = kind.sentence(rule, Values(values, fields, named | places))
        passes = kind.remedy(rule, fields)
        return Explanation(
            violation, sentence or plain_sentence(violation), rule.description, passes, is_guarded
        )

    def _of_schema(self, violation: Violation, errors: list[jsonschema_rs.ValidationError]) -> Explanation:
        payload_format = self._plan.payload_format
        if not errors or not isinstance(payload_format, JsonSchemaFormat):
            return Explanation(violation, plain_sentence(violation), passes=payload_remedy(violation.code))
        patterns = payload_format.patterns
        error = errors.pop(0) if len(errors) > 1 else errors[0]
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):  # the name is public
            return Explanation(violation, _absence(error, violation), None, schema_remedy(error, patterns))
        is_guarded = self._visibility.hides(tuple(error.instance_path))
        names_hidden = self._visibility.is_limited and not self._visibility.shows(BODY)
        sentence = (
            None
            if is_guarded
            else schema_sentence(error, _pointer(error, violation), patterns, names_hidden=names_hidden)
        )
        return Explanation(
            violation, sentence or plain_sentence(violation), None, schema_remedy(error, patterns), is_guarded
        )

    def _of_column(self, violation: Violation, record: Any) -> Explanation:
        column = self._columns[violation.code]
        is_guarded = self._visibility.hides(_steps(record, column.path))
        sentence = plain_sentence(violation)
        if violation.message != column.violation.message:  # a limit of the table, not of the column type
            return Explanation(violation, sentence)
        if not is_guarded and not isinstance(record, Violation):
            value = read(record, column.path)
            if value is not None:
                sentence = f"{name_of(violation.pointer)} is {shown(value)}, which a column of type {column.type} cannot hold"
        return Explanation(violation, sentence, None, column_remedy(column.type), is_guarded)

    def _errors(
        self, record: Any, violations: Sequence[Violation]
    ) -> dict[tuple[str, str, str], list[jsonschema_rs.ValidationError]]:
        """Return the schema validation errors by the key of their violation."""
        found: dict[tuple[str, str, str], list[jsonschema_rs.ValidationError]] = {}
        payload_format = self._plan.payload_format
        if (
            isinstance(payload_format, JsonSchemaFormat)
            and not isinstance(record, Violation)
            and any(violation.stage is Stage.SCHEMA for violation in violations)
        ):
            for violation, error in payload_format.errors(record):
                found.setdefault(_key(violation), []).append(error)
        return found


def _absence(error: jsonschema_rs.ValidationError, violation: Violation) -> str:
    missing = error.kind.property  # type: ignore[attr-defined] # of kind Required
    within = f" in {name_of(violation.pointer)}" if violation.pointer else ""
    asked = "" if error.schema_path[-1] == "required" else ", which another property asks for"
    return f"{missing} is missing{within}{asked}"


def _key(violation: Violation) -> tuple[str, str, str]:
    return violation.code, violation.pointer, violation.message


def _pointer(error: jsonschema_rs.ValidationError, violation: Violation) -> str:
    """Return the pointer of a violation with undeclared names in full; use it only if the user may see them."""
    own = violation.pointer.split("/")
    path = [str(part).replace("~", "~0").replace("/", "~1") for part in error.instance_path]
    return "/".join(["", *path]) if ANY in own else violation.pointer


def _steps(record: Any, path: tuple[str, ...]) -> Path:
    """Return a path with array indexes as integers, as far as the record has such arrays."""
    return tuple(_walk(record, path))


def _walk(record: Any, path: tuple[str, ...]) -> Iterator[str | int]:
    for token in path:
        yield int(token) if isinstance(record, list) and is_index(token) else token
        record = read(record, (token,))
