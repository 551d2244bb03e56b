"""Registration of schemas under subjects, their look-up, and checks of their compatibility."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.contracts.document.model import DataContract, Status
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, forbidden
from tidegate.gateway.registry.approvals import (
    guard_weakening,
    prepare_proofs,
    propose_draft,
    write_or_propose,
)
from tidegate.gateway.registry.compatibility_groups import table_conflicts
from tidegate.gateway.registry.registration_review import (
    ReviewAnswer,
    governance,
    judge_against,
    judge_registration,
)
from tidegate.gateway.registry.schema_compatibility import CompatibilityAnswer, Earlier
from tidegate.gateway.registry.schema_content import (
    SchemaContent,
    check_sound,
    dialect_for,
    inherited_metadata,
    metadata_of,
    parse,
    parsed_version,
    references_of,
    reserved_conflicts,
    resolve_references,
    rule_set_of,
)
from tidegate.gateway.registry.schemas.entities import Config, Metadata, RuleSet, SchemaRequest, schema_guid
from tidegate.gateway.registry.schemas.errors import (
    IncompatibleSchema,
    id_mismatch,
    id_taken,
    invalid_schema,
    no_import,
    not_permitted,
    not_read_write,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from tidegate.gateway.registry.schemas.fields import inherited_tags, with_changed_tags
from tidegate.gateway.registry.schemas.json_schema import NEWEST, ClientDifference
from tidegate.gateway.registry.schemas.names import context_of, subject_to_register
from tidegate.gateway.registry.schemas.parsing import check_type
from tidegate.gateway.registry.schemas.rule_sets import check_rule_set, merge_metadata, merge_rule_sets
from tidegate.gateway.registry.subject_contracts import (
    add_contract_version,
    lineage_of,
    next_number,
    plan_version,
    prepare_version_proofs,
    table_changes,
    unfollowed_in,
)
from tidegate.gateway.registry.subject_scope import IMPORT, check_writable, config_in_scope
from tidegate.gateway.registry.unjudged_rules import check_judged, unjudged_rules
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import MAX_IMPORTED_ID, Deleted, StoredSchema, SubjectVersion

CONFLUENT_VERSION = "confluent:version"
LATEST = -1
_REGISTERED = "subject.version-registered"
_IMPORTED = "subject.version-imported"


@dataclass(frozen=True, slots=True)
class RegistrationOptions:
    """The options of a registration.

    `by` is the author. `normalize` stores the text with sorted members. `force` registers an incompatible schema too.
    """

    by: Principal
    normalize: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """The answer to a registration: the version, and whether it is new.

    `differences` are the keywords that clients read differently. `unjudged` has a reason for each rule that only
    clients run. `unfollowed` has a sentence for each column that tables cannot follow.
    """

    version: SubjectVersion
    is_new: bool
    differences: tuple[ClientDifference, ...] = ()
    unjudged: tuple[str, ...] = ()
    unfollowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Compared:
    """The result of a comparison; it is valid while `basis`, its inputs, stay the same."""

    basis: tuple[object, ...]
    judgement: ReviewAnswer


class SchemaRegistration(Service):
    """A service that registers schemas, and finds them by their content."""

    def register(self, name: str, request: SchemaRequest, options: RegistrationOptions) -> Registration:
        """Register a schema, or return the existing version.

        The comparison with earlier versions is made before the write transaction, and again if another version was
        registered in the meantime; its proofs are never made in that transaction. Raises Refused.
        """
        subject = subject_to_register(name)
        check_type(request.schema_type)
        check_rule_set(request.rule_set)
        wanted = _Wanted(subject, request, options)
        found, compared = self._database.read(lambda stores: _prepare(stores, wanted))
        if found is not None:
            return found
        at = self._now()
        return write_or_propose(self._database, lambda stores: _register(stores, wanted, compared, at))

    def look_up(self, name: str, request: SchemaRequest, *, normalize: bool, deleted: bool) -> SubjectVersion:
        """Find the version of a subject that has this schema. Raises Refused (40401, 40403)."""
        subject = subject_to_register(name)
        with self._database.reading() as stores:
            shown = Deleted.SHOWN if deleted else Deleted.LEFT_OUT
            if not stores.subjects.numbers(subject, shown):
                raise subject_not_found(subject)
            if not request.schema_text.strip():
                raise schema_not_found()
            config = config_in_scope(stores, subject)
            wanted = _Wanted(subject, request, RegistrationOptions(ANONYMOUS, normalize=normalize))
            content = _content(stores, wanted, config, None)
            found = _found(stores, content, wanted, shown, normalize=normalize or bool(config.normalize))
            if found is None:
                raise schema_not_found()
            return found

    def compatibility(
        self, name: str, request: SchemaRequest, version: int | None, *, normalize: bool
    ) -> CompatibilityAnswer:
        """Compare a schema with one version (-1: the latest), or with those that the level requires. Raises Refused.

        `version` None means those that the level requires. Nothing is stored.
        """
        subject = subject_to_register(name)
        with self._database.reading() as stores:
            config = config_in_scope(stores, subject)
            wanted = _Wanted(subject, request, RegistrationOptions(ANONYMOUS, normalize=normalize))
            content = _content(stores, wanted, config, None)
            previous = stores.subjects.latest(subject)
            whole = _completed(content, request, config, previous, 0)
            check_sound(whole, config)
            conflicts = _conflicts(whole, previous, config)
            if conflicts:
                return CompatibilityAnswer(conflicts)
            line = lineage_of(stores, subject, whole.metadata, config)
            readings = tuple(f"{{reading:'{one.sentence}'}}" for one in whole.parsed.differences)
            readings += tuple(f"{{table:'{one}'}}" for one in table_changes(stores, line, whole))
            if version is None:
                answer = judge_registration(stores, subject, whole, config, line).answer
                return replace(answer, warnings=(*answer.warnings, *readings))
            one = previous if version == LATEST else _live(stores, subject, version)
            if one is None and version != LATEST:
                raise version_not_found(version)
            if one is None:
                return CompatibilityAnswer((), readings)
            earlier = Earlier.of(f"version {one.number}", parsed_version(stores, one))
            answer = judge_against(stores, subject, whole, config, (earlier, one.registry_id)).answer
            return replace(answer, warnings=(*answer.warnings, *readings))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A requested registration."""

    subject: str
    request: SchemaRequest
    options: RegistrationOptions


def _prepare(stores: Stores, wanted: _Wanted) -> tuple[Registration | None, _Compared | None]:
    """Return the existing version, or compare the schema with the earlier ones.

    An existing version is found in every mode, so producers that register their schema before they write continue
    when the subject becomes read-only.
    """
    subject, request = wanted.subject, wanted.request
    has_id = request.id >= 0
    config = config_in_scope(stores, subject)
    previous = stores.subjects.latest(subject)
    content = _content(stores, wanted, config, previous)
    if has_id:
        whole = _imported(content, request)
    else:
        whole = _completed(content, request, config, previous, next_number(stores, subject))
    found = _already(stores, wanted, content, whole, config)
    if found is not None:
        return _answer(stores, found, content), None
    if check_writable(stores, subject) == IMPORT or has_id:
        return None, None
    compared = _compare(stores, wanted, whole, config)
    line = lineage_of(stores, subject, whole.metadata, config)
    if line is not None and compared.judgement.answer.is_compatible:
        prepare_version_proofs(stores, line, whole.parsed, config)
        prepare_proofs(
            stores, plan_version(stores, line, whole, config, breaks=compared.judgement.breaks).contract
        )
    return None, compared


def _register(stores: Stores, wanted: _Wanted, compared: _Compared | None, at: datetime) -> Registration:
    subject, request = wanted.subject, wanted.request
    is_import = check_writable(stores, subject) == IMPORT
    _check_id(wanted, is_import=is_import)
    config = config_in_scope(stores, subject)
    previous = stores.subjects.latest(subject)
    content = _content(stores, wanted, config, previous)
    number = next_number(stores, subject)
    if is_import:
        whole = _imported(content, request)
    else:
        whole = _completed(content, request, config, previous, number)
    check_rule_set(whole.rule_set)
    found = _already(stores, wanted, content, whole, config)
    if found is not None:
        return _answer(stores, found, content)
    judgement = ReviewAnswer(CompatibilityAnswer())
    if not is_import:
        if compared is None or compared.basis != _basis(stores, subject, whole, config):
            compared = _compare(stores, wanted, whole, config)
        judgement = compared.judgement
        if not judgement.answer.is_compatible:
            raise IncompatibleSchema(subject, judgement.answer.messages)
    number = _number(stores, subject, request, number, is_import=is_import)
    schema = _schema(stores, subject, request, whole, at)
    line = lineage_of(stores, subject, whole.metadata, config)
    planned = None
    if line is not None:
        planned = plan_version(stores, line, whole, config, breaks=judgement.breaks)
        _require_one_table(stores, subject, planned.contract, config)
    kept = None
    # The subject version is added inside the guard, because it determines which compatibility group changes.
    with guard_weakening(stores, None if line is None else line.contract_id, wanted.options.by, at):
        if line is not None and planned is not None:
            kept = add_contract_version(stores, line, planned, number, at)
        registry_id = None if kept is None else kept.registry_id
        version = stores.subjects.add_version(
            SubjectVersion(subject, number, schema, registry_id, at, dialect=whole.parsed.dialect)
        )
    if kept is not None and kept.status == Status.DRAFT:
        propose_draft(stores, kept, wanted.options.by, at)
    if not is_import:
        check_judged(unjudged_rules(kept, whole.rule_set), whole.rule_set, config)
    before = previous.schema.guid if previous else None
    action = _IMPORTED if is_import else _action(judgement)
    stores.audit.append(AuditedAction(at, wanted.options.by.name, action, subject, before, schema.guid))
    return _answer(stores, version, whole, is_new=True)


def _answer(
    stores: Stores, version: SubjectVersion, content: SchemaContent, *, is_new: bool = False
) -> Registration:
    contract = None if version.registry_id is None else stores.contracts.by_registry_id(version.registry_id)
    unjudged = unjudged_rules(contract, rule_set_of(version.schema))
    unfollowed = unfollowed_in(None if contract is None else contract.note)
    return Registration(version, is_new, content.parsed.differences, unjudged, unfollowed)


def _require_one_table(stores: Stores, subject: str, contract: DataContract, config: Config) -> None:
    """Refuse a version that cannot write one table with the other compatibility groups. Raises IncompatibleSchema."""
    if config.group is None or contract.status == Status.DRAFT:
        return
    found = table_conflicts(stores, contract, contract.compatibility_group or "")
    if found:
        raise IncompatibleSchema(
            subject,
            tuple(f"{{errorType:'contract.groups-conflict', description:'{each}'}}" for each in found),
        )


def _check_id(wanted: _Wanted, *, is_import: bool) -> None:
    """Check that the requested id may be used. Raises Refused (42205), Forbidden: all subjects share the ids."""
    subject, request = wanted.subject, wanted.request
    if is_import and request.id < 0:
        raise not_read_write(subject)
    if not is_import and request.id >= 0:
        raise no_import(subject)
    if request.id == 0:
        raise not_permitted("An id is at least 1")
    if request.id > MAX_IMPORTED_ID:
        raise not_permitted(
            f"Id {request.id} is above {MAX_IMPORTED_ID}, the highest that can be imported; import the schema under a lower id"
        )
    if is_import and not wanted.options.by.may_everywhere(Role.ADMIN):
        raise forbidden(
            wanted.options.by, Role.ADMIN, "of every subject, because ids are shared by all subjects"
        )


def _number(stores: Stores, subject: str, request: SchemaRequest, following: int, *, is_import: bool) -> int:
    if request.version < 1 or request.version == following:
        return following
    if not is_import:
        raise invalid_schema(f"Version is not one more than previous version: it would be {following}")
    if request.version > MAX_IMPORTED_ID:
        raise not_permitted(f"Version {request.version} is above {MAX_IMPORTED_ID}; import a lower version")
    if stores.subjects.version(subject, request.version) is not None:
        raise not_permitted(f"Version {request.version} of the subject {subject} exists already")
    return request.version


def _schema(
    stores: Stores, subject: str, request: SchemaRequest, whole: SchemaContent, at: datetime
) -> StoredSchema:
    """Return the schema in the subject's context; store it if it is new. Raises Refused (42205, 42207)."""
    context = context_of(subject)
    found = stores.schemas.by_guid(context, whole.guid)
    wanted = request.id if request.id > 0 else None
    if found is not None:
        if wanted not in {None, found.id}:
            raise id_mismatch(found.id, request.id)
        return found
    if wanted is not None:
        taken = stores.schemas.by_id(context, wanted)
        spent = stores.schemas.spent_guid(context, wanted)
        if taken is not None or spent not in {None, whole.guid}:
            raise id_taken(wanted)
    return whole.keep(stores, context, wanted, at)


def _content(
    stores: Stores, wanted: _Wanted, config: Config, previous: SubjectVersion | None
) -> SchemaContent:
    """Parse the schema of the request. Without a text, use that of the previous version."""
    request, context = wanted.request, context_of(wanted.subject)
    if request.schema_text.strip():
        references = resolve_references(stores, wanted.subject, request.references)
        dialect = dialect_for(stores, wanted.subject, request.schema_type, request.schema_text, references)
        found = parse(stores, context, request.schema_type, request.schema_text, references, dialect)
    else:
        if previous is None:
            raise invalid_schema("Empty schema")
        references = references_of(previous.schema)
        dialect = previous.dialect or NEWEST
        found = parsed_version(stores, previous)
    to_add = request.tags_to_add
    if request.propagate_tags and previous is not None:
        to_add = (*inherited_tags(parsed_version(stores, previous), found), *to_add)
    if to_add or request.tags_to_remove:
        text = with_changed_tags(found, to_add, request.tags_to_remove)
        found = parse(stores, context, found.schema_type, text, references, dialect)
    content = SchemaContent(found, references)
    return content.normalized() if wanted.options.normalize or config.normalize else content


def _imported(content: SchemaContent, request: SchemaRequest) -> SchemaContent:
    """Return a schema with only its own metadata and rules: an imported schema inherits nothing."""
    return replace(content, metadata=request.metadata, rule_set=request.rule_set)


def _completed(
    content: SchemaContent,
    request: SchemaRequest,
    config: Config,
    previous: SubjectVersion | None,
    number: int,
) -> SchemaContent:
    """Return a schema with its metadata and rules: defaults, then its own or inherited ones, then overrides."""
    metadata: Metadata | None = request.metadata
    rule_set: RuleSet | None = request.rule_set
    if previous is not None:
        metadata = inherited_metadata(previous.schema) if metadata is None else metadata
        rule_set = rule_set_of(previous.schema) if rule_set is None else rule_set
    metadata = merge_metadata(merge_metadata(config.default_metadata, metadata), config.override_metadata)
    rule_set = merge_rule_sets(merge_rule_sets(config.default_rule_set, rule_set), config.override_rule_set)
    if request.version != 0 or (metadata is not None and CONFLUENT_VERSION in metadata.properties):
        metadata = (metadata or Metadata()).with_property(CONFLUENT_VERSION, str(number))
    return replace(content, metadata=metadata, rule_set=rule_set)


def _already(
    stores: Stores, wanted: _Wanted, content: SchemaContent, whole: SchemaContent, config: Config
) -> SubjectVersion | None:
    """Return the version that a registration would repeat; None if it is new."""
    subject, request = wanted.subject, wanted.request
    if request.id >= 0:
        found = stores.subjects.find(subject, deleted=Deleted.LEFT_OUT, guid=whole.guid)
        is_same = found is not None and found.schema.id == request.id
        return found if is_same and request.version in {0, found.number if found else 0} else None
    if request.version > 0:
        return _same_version(stores, subject, whole, request.version)
    if request.version == LATEST:
        latest = stores.subjects.latest(subject)
        return latest if latest is not None and _repeats(whole, request, latest) else None
    metadata = request.metadata, config.default_metadata, config.override_metadata
    rule_sets = request.rule_set, config.default_rule_set, config.override_rule_set
    says_nothing = not any((*metadata, *rule_sets))
    if says_nothing:
        normalize = wanted.options.normalize or bool(config.normalize)
        return _found(stores, content, wanted, Deleted.LEFT_OUT, normalize=normalize)
    same = stores.subjects.with_text(subject, whole.text_hash, Deleted.LEFT_OUT)
    return next((version for version in same if _repeats(whole, request, version)), None)


def _same_version(stores: Stores, subject: str, whole: SchemaContent, number: int) -> SubjectVersion | None:
    found = _live(stores, subject, number)
    if found is None:
        return None
    versioned = (whole.metadata or Metadata()).with_property(CONFLUENT_VERSION, str(number))
    return found if replace(whole, metadata=versioned).guid == found.schema.guid else None


def _found(
    stores: Stores, content: SchemaContent, wanted: _Wanted, deleted: Deleted, *, normalize: bool
) -> SubjectVersion | None:
    """Find a version by all attributes in the request; missing attributes match any value."""
    subject, request = wanted.subject, wanted.request
    if request.metadata is None and request.rule_set is None:
        found = stores.subjects.find(subject, deleted=deleted, text_hash=content.text_hash)
        if found is None and normalize:
            found = stores.subjects.find(subject, deleted=deleted, normal_hash=content.normal_hash)
        return found
    for version in stores.subjects.with_text(subject, content.text_hash, deleted):
        metadata = metadata_of(version.schema) if request.metadata is None else request.metadata
        rule_set = rule_set_of(version.schema) if request.rule_set is None else request.rule_set
        if _repeats(replace(content, metadata=metadata, rule_set=rule_set), request, version):
            return version
    return None


def _repeats(content: SchemaContent, request: SchemaRequest, version: SubjectVersion) -> bool:
    """Return whether a version has the requested content; a request that states a number matches only that version.

    Source: Confluent Schema Registry, `AbstractSchemaProvider.canLookupIgnoringVersion`.
    """
    kept = metadata_of(version.schema)
    asked = request.metadata.properties.get(CONFLUENT_VERSION) if request.metadata else None
    number = (kept.properties.get(CONFLUENT_VERSION) if kept else None) or str(version.number)
    if asked not in {None, number}:
        return False
    schema = version.schema
    same = schema_guid(schema.text, references_of(schema), _unnumbered(kept), rule_set_of(schema))
    is_same = replace(content, metadata=_unnumbered(content.metadata)).guid == same
    return is_same and content.parsed.schema_type == schema.schema_type


def _unnumbered(metadata: Metadata | None) -> Metadata | None:
    """Return metadata without its version number; None if it has nothing else."""
    if metadata is None:
        return None
    found = metadata.without_property(CONFLUENT_VERSION)
    return found if found.shown() else None


def _live(stores: Stores, subject: str, number: int) -> SubjectVersion | None:
    found = stores.subjects.version(subject, number)
    return None if found is None or found.deleted_at is not None else found


def _compare(stores: Stores, wanted: _Wanted, whole: SchemaContent, config: Config) -> _Compared:
    check_sound(whole, config)
    line = lineage_of(stores, wanted.subject, whole.metadata, config)
    conflicts = _conflicts(whole, stores.subjects.latest(wanted.subject), config)
    judgement = ReviewAnswer(CompatibilityAnswer(conflicts))
    if not conflicts:
        judgement = judge_registration(stores, wanted.subject, whole, config, line)
    if wanted.options.force and not judgement.answer.is_compatible:
        judgement = ReviewAnswer(
            CompatibilityAnswer((), judgement.answer.messages), breaks=True, is_forced=True
        )
    return _Compared(_basis(stores, wanted.subject, whole, config), judgement)


def _conflicts(whole: SchemaContent, previous: SubjectVersion | None, config: Config) -> tuple[str, ...]:
    return reserved_conflicts(whole, None if previous is None else metadata_of(previous.schema), config)


def _basis(stores: Stores, subject: str, whole: SchemaContent, config: Config) -> tuple[object, ...]:
    line = lineage_of(stores, subject, whole.metadata, config)
    promise = governance(stores, subject, line, config)
    return config, whole.guid, stores.subjects.alive(subject), line, promise


def _action(judgement: ReviewAnswer) -> str:
    if judgement.is_forced:
        return f"{_REGISTERED}-by-force"
    if judgement.is_agreed:
        return f"{_REGISTERED}-as-agreed"
    return f"{_REGISTERED}-leniently" if judgement.answer.warnings else _REGISTERED
