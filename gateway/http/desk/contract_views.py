"""The page of one contract version: its requirements in words, its fields, and the consumers that depend on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import FieldType, SchemaFields
from tidegate.contracts.document.model import (
    Compatibility,
    DataContract,
    ErrorBudget,
    Expectation,
    Retention,
    Team,
)
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.document.yaml_writer import write_yaml
from tidegate.contracts.errors import ContractError, NotFoundError
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.verdict import Severity, Stage
from tidegate.contracts.words import counted
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.clauses import is_required
from tidegate.gateway.registry.consumers import KnownConsumer
from tidegate.gateway.registry.publication import LATEST, ContractRegistry
from tidegate.gateway.registry.subject_contracts import unfollowed_in
from tidegate.gateway.registry.unjudged_rules import count_of, unjudged_rules
from tidegate.gateway.storage.agreements import WeakeningProposal
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.reports import Enforcement

MOST_FIELDS = 500
MOST_LINES = 2000


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One declared field. `kind` is its type in words, `classed` its classification, `rules` the ids of its rules.

    `kind`, `classed`, `mask` and `column` are "" if there is none.
    """

    pointer: str
    kind: str
    is_required: bool
    classed: str
    mask: str
    column: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule in words. `about` has the pointers of its fields, `consequence` says what a violation leads to.

    `passes` completes a sentence that starts with `passes with`; None if there is no such sentence.
    """

    rule: Rule
    about: tuple[str, ...]
    passes: str | None
    consequence: str

    @property
    def words(self) -> str:
        """Return the requirement of the rule: its description, else a generated sentence, else ""."""
        return self.rule.description or (f"passes with {self.passes}" if self.passes else "")


@dataclass(frozen=True, slots=True)
class ExpectationRow:
    """One expectation in words: the columns it concerns, and its other arguments as (name, value) pairs."""

    expectation: Expectation
    words: str
    columns: tuple[str, ...]
    bounds: tuple[tuple[str, str], ...]
    consequence: str


@dataclass(frozen=True, slots=True)
class Contact:
    """The contact of a team. `address` is a URL (http, https or mailto); None if the contact is plain text."""

    text: str
    address: str | None


@dataclass(frozen=True, slots=True)
class ContractView:
    """One version of a contract, and what the registry knows about it.

    `more_fields` and `yaml_cut` are the numbers of fields and lines that are not shown. `terms` are (name, sentence)
    pairs. `unjudged` are the reasons why `unjudged_count` rules are not judged. `unfollowed` are sentences about columns
    that tables cannot follow. `read_by` are the consumers that still read a deprecated version; None for other
    versions. `has_stream` is whether a batch was reported.
    """

    shown: ContractVersion
    contract: DataContract
    contact: Contact | None
    versions: tuple[ContractVersion, ...]
    fields: tuple[FieldRow, ...]
    more_fields: int
    rules: tuple[RuleRow, ...]
    expectations: tuple[ExpectationRow, ...]
    consumers: tuple[KnownConsumer, ...]
    terms: tuple[tuple[str, str], ...]
    unjudged: tuple[str, ...]
    unjudged_count: int
    unfollowed: tuple[str, ...]
    read_by: tuple[str, ...] | None
    proposals: tuple[WeakeningProposal, ...]
    enforcement: Enforcement
    has_stream: bool
    yaml: str
    yaml_cut: int


def contract_view(factory: Factory, contract_id: str, version: str | None) -> ContractView:
    """Return the page of a version; None means the current one. Raises NotFoundError."""
    registry = factory.registry()
    versions = registry.versions(contract_id)
    shown = registry.version(contract_id, version) if version else _current(registry, versions)
    contract = shown.contract
    fields = tuple(_field_rows(contract))
    unjudged = unjudged_rules(shown, None)
    yaml = _cut(contract_yaml(shown))
    return ContractView(
        shown,
        contract,
        _contact(contract.team),
        versions,
        fields[:MOST_FIELDS],
        max(0, len(fields) - MOST_FIELDS),
        tuple(rule_row(contract, rule) for rule in contract.rules),
        tuple(expectation_row(contract, each) for each in contract.expectations),
        factory.consumers().consumers(contract_id),
        tuple(_terms(contract)),
        unjudged,
        count_of(unjudged),
        unfollowed_in(shown.note),
        factory.consumers().readers((shown,)).get(shown.registry_id),
        factory.approvals().proposals(contract_id),
        factory.streams().enforcement(contract_id),
        factory.streams().has_reported(contract_id),
        yaml=yaml[0],
        yaml_cut=yaml[1],
    )


def _cut(text: str) -> tuple[str, int]:
    """Return the first MOST_LINES lines of a document, and the number of omitted lines."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES)


def _current(registry: ContractRegistry, versions: tuple[ContractVersion, ...]) -> ContractVersion:
    """Return the highest enforced version, or the highest version if none is enforced."""
    try:
        return registry.version(versions[0].contract_id, LATEST)
    except NotFoundError:
        return versions[0]


def _contact(team: Team | None) -> Contact | None:
    if team is None or team.contact is None:
        return None
    text = team.contact
    if text.startswith(("https://", "http://")):
        return Contact(text, text)
    is_mail = "@" in text.strip("@") and not any(each.isspace() or each in ":/?" for each in text)
    return Contact(text, f"mailto:{text}" if is_mail else None)


def _field_rows(contract: DataContract) -> Iterator[FieldRow]:
    """Yield the declared fields, outermost first; nothing if the schema no longer compiles."""
    try:
        fields = schema_fields(contract)
    except ContractError:
        return
    rules: dict[str, list[str]] = {}
    for rule in contract.rules:
        for pointer in kind_of(rule).fields(rule):
            rules.setdefault(pointer, []).append(rule.id)
    columns = {column.from_: column.name for column in contract.columns}
    # Rules, classifications and masks may refer to deeper fields than the limited list of the schema.
    named = (*fields.pointers(), *contract.classification, *rules, *contract.mask)
    for pointer in dict.fromkeys(named):
        found = fields.find(pointer)
        yield FieldRow(
            pointer,
            "" if found is None else type_in_words(found),
            is_required(contract, pointer),
            contract.classification.get(pointer, ""),
            contract.mask[pointer].value if pointer in contract.mask else "",
            columns.get(pointer, ""),
            tuple(rules.get(pointer, ())),
        )


def type_in_words(found: FieldType) -> str:
    """Return the type of a field in words, such as `date`, `integer or null`, `decimal(12,2)` or `any`."""
    if not found.types:
        return "never present"
    types = set(found.types)
    if len(types - {"null"}) >= len(_EVERY):
        return "any"
    if "number" in types:
        types.discard("integer")
    words = [_type_word(each, found) for each in sorted(types - {"null"})]
    return " or ".join((*words, *(["null"] if "null" in types else []))) or "null"


_EVERY = ("string", "integer", "number", "boolean", "object", "array")


def _type_word(name: str, found: FieldType) -> str:
    if name in {"string", "integer"} and found.times:
        return "/".join(sorted(found.times))
    if found.decimal is not None and name in {"bytes", "number", "string"}:
        return f"decimal({found.decimal[0]},{found.decimal[1]})"
    return name


_CONSEQUENCES = {
    OnViolation.QUARANTINE: "the record is quarantined",
    OnViolation.DROP: "the record is dropped: it is written nowhere",
    OnViolation.FAIL: "the stream stops",
    OnViolation.ALERT: "the record is written, and an alert is sent",
}


def rule_row(contract: DataContract, rule: Rule) -> RuleRow:
    """Return a rule of a contract in words."""
    kind = kind_of(rule)
    fields = _fields_of(contract)
    passes = None if fields is None else kind.remedy(rule, fields)
    is_warning = rule.severity is Severity.WARNING
    consequence = "the record is written and counted" if is_warning else _consequence(contract, rule)
    return RuleRow(rule, kind.fields(rule), passes, consequence)


def rule_words(contract: DataContract | None) -> Mapping[tuple[Stage, str], str]:
    """Return the requirement of each rule in words, by stage and rule id; empty without a contract."""
    rows = () if contract is None else (rule_row(contract, rule) for rule in contract.rules)
    return {(Stage.RULE, row.rule.id): row.words for row in rows}


def published_contract(factory: Factory, name: str) -> DataContract | None:
    """Return the contract named `id@version`; None if the registry does not have it."""
    contract_id, _, version = name.rpartition("@")
    try:
        return factory.registry().version(contract_id, version).contract
    except NotFoundError:
        return None


def _consequence(contract: DataContract, rule: Rule) -> str:
    return _CONSEQUENCES[rule.on_violation or contract.on_violation]


def _fields_of(contract: DataContract) -> SchemaFields | None:
    try:
        return schema_fields(contract)
    except ContractError:
        return None


_BATCH_CONSEQUENCES = {
    "fail": "the stream stops",
    "alert": "the batch is written, and an alert is sent",
    "quarantine": "the accepted records of the batch are quarantined",
}
_COLUMN_KEYS = ("column", "column_A", "column_B", "column_list", "column_set")


def expectation_row(contract: DataContract, each: Expectation) -> ExpectationRow:
    """Return an expectation of a contract in words."""
    kwargs = dict(each.kwargs)
    columns: list[str] = []
    for key in _COLUMN_KEYS:
        value = kwargs.pop(key, None)
        columns += [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []
    if each.severity is Severity.WARNING:
        consequence = "the batch is written, and the result is kept"
    else:
        own = each.on_violation or contract.on_violation.value
        consequence = _BATCH_CONSEQUENCES["quarantine" if own == "drop" else own]
    return ExpectationRow(
        each,
        each.type.removeprefix("expect_").replace("_", " "),
        tuple(columns),
        tuple((name.replace("_", " "), _value(value)) for name, value in kwargs.items()),
        consequence,
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _terms(contract: DataContract) -> Iterator[tuple[str, str]]:
    """Yield the terms of a contract as (name, sentence) pairs."""
    yield "A record that violates it", _CONSEQUENCES[contract.on_violation].removeprefix("the record ")
    yield "Error budget", _budget(contract.error_budget)
    yield "Compatibility", _COMPATIBILITY[contract.compatibility]
    if contract.undeclared == "ignore":
        yield "Undeclared properties", _UNDECLARED
    yield "Null values", _TOMBSTONES[contract.tombstones]
    yield "Retention", _retention(contract.retention)
    if contract.framing != "none":
        yield "Framing", _FRAMINGS[contract.framing]
    if contract.primary_key:
        yield "Primary key", ", ".join(contract.primary_key)
    if contract.compatibility_group is not None:
        yield "Compatibility group", contract.compatibility_group or "that of versions without one"
    if contract.key_mask is not None:
        yield "Key in the accepted topic", contract.key_mask.value


_ACTIONS = {
    "fail": "the stream stops with an error",
    "pause": "the stream is paused",
    "quarantine": "the whole batch is quarantined",
}


def _budget(budget: ErrorBudget | None) -> str:
    if budget is None:
        return "none: no share of refused records stops the stream"
    of = "a batch" if budget.window_records is None else f"the last {budget.window_records:,} records"
    least = f" of at least {counted(budget.min_records, 'record')}" if budget.min_records > 1 else ""
    return f"above {budget.ratio * 100:g} % refused of {of}{least}, {_ACTIONS[budget.action]}"


_UNDECLARED = (
    "assumed to be absent when versions are compared: producers that already send one may be refused once a later "
    "version declares it"
)
_TOMBSTONES = {
    "refuse": "refused",
    "pass": "accepted as they are",
    "delete": "delete the row of their key",
}
_FRAMINGS = {
    "confluent-prefix": "a Confluent schema id before the payload",
    "confluent-header": "a Confluent schema id in a header",
    "auto": "a Confluent schema id before the payload or in a header, or none",
}
_OLD, _NEW = (
    "readers of a new version can read old records",
    "readers of the old version can read new records",
)
_COMPATIBILITY = {
    Compatibility.NONE: "no promise: a new version may break readers",
    Compatibility.BACKWARD: f"backward: {_OLD}",
    Compatibility.BACKWARD_TRANSITIVE: f"backward, transitive: {_OLD}, of all earlier versions",
    Compatibility.FORWARD: f"forward: {_NEW}",
    Compatibility.FORWARD_TRANSITIVE: f"forward, transitive: {_NEW}, in all earlier versions",
    Compatibility.FULL: f"full: {_OLD}, and {_NEW}",
    Compatibility.FULL_TRANSITIVE: f"full, transitive: {_OLD}, and {_NEW}, over all versions",
}


def _retention(retention: Retention) -> str:
    days = retention.quarantine_days
    quarantine = "for ever" if days is None else counted(days, "day")
    accepted = retention.accepted_days
    written = "as long as the source and a week" if accepted is None else counted(accepted, "day")
    return f"refused records {quarantine}; accepted topics {written}"


def contract_yaml(version: ContractVersion) -> str:
    """Return the document of a version as self-contained YAML, with its members in their original order."""
    return write_yaml(json.loads(version.document))
