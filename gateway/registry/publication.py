"""Publication and look-up of contract versions. A published version never changes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace

from tidegate.contracts.document.load import LoadedContract, parse_contract, read_source
from tidegate.contracts.document.model import DataContract, Status
from tidegate.contracts.document.semver import next_minor
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, ContractError, NotFoundError, Problem
from tidegate.contracts.exchange.odcs import is_odcs
from tidegate.contracts.exchange.read import fitting, located, read_foreign
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import Spelling, check_spelling
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, require
from tidegate.gateway.registry.approvals import (
    guard_weakening,
    prepare_proofs,
    propose_draft,
    write_or_propose,
)
from tidegate.gateway.registry.changes import check_publication
from tidegate.gateway.registry.compatibility_groups import (
    CompatibilityGroups,
    group_setting,
    groups_of,
    require_group,
    require_one_table,
)
from tidegate.gateway.registry.lifecycle import check_mode, find_alive
from tidegate.gateway.registry.subject_contracts import add_subject_version, new_version, next_number
from tidegate.gateway.registry.subject_scope import ENFORCED, topic_of_contract, unknown_contract
from tidegate.gateway.registry.unjudged_rules import carried_problems
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import ContractVersion, Stores, VersionFilter

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of a publication: the stored version, whether it is new, and warnings."""

    version: ContractVersion
    is_new: bool
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedContracts:
    """A part of the list of contracts, each as its current version; `total` counts the whole list."""

    contracts: tuple[ContractVersion, ...]
    total: int


class ContractRegistry(Service):
    """A service that publishes and finds contract versions."""

    def publish(self, document: bytes, name: str, by: Principal = ANONYMOUS) -> Publication:
        """Publish a self-contained contract document, YAML or JSON; error messages contain `name`.

        A document of the Open Data Contract Standard is converted; the warnings list the parts that are not judged.
        Publishing the same content again changes nothing.

        Raises:
        * ContractError for a document that does not compile;
        * ConflictError for a changed document under a used version, and for a topic that another contract owns;
        * BreakingChange for a change that consumers have not acknowledged;
        * NotApproved for a change that weakens the enforced contract;
        * Forbidden for a topic that `by` may not publish for, and for a new id outside of their prefixes.
        """
        loaded = _parsed(document, name)
        contract = loaded.contract
        require(by, Role.PRODUCER, subject_of(contract.topic))
        warnings = (*loaded.warnings, *compiled(loaded).warnings)
        candidate = new_version(contract, self._now())
        if candidate.status in ENFORCED:
            # Proofs take long, so they are made before the write transaction, which checks again.
            with suppress(ConflictError):
                self._database.read(lambda stores: check_publication(stores, contract))
        self._database.read(lambda stores: prepare_proofs(stores, contract))
        kept = write_or_propose(self._database, lambda stores: _store(stores, candidate, contract, by))
        return replace(kept, warnings=warnings)

    def version(self, contract_id: str, version: str) -> ContractVersion:
        """Find one version, or with `latest` the highest that is enforced. Raises NotFoundError."""
        return self._database.read(lambda stores: _find(stores, contract_id, version))

    def by_registry_id(self, registry_id: int, by: Principal = ANONYMOUS) -> ContractVersion:
        """Find one version by its global number. Raises NotFoundError, also if `by` may not see it."""
        found = self._database.read(lambda stores: stores.contracts.by_registry_id(registry_id))
        if found is None or found.is_purged or not by.sees(subject_of(found.topic)):
            raise NotFoundError(f"no contract version has the registry id {registry_id}")
        return found

    def compatibility_groups(self, contract_id: str) -> CompatibilityGroups:
        """Return the compatibility groups of a contract's subject. Raises NotFoundError."""
        return self._database.read(lambda stores: groups_of(stores, topic_of_contract(stores, contract_id)))

    def group_setting(self, topic: str) -> str | None:
        """Return the property that names the compatibility group of a schema; None for a topic without groups."""
        return self._database.read(lambda stores: group_setting(stores, topic))

    def versions(self, contract_id: str) -> tuple[ContractVersion, ...]:
        """List the versions of a contract, highest first. Raises NotFoundError."""
        found = self._database.read(lambda stores: stores.contracts.versions(contract_id))
        if not found:
            raise unknown_contract(contract_id)
        return found

    def contract_of_topic(self, topic: str) -> str | None:
        """Return the id of the contract that owns a topic; None for a topic without one."""
        return self._database.read(lambda stores: stores.contracts.contract_of_topic(topic))

    def contracts(self, wanted: VersionFilter, *, offset: int, limit: int) -> PublishedContracts:
        """List contracts by id, filtered by properties of their current version."""
        return PublishedContracts(
            *self._database.read(lambda stores: stores.contracts.page(wanted, ENFORCED, offset, limit))
        )


def _parsed(document: bytes, name: str) -> LoadedContract:
    """Parse a contract, or convert one of the Open Data Contract Standard. Raises ContractError with the places.

    The warnings are what is not judged: what a contract cannot express, and rules that do not suit their fields.
    """
    source = read_source(name, document)
    if not is_odcs(source.value):
        return parse_contract(document, name=name, read_schema=None)
    imported = read_foreign(source)
    try:
        imported, loaded = fitting(imported, "contract.json", json.dumps)
    except ContractError as error:
        raise located(error, source) from None
    left_out = (source.problem(each.pointer, f"not judged: {each.reason}") for each in imported.left_out)
    return replace(loaded, warnings=tuple(left_out))


def compiled(loaded: LoadedContract) -> LoadedContract:
    """Return a contract that compiles and whose rules can all be judged, with its warnings.

    No rule names a member that a closed object cannot have, and its schema carries no rules that the contract lacks.

    Raises ContractError with the place of each mistake.
    """
    spelling = Spelling()
    try:
        compile_plan(loaded.contract)
        spelling = check_spelling(loaded.contract)
        errors = (*spelling.errors, *carried_problems(loaded.contract))
    except ContractError as error:
        errors = error.problems
    if errors:
        raise ContractError(tuple(loaded.locate(problem) for problem in errors))
    return replace(loaded, warnings=tuple(loaded.locate(each) for each in spelling.warnings))


def require_id(stores: Stores, contract_id: str, by: Principal) -> None:
    """Require that a principal may publish under an id: it is their team's own, or new with one of their prefixes.

    A stream, its table and the contract that the Confluent API creates for a topic are named after the id. So the id
    belongs to the team with that prefix. Raises Forbidden with the same text whether the id exists or not. Raises
    ConflictError if the id has an allowed prefix and governs a topic of another team.
    """
    topic = stores.contracts.topic_of(contract_id)
    if topic is not None and by.sees(subject_of(topic)):
        return
    require(by, Role.PRODUCER, subject_of(contract_id))
    if topic is not None:
        raise ConflictError(f"the id {contract_id} is taken; publish under another one")


def _store(stores: Stores, candidate: ContractVersion, contract: DataContract, by: Principal) -> Publication:
    """Check a candidate against the stored versions, and store it. Raises as `ContractRegistry.publish`."""
    require_id(stores, candidate.contract_id, by)
    found = stores.contracts.version(candidate.contract_id, candidate.version)
    if found is not None:
        if found.deleted_at is not None:
            raise _deleted_version(stores, found)
        if found.fingerprint != candidate.fingerprint:
            raise _used_version(stores, found)
        if found.status == Status.DRAFT:
            propose_draft(stores, found, by, candidate.published_at)
        return Publication(found, is_new=False)
    _claim_topic(stores, candidate)
    check_mode(stores, candidate.topic)
    if candidate.status in ENFORCED:
        require_group(stores, contract)
        require_one_table(stores, contract, None)
        check_publication(stores, contract)
    before = stores.contracts.highest(candidate.contract_id)
    stores.audit.append(
        AuditedAction(
            candidate.published_at,
            by.name,
            "contract.published",
            subject_of(candidate.topic),
            before.fingerprint if before else None,
            candidate.fingerprint,
        )
    )
    with guard_weakening(stores, candidate.contract_id, by, candidate.published_at):
        kept = _add(stores, candidate)
    if kept.status == Status.DRAFT:
        propose_draft(stores, kept, by, candidate.published_at)
    return Publication(kept, is_new=True)


def _add(stores: Stores, candidate: ContractVersion) -> ContractVersion:
    """Insert a new version. Unless it is a draft, its subject gets a version with the same number."""
    number = next_number(stores, subject_of(candidate.topic))
    kept = stores.contracts.add_version(replace(candidate, number=number))
    stores.lifecycle.record(kept.registry_id, kept.status, kept.published_at)
    if kept.status != Status.DRAFT:
        add_subject_version(stores, kept, kept.published_at)
    return kept


def _claim_topic(stores: Stores, candidate: ContractVersion) -> None:
    """Register the topic of a new contract. Raises ConflictError if contract or topic belongs to another one."""
    topic = stores.contracts.topic_of(candidate.contract_id)
    if topic == candidate.topic:
        return
    if topic is not None:
        raise ConflictError(
            f"{candidate.contract_id} governs the topic {topic} in every version; "
            f"publish the contract of {candidate.topic} under an id of its own"
        )
    owner = stores.contracts.contract_of_topic(candidate.topic)
    if owner is not None:
        raise ConflictError(
            f"the topic {candidate.topic} is governed by the contract {owner}; "
            f"publish a new version of {owner}, or name another topic"
        )
    stores.contracts.add_contract(candidate.contract_id, candidate.topic, candidate.published_at)


def _deleted_version(stores: Stores, found: ContractVersion) -> ConflictError:
    highest = stores.contracts.highest_name(found.contract_id) or found.version
    advice = "" if found.is_purged else "undelete it, or "
    return ConflictError(
        f"{found.contract_id} {found.version} was deleted, and its name means nothing else; {advice}give the document "
        f"a new version, such as {next_minor(highest)}"
    )


def _used_version(stores: Stores, found: ContractVersion) -> ConflictError:
    highest = stores.contracts.highest(found.contract_id) or found
    return ConflictError(
        f"{found.contract_id} {found.version} is published with another content (registry id "
        f"{found.registry_id}), and a version never changes; give the changed document a new version, "
        f"such as {next_minor(highest.version)}"
    )


def _find(stores: Stores, contract_id: str, version: str) -> ContractVersion:
    contracts = stores.contracts
    wanted = (
        contracts.highest(contract_id, ENFORCED)
        if version == LATEST
        else contracts.version(contract_id, version)
    )
    if wanted is not None and wanted.deleted_at is None:
        return wanted
    if wanted is not None:
        return find_alive(stores, contract_id, version)
    highest = contracts.highest(contract_id)
    if highest is None:
        raise unknown_contract(contract_id)
    if version == LATEST:
        raise NotFoundError(
            f"no version of {contract_id} is active or deprecated; the highest, {highest.version}, is {highest.status}"
        )
    raise NotFoundError(f"{contract_id} has no version {version}; the highest is {highest.version}")
