"""Review of a registration: by the compatibility level, and by the contract of the subject.

Clients of a schema registry get the same 409 and the same `is_compatible` for both. The messages name the rule, the
consumer and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from tidegate.contracts.compatibility.finding import Finding, is_transitive
from tidegate.contracts.document.model import Compatibility, DataContract, Status
from tidegate.contracts.document.semver import major_of
from tidegate.gateway.registry.changes import Review, Terms, compare_with, reviewed
from tidegate.gateway.registry.schema_compatibility import (
    CompatibilityAnswer,
    Earlier,
    Key,
    check_compatibility,
    key_of,
)
from tidegate.gateway.registry.schema_content import (
    SchemaContent,
    metadata_of,
    parsed_version,
    references_of,
    whole_name,
)
from tidegate.gateway.registry.schemas.entities import OWN_PROPERTIES, Config, Reference
from tidegate.gateway.registry.schemas.errors import no_such_reference
from tidegate.gateway.registry.schemas.names import context_of
from tidegate.gateway.registry.subject_contracts import Lineage, group_of, plan_version
from tidegate.gateway.registry.subject_scope import DEFAULT_LEVEL, ENFORCED
from tidegate.gateway.storage.agreements import StoredConsumer
from tidegate.gateway.storage.sql import ContractVersion, Stores
from tidegate.gateway.storage.subjects import SubjectVersion

PUBLISHED = f"{OWN_PROPERTIES}fingerprint"
"""The property that the registry adds to versions that were published as contract documents."""
_SCHEMA = "schema."


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """The answer for clients. An admitted schema may still break consumers, because they agreed or it is forced."""

    answer: CompatibilityAnswer
    breaks: bool = False
    is_agreed: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Governance:
    """The contract version that a registration must be compatible with, and its consumers.

    `readers` are the consumers that are registered outside of the contract document. `agreements` are pairs of a
    candidate and the consumer that acknowledged it; None is an approver, for changes that affect no consumer.
    """

    base: ContractVersion
    readers: tuple[StoredConsumer, ...]
    agreements: frozenset[tuple[str, str | None]]


def governance(stores: Stores, subject: str, line: Lineage | None, config: Config) -> Governance | None:
    """Return what a registration must be compatible with; None if only schemas are compared.

    Only schemas are compared if the level is NONE, or if the registration starts a new major version. The same holds
    for a subject with neither a published contract document nor registered consumers.
    """
    level = config.level or DEFAULT_LEVEL
    if line is None or line.base is None or line.is_new or level == "NONE":
        return None
    base = line.base
    if base.status not in ENFORCED or base.deleted_at is not None:
        return None
    readers = stores.consumers.of_contracts((line.contract_id,))
    if not readers and not stores.subjects.has_property(subject, PUBLISHED):
        return None
    made = stores.consumers.acknowledgements(line.contract_id)
    return Governance(base, readers, frozenset((each.candidate, each.consumer) for each in made))


def judge_registration(
    stores: Stores, subject: str, content: SchemaContent, config: Config, line: Lineage | None
) -> ReviewAnswer:
    """Compare a schema and its contract with the versions that the compatibility level requires."""
    schema = content.parsed
    references = _Keys(stores).of_references(context_of(subject), content.references)
    key = key_of(schema.schema_type, schema.text, schema.dialect, references)
    schemas = check_compatibility(schema, config, history(stores, subject, content, config, line), key)
    found = governance(stores, subject, line, config)
    if found is None or line is None:
        return ReviewAnswer(schemas)
    return _judge_contract(
        stores, _Registration(content, config, line, found), schemas, _bases(stores, content, config, found)
    )


def judge_against(
    stores: Stores, subject: str, content: SchemaContent, config: Config, version: tuple[Earlier, int | None]
) -> ReviewAnswer:
    """Compare a schema with one version of its subject.

    `version` is (schema, registry id of its contract version); the id is None without one.
    """
    earlier, registry_id = version
    schemas = check_compatibility(content.parsed, config, (earlier,))
    base = None if registry_id is None else stores.contracts.by_registry_id(registry_id)
    if base is None:
        return ReviewAnswer(schemas)
    line = Lineage(base.contract_id, base.topic, base)
    found = governance(stores, subject, line, config)
    if found is None:
        return ReviewAnswer(schemas)
    document = base.contract
    return _judge_contract(stores, _Registration(content, config, line, found), schemas, (document,))


def history(
    stores: Stores, subject: str, content: SchemaContent, config: Config, line: Lineage | None
) -> Iterator[Earlier]:
    """Yield the versions to compare with, newest first: those of one compatibility group and one major version.

    With a contract, that is the major version that the registration follows, which need not be the newest one.
    """
    if line is not None and line.is_new:
        return
    group = group_of(content.metadata, config.group)
    base = None if line is None else line.base
    major = None if base is None or base.deleted_at is not None else major_of(base.version)
    keys = _Keys(stores)
    for version in stores.subjects.newest_first(subject):
        if config.group and group_of(metadata_of(version.schema), config.group) != group:
            continue
        if version.registry_id is not None:
            contract = stores.contracts.by_registry_id(version.registry_id)
            found = None if contract is None else major_of(contract.version)
            major = found if major is None else major
            if found != major:
                continue
        yield Earlier(
            f"version {version.number}", partial(parsed_version, stores, version), keys.of_version(version)
        )


class _Keys:
    """The keys of stored schemas, by their content; each version that they refer to is read once."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: dict[tuple[str, int], Key] = {}

    def of_version(self, version: SubjectVersion) -> Key:
        """Return the key of a version. Raises Refused (42201) if a schema that it refers to does not exist."""
        schema = version.schema
        references = self.of_references(schema.context, references_of(schema))
        return key_of(schema.schema_type, schema.text, version.dialect, references)

    def of_references(self, context: str, references: Iterable[Reference]) -> list[tuple[str, Key]]:
        """Return the names of references and the keys of their schemas. Raises Refused (42201)."""
        return [(one.name, self._of_reference(context, one)) for one in references]

    def _of_reference(self, context: str, reference: Reference) -> Key:
        place = whole_name(context, reference.subject), reference.version
        if place not in self._known:
            version = self._stores.subjects.version(*place)
            if version is None:
                raise no_such_reference(reference.name, reference.subject, reference.version)
            self._known[place] = self.of_version(version)
        return self._known[place]


@dataclass(frozen=True, slots=True)
class _Registration:
    content: SchemaContent
    config: Config
    line: Lineage
    governance: Governance


def _bases(
    stores: Stores, content: SchemaContent, config: Config, found: Governance
) -> tuple[DataContract, ...]:
    """Return the contract versions to compare with: the followed one, and others under a transitive level only."""
    base = found.base.contract
    if not is_transitive(_level(config)):
        return (base,)
    group = group_of(content.metadata, config.group)
    others = []
    for version in stores.contracts.versions(base.id):
        is_meant = version.status in ENFORCED and major_of(version.version) == major_of(base.version)
        if not is_meant or version.registry_id == found.base.registry_id:
            continue
        if config.group:
            registered = stores.subjects.of_contract(version.registry_id)
            metadata = None if registered is None else metadata_of(registered.schema)
            if group_of(metadata, config.group) != group:
                continue
        others.append(version.contract)
    return (base, *others)


def _judge_contract(
    stores: Stores, registration: _Registration, schemas: CompatibilityAnswer, bases: tuple[DataContract, ...]
) -> ReviewAnswer:
    """Compare the contract version that a registration creates with `bases`.

    A draft is compared later, when it is promoted.
    """
    config, line = registration.config, registration.line
    planned = plan_version(stores, line, registration.content, config)
    if planned.contract.status == Status.DRAFT:
        return ReviewAnswer(schemas)
    level = _level(config)
    apart = tuple(each.consumer for each in registration.governance.readers)
    comparisons = compare_with(bases, planned.contract, Terms(level, config.policy), apart)
    review = reviewed(stores, planned.contract, level, comparisons, is_new_major=False)
    if not review.breaking:  # consumers cannot agree to a break that only some clients see
        return ReviewAnswer(schemas)
    final = plan_version(stores, line, registration.content, config, breaks=True)
    review = reviewed(stores, final.contract, level, comparisons, is_new_major=False)
    details = (*_without_level(schemas.messages), *_messages(review))
    if review.breaking and review.is_publishable:
        return ReviewAnswer(
            CompatibilityAnswer((), (*schemas.warnings, *details)), breaks=True, is_agreed=True
        )
    return ReviewAnswer(
        CompatibilityAnswer(
            (*details, _next_step(review), f"{{compatibility: '{level.value}'}}"), schemas.warnings
        )
    )


def _level(config: Config) -> Compatibility:
    return Compatibility(config.level or DEFAULT_LEVEL)


def _without_level(messages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(message for message in messages if not message.startswith("{compatibility:"))


def _messages(review: Review) -> tuple[str, ...]:
    """Return the breaking changes outside of the schema, and the consumers that the schema breaks."""
    lines = []
    for finding in review.breaking:
        if not finding.code.startswith(_SCHEMA):
            lines.append(_message(finding))
        elif finding.consumers:
            lines.append(_broken_readers(finding))
    return tuple(dict.fromkeys(lines))


def _message(finding: Finding) -> str:
    shown = f", counterexample:{finding.counterexample.text}" if finding.counterexample is not None else ""
    return (
        f"{{errorType:'{finding.code}', outcome:'{finding.outcome.value}', description:'{finding.sentence}', "
        f"path:'{finding.pointer}', oldPath:'{finding.base_pointer}', field:'{finding.field}'"
        f"{_consumers(finding)}{shown}}}"
    )


def _broken_readers(finding: Finding) -> str:
    return (
        f"{{errorType:'consumer.broken', description:'{finding.code} at {finding.field or 'the record'} breaks those "
        f"who read it', field:'{finding.field}'{_consumers(finding)}}}"
    )


def _consumers(finding: Finding) -> str:
    return f", consumers:'{', '.join(finding.consumers)}'" if finding.consumers else ""


def _next_step(review: Review) -> str:
    if review.missing:
        who = f"have {', '.join(review.missing)} acknowledge the candidate {review.candidate}"
    else:
        who = (
            f"no registered consumer is affected: have an approver acknowledge the candidate {review.candidate} as "
            "breaking"
        )
    return (
        f"{{errorType:'contract.not-agreed', description:'{who} at /api/v1/contracts/{review.contract_id}/"
        f"acknowledgements, begin a new major version with another compatibility group, or change it back', "
        f"candidate:'{review.candidate}'}}"
    )
