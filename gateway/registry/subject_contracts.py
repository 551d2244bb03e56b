"""The contract of a subject `<topic>-value`: versions from either API are enforced, and visible in both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from fastavro.schema import to_parsing_canonical_form

from tidegate.contracts.columns.union import GroupColumns, unfollowed
from tidegate.contracts.compiled import check_compiles, table_columns
from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.load import dump_contract
from tidegate.contracts.document.model import AvroSchema, DataContract, JsonSchema, Status
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.document.semver import next_major, next_minor, next_patch, precedence
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import compile_plan
from tidegate.gateway.registry.compatibility_groups import group_setting
from tidegate.gateway.registry.proofs import proven
from tidegate.gateway.registry.schema_compatibility import Earlier, check_compatibility, inclusion
from tidegate.gateway.registry.schema_content import (
    SchemaContent,
    metadata_of,
    parsed_version,
)
from tidegate.gateway.registry.schemas.avro_text import avro_text
from tidegate.gateway.registry.schemas.entities import AVRO, JSON, OWN_PROPERTIES, Config, Metadata
from tidegate.gateway.registry.schemas.imported_rules import PREFIX, ImportedRules, import_rules, with_tags
from tidegate.gateway.registry.schemas.json_schema import NAMES, json_text
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT, context_of, topic_of
from tidegate.gateway.registry.schemas.parsing import ParsedSchema
from tidegate.gateway.registry.subject_scope import DEFAULT_LEVEL, ENFORCED
from tidegate.gateway.registry.unjudged_rules import noted
from tidegate.gateway.storage.sql import ContractVersion, Stores
from tidegate.gateway.storage.subjects import SubjectVersion

_FIRST = "1.0.0"
_TABLE = "the table: "
"""Start of the line of a note about a column that tables cannot follow."""
_MOST_VERSIONS = 100
_MOST_CONTRACTS = 10
"""Versions that are searched for a column that returns, and contracts with it that are read: registrations hold a lock."""
_MOST_COLUMNS = 20
"""Columns that a note names: each version keeps its note, and a schema may have thousands of fields."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The place of a registration among the versions of a contract.

    `base` is the version that it follows and inherits from, None for a first one. `is_new`: it starts a new major
    version, because no enforced version has its compatibility group.
    """

    contract_id: str
    topic: str
    base: ContractVersion | None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class PlannedVersion:
    """The contract version that a registration would create (a draft if it does not compile), and its note."""

    contract: DataContract
    note: str | None


def lineage_of(stores: Stores, subject: str, metadata: Metadata | None, config: Config) -> Lineage | None:
    """Find the contract version that a registration follows; None if no contract can govern the subject."""
    topic = topic_of(subject) if context_of(subject) == DEFAULT_CONTEXT else None
    if topic is None:
        return None
    contract_id = stores.contracts.contract_of_topic(topic)
    if contract_id is None:
        # The topic's name may already be the id of another topic's contract.
        return None if stores.contracts.topic_of(topic) is not None else Lineage(topic, topic, None)
    base = _base(stores, contract_id)
    if config.group is None or base is None:
        return Lineage(contract_id, topic, base)
    group = group_of(metadata, config.group)
    for version in stores.subjects.newest_first(subject):
        if version.registry_id is not None and group_of(metadata_of(version.schema), config.group) == group:
            contract = stores.contracts.by_registry_id(version.registry_id)
            if contract is not None and contract.status in ENFORCED:
                return Lineage(contract_id, topic, contract)
    return Lineage(contract_id, topic, base, is_new=base.status in ENFORCED and base.deleted_at is None)


def group_of(metadata: Metadata | None, group: str | None) -> str | None:
    """Return the compatibility group of a version: the metadata property that `group` names. None without one."""
    return None if metadata is None or group is None else metadata.properties.get(group) or None


def plan_version(
    stores: Stores, line: Lineage, content: SchemaContent, config: Config, *, breaks: bool = False
) -> PlannedVersion:
    """Return the contract version that a schema creates.

    It inherits all parts from the version before it, except the schema, the tags of its metadata and the rules of its
    rule set. The change determines its semantic version; `breaks` means a breaking change beyond the schemas, as is a
    column that tables cannot follow. It is a draft if the inherited parts do not compile against the schema.
    """
    imported = import_rules(content.rule_set, content.parsed, content.metadata)
    group = group_of(content.metadata, config.group)
    next_contract = _next_contract(stores, line, content.parsed, group)
    tagged = with_tags(next_contract, content.parsed, content.metadata)
    contract, notes = _with_rules(tagged, imported)
    changes = () if contract.status == Status.DRAFT else _table_changes(stores, line, contract)
    notes += [f"{_TABLE}{sentence}" for sentence in changes]
    note = "\n".join((*notes, *_reading(content.parsed))) or None
    if line.base is None:
        return PlannedVersion(contract, note)
    former = line.base.contract
    version = _next_version(
        stores, line, former, (contract, content.parsed), config, breaks=breaks or bool(changes)
    )
    return PlannedVersion(contract.model_copy(update={"version": version}), note)


def unfollowed_in(note: str | None) -> tuple[str, ...]:
    """Return the sentences of a version's note about columns that tables cannot follow."""
    lines = (note or "").split("\n")
    return tuple(line.removeprefix(_TABLE) for line in lines if line.startswith(_TABLE))


def table_changes(stores: Stores, line: Lineage | None, content: SchemaContent) -> tuple[str, ...]:
    """Return a sentence for each column that tables could not follow if a schema were registered."""
    if line is None or line.base is None:
        return ()
    former = line.base.contract
    changed = former.model_copy(update={"schema_": _schema_part(content.parsed, former)})
    return _table_changes(stores, line, changed)


def _table_changes(stores: Stores, line: Lineage, contract: DataContract) -> tuple[str, ...]:
    """Return a sentence for each column that tables of enforced versions cannot change to those of `contract`."""
    base = line.base
    if base is None or base.status not in ENFORCED or base.deleted_at is not None:
        return ()
    former = base.contract
    if former.columns or former.schema_ == contract.schema_:  # declared columns do not follow the schema
        return ()
    added = proven(_added_fields, former, contract)
    return proven(_unfollowed, contract, former, *_earlier(stores, line, added))


def _earlier(stores: Stores, line: Lineage, fields: tuple[str, ...]) -> Iterator[DataContract]:
    """Yield the newest enforced contracts whose schemas name one of `fields`: their tables may still have its column."""
    names = {json.dumps(field, ensure_ascii=ensure) for field in fields for ensure in (True, False)}
    versions = stores.subjects.newest_first(subject_of(line.topic)) if names else iter(())
    found = 0
    for version in islice(versions, _MOST_VERSIONS):
        if version.registry_id is None or not any(name in version.schema.text for name in names):
            continue
        kept = stores.contracts.by_registry_id(version.registry_id)
        if kept is not None and kept.status in ENFORCED:
            yield kept.contract
            found += 1
        if found == _MOST_CONTRACTS:
            return


def _added_fields(former: DataContract, contract: DataContract) -> tuple[str, ...]:
    """Return the names of the fields behind the columns that `contract` has and `former` lacks."""
    columns = _columns(former), _columns(contract)
    if columns[0] is None or columns[1] is None:
        return ()
    held = {column.name.lower() for column in columns[0].columns}
    return tuple(column.path[-1] for column in columns[1].columns if column.name.lower() not in held)


def _unfollowed(contract: DataContract, *formers: DataContract) -> tuple[str, ...]:
    after, *before = (_columns(each) for each in (contract, *formers))
    if after is None:
        return ()
    found = tuple(unfollowed(after, *(each for each in before if each is not None)))
    more = len(found) - _MOST_COLUMNS
    last = (f"{more:,} more columns are of types that tables cannot change to",) if more > 0 else ()
    return (*found[:_MOST_COLUMNS], *last)


def _columns(contract: DataContract) -> GroupColumns | None:
    try:
        return GroupColumns(contract, table_columns(contract))
    except ContractError:
        return None


def new_version(contract: DataContract, at: datetime) -> ContractVersion:
    """Return a contract as a version to be stored; `registry_id` and `number` are 0 until it is."""
    return ContractVersion(
        registry_id=0,
        contract_id=contract.id,
        number=0,
        version=contract.version,
        precedence=precedence(contract.version),
        topic=contract.topic,
        status=contract.status.value,
        domain=contract.domain,
        fingerprint=fingerprint(contract),
        document=dump_contract(contract),
        published_at=at,
    )


def add_contract_version(
    stores: Stores, line: Lineage, planned: PlannedVersion, number: int, at: datetime
) -> ContractVersion:
    """Store a planned version. While it is a draft, the enforced version stays enforced."""
    if stores.contracts.topic_of(line.contract_id) is None:
        stores.contracts.add_contract(line.contract_id, line.topic, at)
    version = new_version(planned.contract, at)
    kept = stores.contracts.add_version(replace(version, number=number, topic=line.topic, note=planned.note))
    stores.lifecycle.record(kept.registry_id, kept.status, at)
    return kept


def prepare_version_proofs(stores: Stores, line: Lineage, schema: ParsedSchema, config: Config) -> None:
    """Compute and cache the proofs for the number of the next contract version, before the write transaction."""
    if line.base is not None:
        former = _schema_of(stores, line.base)
        if not _breaks(former, schema, config):
            _is_equivalent(former, schema)


def _base(stores: Stores, contract_id: str) -> ContractVersion | None:
    """Find the version whose rules the next one inherits: the enforced one, or else the highest, deleted or not."""
    enforced = stores.contracts.highest(contract_id, ENFORCED)
    return enforced or next(iter(stores.contracts.versions(contract_id, deleted=True)), None)


def add_subject_version(stores: Stores, version: ContractVersion, at: datetime) -> SubjectVersion:
    """Store a contract version as a version of its subject, with the same number."""
    contract = version.contract
    metadata = _own_metadata(version, contract)
    setting = group_setting(stores, contract.topic)
    if setting is not None and contract.compatibility_group:
        metadata = metadata.with_property(setting, contract.compatibility_group)
    content = SchemaContent(parsed_contract_schema(contract), metadata=metadata)
    schema = stores.schemas.by_guid(DEFAULT_CONTEXT, content.guid)
    if schema is None:
        schema = content.keep(stores, DEFAULT_CONTEXT, None, at)
    return stores.subjects.add_version(
        SubjectVersion(subject_of(version.topic), version.number, schema, version.registry_id, at)
    )


def adopt_contracts(stores: Stores, at: datetime) -> None:
    """Register every contract version that is not a draft under its subject, for databases of older versions."""
    for registry_id in stores.subjects.unlinked_contracts():
        version = stores.contracts.by_registry_id(registry_id)
        if version is not None:
            added = add_subject_version(stores, version, at)
            if version.deleted_at is not None:
                stores.subjects.set_deleted(added.subject, (added.number,), version.deleted_at)


def parsed_contract_schema(contract: DataContract) -> ParsedSchema:
    """Return the schema of a contract that compiles."""
    definition = contract.schema_.definition
    if isinstance(contract.schema_, AvroSchema):
        normal = avro_text(definition, sort_properties=True)
        return ParsedSchema(AVRO, avro_text(definition), normal, definition)
    return ParsedSchema(JSON, json_text(definition), json_text(definition, sort_keys=True), definition)


def _schema_of(stores: Stores, version: ContractVersion) -> ParsedSchema:
    """Return the schema of a contract version as its subject stores it, read in the version's dialect."""
    shown = stores.subjects.of_contract(version.registry_id)
    if shown is not None:
        return parsed_version(stores, shown)
    return parsed_contract_schema(version.contract)


def _reading(schema: ParsedSchema) -> tuple[str, ...]:
    """Return a note on how a schema without a named draft is read, if clients differ."""
    if schema.dialect is None or not schema.differences:
        return ()
    listed = "; ".join(one.sentence for one in schema.differences)
    sentence = (
        f"the schema names no draft and is read as {NAMES[schema.dialect]}, and clients read it differently"
    )
    return (f"{sentence}: {listed}. Name its draft in `$schema`",)


def next_number(stores: Stores, subject: str) -> int:
    """Return the number of the next version of a subject, and of the contract behind it."""
    highest = stores.subjects.highest_number(subject)
    topic = topic_of(subject)
    contract_id = stores.contracts.contract_of_topic(topic) if topic else None
    if contract_id is not None:
        highest = max(highest, stores.contracts.highest_number(contract_id))
    return highest + 1


def _own_metadata(version: ContractVersion, contract: DataContract) -> Metadata:
    rules: list[dict[str, Any]] = contract.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include={"rules"}
    ).get("rules", [])
    return Metadata(
        properties={
            f"{OWN_PROPERTIES}contract": f"{version.contract_id}@{version.version}",
            f"{OWN_PROPERTIES}fingerprint": version.fingerprint,
            f"{OWN_PROPERTIES}rules": json.dumps(rules, ensure_ascii=False, separators=(",", ":")),
        }
    )


def _next_contract(stores: Stores, line: Lineage, schema: ParsedSchema, group: str | None) -> DataContract:
    if line.base is None:
        highest = stores.contracts.highest_name(line.contract_id)
        return DataContract.model_validate(
            {
                "apiVersion": "tidegate/v1",
                "kind": "DataContract",
                "id": line.contract_id,
                "version": _FIRST if highest is None else next_major(highest),
                "topic": line.topic,
                "framing": _framing(schema),
                "compatibility_group": group,
                "schema": _schema_part(schema, None),
            }
        )
    contract = line.base.contract
    changes: dict[str, Any] = {
        "status": Status.ACTIVE,
        "schema_": _schema_part(schema, contract),
        "compatibility_group": group,
    }
    if schema.schema_type == AVRO and contract.framing == "auto":
        changes["framing"] = _framing(schema)
    return contract.model_copy(update=changes)


def _schema_part(schema: ParsedSchema, contract: DataContract | None) -> JsonSchema | AvroSchema:
    if schema.schema_type == AVRO:
        return AvroSchema(type="avro", definition=schema.definition)
    former = contract.schema_ if contract else None
    formats = former.formats if isinstance(former, JsonSchema) else "assert"
    return JsonSchema(type="json-schema", definition=schema.definition, formats=formats)


def _framing(schema: ParsedSchema) -> str:
    """Return the framing: Avro needs a known one, because bare Avro may look like a prefixed record."""
    return "confluent-prefix" if schema.schema_type == AVRO else "auto"


def _next_version(
    stores: Stores,
    line: Lineage,
    former: DataContract,
    new: tuple[DataContract, ParsedSchema],
    config: Config,
    *,
    breaks: bool,
) -> str:
    """Return the next version: major if the change breaks the level, patch if its meaning is the same, else minor."""
    contract, schema = new
    before = _schema_of(stores, line.base) if line.base else parsed_contract_schema(former)
    if line.is_new or breaks or _breaks(before, schema, config):
        return next_major(stores.contracts.highest_name(contract.id) or former.version)
    end = precedence(f"{next_major(former.version)}-0")
    highest = stores.contracts.highest_name(contract.id, end) or former.version
    is_same = former.rules == contract.rules and _is_equivalent(before, schema)
    return next_patch(highest) if is_same else next_minor(highest)


def _breaks(former: ParsedSchema, schema: ParsedSchema, config: Config) -> bool:
    """Return whether a schema is incompatible at the level; under NONE, whether old records are no longer valid."""
    level = config.level if config.level not in {None, "NONE"} else DEFAULT_LEVEL
    one = Config(level=level, policy=config.policy)
    return not check_compatibility(schema, one, (Earlier.of("the version before", former),)).is_compatible


def _is_equivalent(former: ParsedSchema, schema: ParsedSchema) -> bool:
    """Return whether two schemas of one type describe the same records; Avro names must be equal too."""
    if schema.schema_type == AVRO:
        texts = (to_parsing_canonical_form(one.definition) for one in (former, schema))
        return len(set(texts)) == 1
    return inclusion(schema, former).outcome is Outcome.PROVEN


def _with_rules(contract: DataContract, imported: ImportedRules) -> tuple[DataContract, list[str]]:
    """Add imported rules to the contract's own: as an active version if it compiles, otherwise as a draft."""
    own = tuple(rule for rule in contract.rules if not rule.id.startswith(PREFIX))
    taken, refused = _compiling(contract, imported)
    notes = noted((*imported.left_out, *refused))
    contract = contract.model_copy(update={"rules": (*own, *taken), "status": Status.ACTIVE})
    problems = problems_of(contract)
    if problems:
        contract = contract.model_copy(update={"status": Status.DRAFT})
        mistakes = "; ".join(f"{problem.pointer} {problem.message}" for problem in problems)
        notes.insert(0, f"a draft, because it does not compile with this schema: {mistakes}")
    return contract, notes


def _compiling(contract: DataContract, imported: ImportedRules) -> tuple[tuple[Cel, ...], tuple[str, ...]]:
    """Split rules into those that compile against the contract's schema and the reasons why others do not."""
    rules = imported.rules
    if not rules:
        return (), ()
    wrong = proven(_wrong_rules, contract, rules)
    refused = (
        f"{imported.labels[rules[index].id]} is not an expression that the judge supports ({message})"
        for index, message in wrong.items()
    )
    return tuple(rule for index, rule in enumerate(rules) if index not in wrong), tuple(refused)


def _wrong_rules(contract: DataContract, rules: tuple[Cel, ...]) -> dict[int, str]:
    """Compile the schema of a contract with the rules; return what is wrong with a rule, by its place in the list.

    All problems of all rules come from one compilation: one for each rule would take minutes for a large schema.
    """
    bare = contract.model_copy(
        update={"columns": (), "expectations": (), "primary_key": (), "classification": {}, "rules": rules}
    )
    found: dict[int, str] = {}
    try:
        check_compiles(bare)
    except ContractError as error:
        for problem in error.problems:
            if problem.pointer.startswith("/rules/"):
                found.setdefault(int(problem.pointer.split("/")[2]), problem.message)
    return found


def problems_of(contract: DataContract) -> tuple[Problem, ...]:
    """Return why a contract does not compile; empty if it does."""
    return proven(_compile_problems, contract)


def _compile_problems(contract: DataContract) -> tuple[Problem, ...]:
    try:
        compile_plan(contract)
    except ContractError as error:
        return error.problems
    return ()
