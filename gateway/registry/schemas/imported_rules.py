"""Conversion of Confluent's rules and tags to those of a contract, as far as the judge supports them.

A condition in CEL over the whole message becomes a `cel` rule over `this`. One of type CEL_FIELD becomes a rule for
each of its fields, and so does an inline rule of the schema. Confluent's meaning is kept: a missing value violates
the rule, as an error of the expression does in a client. The stream judges the record on the wire: after a
transformation at the producer, and before one at a consumer. So a condition is judged if clients apply it to this
record in one of its modes. A writer runs the rules in their order, a reader in the opposite one. In both cases, a
rule after a condition in the set runs between the condition and the wire.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.privacy.classes import WHOLE_RECORD, classes_of
from tidegate.contracts.rules.cel import ExpressionResult, outcome_of
from tidegate.contracts.verdict import Severity
from tidegate.contracts.words import seen
from tidegate.gateway.registry.schemas.entities import AVRO, JSON, Metadata, Rule, RuleSet
from tidegate.gateway.registry.schemas.fields import FieldsOfSchema, SchemaField, fields_of, with_inline_tags
from tidegate.gateway.registry.schemas.parsing import ParsedSchema
from tidegate.gateway.registry.schemas.rule_expressions import (
    assertion,
    condition,
    is_boolean,
    is_split_in_a_text,
    may_run,
    parts_of,
    quoted,
    reads,
    touches,
)

CLASS_PREFIX: Final = "confluent:"
"""Prefix of the classes from metadata; the next registration replaces them."""


def with_tags(contract: DataContract, schema: ParsedSchema, metadata: Metadata | None) -> DataContract:
    """Return the contract with classes for the fields that the metadata's tags name; its own classes take precedence.

    A tag on the whole record classifies each of its fields.
    """
    own = {
        pointer: name
        for pointer, name in contract.classification.items()
        if not name.startswith(CLASS_PREFIX)
    }
    tags = metadata.tags if metadata is not None else {}
    found: dict[str, str] = {}
    if tags:
        text = with_inline_tags(schema.schema_type, json.dumps(schema.definition), tags)
        tagged = contract.schema_.model_copy(update={"definition": json.loads(text)})
        bare = contract.model_copy(update={"schema_": tagged, "classification": {}, "mask": {}})
        found = dict(classes_of(bare).by_pointer)
        whole = found.pop(WHOLE_RECORD, None)
        if whole is not None:
            found |= dict.fromkeys(_fields(schema.definition), whole)
    imported = {pointer: f"{CLASS_PREFIX}{name}" for pointer, name in found.items()}
    return contract.model_copy(update={"classification": imported | own})


def _fields(definition: Any) -> list[str]:
    if not isinstance(definition, dict):
        return []
    names = [*definition.get("properties", {}), *(each["name"] for each in definition.get("fields", ()))]
    return [join((name,)) for name in names]


PREFIX = "confluent."
"""Prefix of the ids of rules from a rule set; the next registration replaces them."""

MAX_RULES: Final = 200
"""Maximum rules that one rule set is converted to; the rest are left out, with a reason."""
MAX_WORK: Final = 1_000_000
"""Maximum work of converting one rule set.

A field costs 1 if a rule skips it by its tags, otherwise 100 plus the length of the rule's expression. Clients choose
the numbers of rules and of fields, and the work grows with their product.
"""
_ASKED_WORK: Final = 100
_LONGEST_POINTER: Final = 200
_MAX_ID = 80
_ODD = re.compile(r"[^a-z0-9._-]+")
_MEMBER = re.compile(r"message((?:\.[A-Za-z_]\w*)+)")
_EVERYTHING = frozenset({""})
_TOO_MUCH: Final = "is beyond the work that reading one rule set may take"
_NO_BOOLEAN: Final = "may give something else than true or false, which clients read differently"
_CEL_TYPES = {
    "STRING": "string",
    "BYTES": "bytes",
    "INT": "int",
    "LONG": "int",
    "FLOAT": "double",
    "DOUBLE": "double",
    "BOOLEAN": "bool",
}


@dataclass(frozen=True, slots=True)
class ImportedRules:
    """The converted rules, which the judge runs, and a reason for each rule that was left out.

    `labels` has how a reason names a converted rule, by its id: the rule as clients know it, and its place.
    """

    rules: tuple[Cel, ...]
    left_out: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


def import_rules(
    rule_set: RuleSet | None, schema: ParsedSchema, metadata: Metadata | None = None
) -> ImportedRules:
    """Convert the rules of a rule set, without disabled ones, and those that a schema carries.

    The tags of fields are those of the schema and of its metadata.
    """
    definition = schema.definition
    if metadata is not None and metadata.tags:
        definition = json.loads(with_inline_tags(schema.schema_type, json.dumps(definition), metadata.tags))
    importing = _Importing(fields_of(schema.schema_type, definition))
    importing.rule_set(rule_set or RuleSet())
    importing.inline()
    return ImportedRules(
        tuple(importing.taken.values()), tuple(dict.fromkeys(importing.left_out)), importing.labels
    )


def carried_rules(contract: DataContract) -> ImportedRules:
    """Return the rules that a contract's schema carries for clients, except those that the contract has itself."""
    schema = contract.schema_
    importing = _Importing(fields_of(AVRO if isinstance(schema, AvroSchema) else JSON, schema.definition))
    importing.inline()
    own = {(rule.field, rule.expr) for rule in contract.rules if isinstance(rule, Cel)}
    rules = tuple(rule for rule in importing.taken.values() if (rule.field, rule.expr) not in own)
    return ImportedRules(rules, tuple(dict.fromkeys(importing.left_out)))


@dataclass(slots=True)
class _Importing:
    """The state of a conversion: the rules so far, the reasons for left-out ones, and the work done."""

    fields: FieldsOfSchema
    taken: dict[str, Cel] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    work: int = 0
    changes: dict[str, frozenset[str]] = field(default_factory=dict)
    """The places that a transformation may change, by its name."""

    @property
    def is_exhausted(self) -> bool:
        """Return whether the limit of work is exceeded."""
        return self.work > MAX_WORK

    def rule_set(self, rule_set: RuleSet) -> None:
        """Convert the rules of a rule set, each with the places that change between it and the wire."""
        enabled = [rule for rule in rule_set.domain_rules if not rule.disabled]
        encoding = [rule for rule in rule_set.encoding_rules if not rule.disabled]
        for rule in rule_set.migration_rules:
            if not rule.disabled:
                self.left_out.append(f"{rule.name} is {_migration(rule)}")
        for index, rule in enumerate(enabled):
            if _obstacle(rule) is not None or self.is_exhausted:
                self._rule(rule, [])
                continue
            self.work += len(enabled)
            later = [*(each for each in enabled[index + 1 :] if each.kind == "TRANSFORM"), *encoding]
            changed = [
                self._changed([each for each in later if mode in _modes(each)]) for mode in _modes(rule)
            ]
            if rule.type == "CEL":
                self.work += sum(1 for _ in reads(rule.expr or "")) * sum(map(len, changed))
            self._rule(rule, changed)
        for rule in encoding:
            self.left_out.append(f"{rule.name} is {_kind(rule)}, which clients run")

    def inline(self) -> None:
        """Convert the rules that the schema carries."""
        places = [(path, rule) for path, rule in self.fields.of_record]
        places += [(each.path, rule) for each in self.fields.found for rule in each.rules]
        for path, rule in places:
            if not isinstance(rule, dict) or not isinstance(rule.get("expr"), str):
                self.left_out.append(f"in the schema at {_shown(path)} is without an expression")
                continue
            names = {"this": "value"} if path else {"this": "this"}
            name = f"{rule.get('name') or 'unnamed'}"
            self._take(
                name,
                assertion(rule["expr"], names, is_of_field=bool(path)),
                path,
                description=rule.get("doc") or None,
                violates_null=False,
            )

    def _rule(self, rule: Rule, changed: list[frozenset[str]]) -> None:
        """Convert a rule; `changed` has, for each of its modes, the places that change between it and the wire."""
        obstacle = _obstacle(rule)
        if obstacle is not None:
            self.left_out.append(f"{rule.name} is {obstacle}")
        elif self.is_exhausted:
            self.left_out.append(f"{rule.name} {_TOO_MUCH}")
        elif rule.type == "CEL_FIELD" and any(places != _EVERYTHING for places in changed):
            self._of_fields(rule, changed)
        elif rule.type == "CEL_FIELD" or all(touches(reads(rule.expr or ""), places) for places in changed):
            self.left_out.append(f"{rule.name} is about what a later rule of clients changes")
        elif not self._is_boolean(rule):
            self.left_out.append(f"{rule.name} {_NO_BOOLEAN}")
        else:
            expression = condition(rule.expr or "", {"message": "this"}, is_of_field=False)
            self._take(rule.name, expression, (), rule=rule)

    def _of_fields(self, rule: Rule, changed: list[frozenset[str]]) -> None:
        is_about_any = False
        for each in self.fields.found:
            if self.is_exhausted:
                self.left_out.append(f"{rule.name} from {_readable(each.pointer)} on {_TOO_MUCH}")
                return
            if not self._asks(rule, each, each.types):
                continue
            places_read = [*_reads_of_field(rule, each)]
            self.work += len(places_read) * sum(map(len, changed))
            if all(touches(places_read, places) for places in changed):
                self.left_out.append(
                    f"{rule.name} is about {_readable(each.pointer)}, which a later rule of clients changes"
                )
                continue
            for type_name in each.types:
                is_about_any = True
                names = _names(each, type_name)
                if type_name != "BOOLEAN" and not is_boolean(rule.expr or "", names, is_of_field=True):
                    self.left_out.append(f"{rule.name} at {_readable(each.pointer)} {_NO_BOOLEAN}")
                else:
                    self._of_field(rule, each, type_name)
        for pointer, reason in self.fields.left_out.items():
            self.work += _ASKED_WORK
            if self.is_exhausted:
                self.left_out.append(f"{rule.name} from {_readable(pointer)} on {_TOO_MUCH}")
                return
            self.left_out.append(f"{rule.name} is not asked at {_readable(pointer)}, which {reason}")
        if not is_about_any:
            self.left_out.append(f"{rule.name} is about no field of the schema")

    def _of_field(self, rule: Rule, each: SchemaField, type_name: str) -> None:
        expression = condition(rule.expr or "", _names(each, type_name), is_of_field=True)
        if len(each.types) > 1:  # a value has one of the types
            expression = f"type(value) != {_CEL_TYPES[type_name]} || ({expression})"
        of_null = condition(rule.expr or "", _names(each, "NULL"), is_of_field=True)
        refuses_null = each.is_seen_null and not _holds_of_null(of_null)
        suffix = f"-{type_name.lower()}" if len(each.types) > 1 else ""
        self._take(rule.name + suffix, expression, each.path, rule=rule, violates_null=refuses_null)

    def _take(
        self,
        name: str,
        expression: str,
        path: tuple[str, ...],
        *,
        rule: Rule | None = None,
        description: str | None = None,
        violates_null: bool = False,
    ) -> None:
        """Take a condition. `rule` is the one of the rule set that it is from; None: the schema carries it."""
        if rule is None:
            label = f"in the schema at {_shown(path)} ({_readable(name)})"
        else:
            label = f"{rule.name} at {_shown(path)}" if path else rule.name
        if len(self.taken) >= MAX_RULES:
            self.left_out.append(f"{label} is one of more than {MAX_RULES}")
            return
        rule_id = _id_of(name, path)
        warns = rule is not None and (rule.on_failure or "ERROR").partition(",")[0].strip().upper() == "NONE"
        while rule_id in self.taken:
            rule_id = f"{rule_id[: _MAX_ID - 9]}-{hashlib.sha256(f'{rule_id}{expression}'.encode()).hexdigest()[:8]}"
        self.labels[rule_id] = label
        self.taken[rule_id] = Cel(
            id=rule_id,
            kind="cel",
            expr=expression,
            field=join(path) or None,
            description=rule.doc if rule is not None else description,
            severity=Severity.WARNING if warns else Severity.ERROR,
            on_violation=None if warns else OnViolation.QUARANTINE,
            nulls="violate" if violates_null or not path else "pass",
            strict=bool(path),
        )

    def _asks(self, rule: Rule, each: SchemaField, types: Iterable[str]) -> bool:
        """Return whether a rule about fields may apply to a field of one of these types."""
        if rule.tags and not each.tags & set(rule.tags):
            self.work += 1
            return False
        self.work += _ASKED_WORK + len(rule.expr or "")
        return _is_applicable(rule, each, types)

    def _changed(self, transformations: list[Rule]) -> frozenset[str]:
        """Return the places of a record that some transformations may change; "" stands for every place."""
        changed: set[str] = set()
        for rule in transformations:
            if rule.type != "CEL_FIELD" and (
                not rule.tags or rule.type in {"CEL", "JSONATA", "ENCRYPT_PAYLOAD"}
            ):
                return _EVERYTHING
            if rule.name not in self.changes:
                self.changes[rule.name] = self._changed_by(rule)
            self.work += len(self.changes[rule.name])
            if self.is_exhausted:
                return _EVERYTHING
            changed |= self.changes[rule.name]
        return frozenset(changed)

    def _changed_by(self, rule: Rule) -> frozenset[str]:
        changed: set[str] = set()
        for each in self.fields.found:
            if self.is_exhausted:
                return _EVERYTHING
            if rule.type == "CEL_FIELD":
                is_changed = self._asks(rule, each, (*each.types, *each.element_types))
            else:
                is_changed = not rule.tags or bool(each.tags & set(rule.tags))
            if is_changed:
                changed.add(each.pointer)
        # Fields in the places that were left out are unknown, so any of them may change.
        return frozenset(changed | {pointer.rstrip("/") for pointer in self.fields.left_out})

    def _is_boolean(self, rule: Rule) -> bool:
        """Return whether a condition over a message is boolean: by its type, or as the name of a boolean field."""
        found = _MEMBER.fullmatch(parts_of(rule.expr or "")[-1])
        if found is None:
            return is_boolean(rule.expr or "", {"message": "this"}, is_of_field=False)
        path = tuple(found[1].split(".")[1:])
        types = [(*each.types, *each.element_types) for each in self.fields.found if each.path == path]
        return types == [("BOOLEAN",)]


def _migration(rule: Rule) -> str:
    return f"a migration of type {rule.type} and mode {rule.mode}, which readers' clients run and the stream never executes"


def _obstacle(rule: Rule) -> str | None:
    if rule.mode not in {"WRITE", "READ", "WRITEREAD"}:
        return _migration(rule)
    if rule.kind != "CONDITION":
        return f"{_kind(rule)}, which clients run"
    if rule.type not in {"CEL", "CEL_FIELD"}:
        return f"a condition of type {rule.type}"
    if not rule.expr or not parts_of(rule.expr):
        return "without an expression"
    if is_split_in_a_text(rule.expr):
        return "split by clients at the semicolon in a text, where no client can read it"
    return None


def _modes(rule: Rule) -> tuple[str, ...]:
    return ("WRITE", "READ") if rule.mode == "WRITEREAD" else (rule.mode,)


def _kind(rule: Rule) -> str:
    return f"a {rule.kind} of type {rule.type}"


def _names(each: SchemaField, type_name: str) -> Mapping[str, str]:
    """Return the values that a client passes to a rule about a field, as literals."""
    tags = ", ".join(quoted(tag) for tag in sorted(each.tags))
    return {
        "message": "parent",
        "fullName": quoted(each.full_name),
        "typeName": quoted(type_name),
        "name": quoted(each.name),
        "tags": f"[{tags}]",
    }


def _is_applicable(rule: Rule, each: SchemaField, types: Iterable[str]) -> bool:
    """Return whether the guard of a rule about fields may be true for a value of one of some types ("": any)."""
    known = {"fullName", "name", "tags"}
    return any(
        may_run(
            rule.expr or "",
            {
                name: text
                for name, text in _names(each, type_name).items()
                if name in known or (name == "typeName" and type_name)
            },
        )
        for type_name in (*types, *(["NULL"] if each.is_seen_null else ()))
    )


def _reads_of_field(rule: Rule, each: SchemaField) -> Iterator[str]:
    """Yield the places that a rule about a field reads: the field, and members of the object that contains it."""
    yield each.pointer
    holder = join(each.path[:-1])
    for place in reads(rule.expr or ""):
        yield holder + place


def _holds_of_null(expression: str) -> bool:
    return outcome_of(expression, {"value": None, "parent": {}, "this": {}}) in {ExpressionResult.HOLDS, None}


def _shown(path: tuple[str, ...]) -> str:
    return _readable(join(path) or "its root")


def _readable(pointer: str) -> str:
    """Return a pointer fit for a message: field names come from clients, and may be long or contain line breaks."""
    return seen(pointer if len(pointer) <= _LONGEST_POINTER else f"{pointer[:_LONGEST_POINTER]}...")


def _id_of(name: str, path: tuple[str, ...]) -> str:
    whole = ".".join([name, *path])
    found = PREFIX + _ODD.sub("-", whole.lower()).strip("._-")
    if len(found) > _MAX_ID or found == PREFIX:
        found = f"{found[: _MAX_ID - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return found
