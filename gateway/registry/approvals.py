"""Approval of changes that weaken the enforced contract, by a person other than the author.

Every write that can change the enforced contract version runs inside `guard_weakening`, which compares the enforced
versions before and after. So every kind of change is covered: documents, registered schemas, statuses, deletions,
imports, other compatibility groups and new major versions. Each group is also compared by itself.

The setting `compatibilityGroup` changes no version, but which one judges a record. `guard_grouping` compares, for each
schema id, the version that judges its records with the one that would.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from tidegate.contracts.compatibility.weakening import Weakening, weakenings
from tidegate.contracts.document.load import dump_contract
from tidegate.contracts.document.model import DataContract, Status
from tidegate.contracts.document.terms import subject_of, topic_of
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal, Role, require
from tidegate.gateway.registry.compatibility_groups import (
    group_setting,
    grouping_conflicts,
    groups_of,
    judging_versions,
    split_subjects,
)
from tidegate.gateway.registry.proofs import proven, write
from tidegate.gateway.registry.schemas.names import GLOBAL
from tidegate.gateway.registry.subject_scope import ENFORCED, config_of, subject_of_contract
from tidegate.gateway.storage.agreements import WeakeningProposal
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database, Service
from tidegate.gateway.storage.sql import ContractVersion, Stores

NOTHING = hashlib.sha256(b"").hexdigest()
"""The candidate's fingerprint if no version of the contract would remain."""
FORGOTTEN = Weakening(
    "contract.forgotten", "no version is left that a later publication would be compared with"
)
REGROUPED = "contract.judged-by-another-version"
PROPOSED = "contract.weakening-proposed"
APPROVED = "contract.weakening-approved"
REJECTED = "contract.weakening-rejected"
SELF_APPROVED = "contract.weakening-without-access-control"
_MOST_SHOWN = 3
_MOST_WEAKENINGS = 100
_MOST_REGROUPED = 100
"""Maximum contracts whose records other versions judge after one change of a setting, because each is proven."""

T = TypeVar("T")


class NotApproved(ConflictError):  # noqa: N818 - named for what is missing
    """A change that weakens the enforced contract without the approval of another person."""

    def __init__(self, proposal: WeakeningProposal) -> None:
        super().__init__(_sentence(proposal), proposal)
        self.proposal = proposal


class Approvals(Service):
    """A service that lists, approves and rejects proposed changes."""

    def proposals(self, contract_id: str) -> tuple[WeakeningProposal, ...]:
        """Return the proposed changes of the enforced version, oldest first. Raises NotFoundError."""
        return self._database.read(lambda stores: _open_proposals(stores, contract_id))

    def approve(
        self, contract_id: str, candidate: str, by: Principal = ANONYMOUS
    ) -> tuple[WeakeningProposal, bool]:
        """Approve one proposed change; return it, and whether the approval is new.

        Raises NotFoundError if the fingerprint is not proposed against the enforced version, Forbidden for the author
        of the proposal.
        """
        at = self._now()
        with self._database.writing() as stores:
            found, subject = _require_proposal(stores, contract_id, candidate, by)
            if found.approved_by is not None:
                return found, False
            if by is not ANONYMOUS and found.proposed_by == by.name:
                raise Forbidden(
                    f"{by.name} proposed the candidate {candidate}; another person with the role approver of the "
                    f"subject {subject} has to approve it"
                )
            approved = replace(found, approved_by=by.name, approved_at=at)
            stores.proposals.put(approved)
            stores.audit.append(_change(approved, by, APPROVED, subject, at))
            return approved, True

    def reject(self, contract_id: str, candidate: str, by: Principal = ANONYMOUS) -> WeakeningProposal:
        """Delete one proposed change, and its approval if it has one; return it.

        Its author may propose it again. Raises NotFoundError if the fingerprint is not proposed against the enforced
        version, Forbidden if the caller is not an approver of the subject.
        """
        at = self._now()
        with self._database.writing() as stores:
            found, subject = _require_proposal(stores, contract_id, candidate, by)
            stores.proposals.remove(found)
            stores.audit.append(_change(found, by, REJECTED, subject, at))
            return found


def write_or_propose(database: Database, work: Callable[[Stores], T]) -> T:
    """Run `work` in a write transaction, again for each proof that it lacks.

    On NotApproved, roll it back, store the proposal, and raise the error again.
    """
    try:
        return write(database, work)
    except NotApproved as error:
        with database.writing() as stores:
            _propose(stores, error.proposal)
        raise


@contextmanager
def guard_weakening(stores: Stores, contract_id: str | None, by: Principal, at: datetime) -> Iterator[None]:
    """Permit the changes of the block only if they weaken no enforced version, or two persons support them.

    These are the author and an approver of the subject: one who approved the candidate, or who makes the change that
    another person proposed. Without access control one person is enough, and the audit log records that. Raises
    NotApproved; the caller's transaction must then be rolled back.
    """
    before = None if contract_id is None else baseline(stores, contract_id)
    groups = {} if contract_id is None else _newest_of_groups(stores, contract_id)
    yield
    if contract_id is None or before is None:
        return
    after = baseline(stores, contract_id)
    weakened, changed = _weakenings_of(before, after), after
    for name, version in _newest_of_groups(stores, contract_id).items():
        # A version of an older group is below the enforced one, but still judges the records of its group.
        if not weakened and version.registry_id != (after and after.registry_id):
            weakened, changed = _weakenings_of(groups.get(name, before), version), version
    if weakened:
        _require_approval(stores, _proposal(before, changed, weakened, by, at), by, at)


def guard_grouping(stores: Stores, scope: str, group: str | None, by: Principal, at: datetime) -> None:
    """Permit another `compatibilityGroup` of a scope only if it weakens what judges no record, or two persons support it.

    It is called before the change, in the same transaction. A proposal is one contract's, so a change for all subjects
    that weakens a contract is refused. Raises NotApproved, ConflictError.
    """
    weakened = weakened_by_grouping(stores, scope, group, by, at)
    if weakened and scope == GLOBAL and by is not ANONYMOUS:
        raise _set_apart("weaken", [each.contract_id for each in weakened])
    for proposal in weakened:
        _require_approval(stores, proposal, by, at)


def weakened_by_grouping(
    stores: Stores, scope: str, group: str | None, by: Principal, at: datetime
) -> tuple[WeakeningProposal, ...]:
    """Return a proposal for each contract that another `compatibilityGroup` of a scope would weaken.

    Of all subjects, these are only as many as the refusal needs. Raises ConflictError if too many contracts change, or
    if the groups of one could not write one table.
    """
    changed: list[str] = []
    found: list[WeakeningProposal] = []
    for contract_id, topic, setting in _regrouped(stores, scope, group):
        before = baseline(stores, contract_id)
        moves = [] if before is None else _moves(stores, before, topic, setting)
        if before is None or not moves:
            continue
        changed.append(contract_id)
        if len(changed) > _MOST_REGROUPED:
            raise _set_apart("change which versions judge the records of", changed)
        apart = grouping_conflicts(stores, contract_id, topic, setting)
        if apart:
            raise ConflictError(
                f"compatibilityGroup={setting} would split the versions of the contract {contract_id} into groups that cannot "
                f"write one table: {'; '.join(apart[:_MOST_SHOWN])}; or retire the versions of a group that no producer uses"
            )
        proposal = _grouping_proposal(stores, before, setting, moves, by, at)
        found += [] if proposal is None else [proposal]
        if scope == GLOBAL and by is not ANONYMOUS and len(found) > _MOST_SHOWN:
            break
    return tuple(found)


def _regrouped(stores: Stores, scope: str, group: str | None) -> Iterator[tuple[str, str, str | None]]:
    """Yield the contracts that the setting of a scope may concern: id, topic, and the setting that would be in effect.

    Contracts have no subject in a named context, so the settings of a context concern none.
    """
    own = config_of(stores, GLOBAL)
    for_all = (own and own.group) or None
    if scope != GLOBAL:
        topic = topic_of(scope)
        contract_id = None if topic is None else stores.contracts.contract_of_topic(topic)
        if topic is not None and contract_id is not None:
            yield contract_id, topic, group or for_all
        return
    if group == for_all:
        return
    # A subject with one group, as without the setting, keeps the version that judges its records.
    split = split_subjects(stores, [each for each in (group, for_all) if each])
    for contract_id, topic in sorted(stores.contracts.topics().items()):
        subject = subject_of(topic)
        own = config_of(stores, subject) if subject in split else None
        if subject in split and not (own and own.group):
            yield contract_id, topic, group


def _moves(stores: Stores, before: ContractVersion, topic: str, setting: str | None) -> list[tuple[str, str]]:
    """Return which versions judge records, and which other ones would under a setting.

    Records that no version judges now are compared with the enforced version, as those of a new group are.
    """
    setting_now = group_setting(stores, topic)
    if setting == setting_now:
        return []
    unframed_group = json.loads(before.document).get("unframed_group")
    was, will = (judging_versions(stores, topic, each, unframed_group) for each in (setting_now, setting))
    pairs = {(was.get(key, before.version), version) for key, version in will.items()}
    return sorted((old, new) for old, new in pairs if old != new)


def _grouping_proposal(
    stores: Stores,
    before: ContractVersion,
    setting: str | None,
    moves: list[tuple[str, str]],
    by: Principal,
    at: datetime,
) -> WeakeningProposal | None:
    """Return the proposal of a setting under which weaker versions judge some records; None if none is weaker.

    The candidate is a fingerprint of the setting and of these versions, so its approval permits no other change.
    """
    weakened: list[Weakening] = []
    weaker: list[tuple[ContractVersion, ContractVersion]] = []
    named = f"with compatibilityGroup {setting}" if setting else "without compatibilityGroup"
    for pair in moves:
        old, new = (stores.contracts.version(before.contract_id, each) for each in pair)
        found = () if old is None or new is None else _weakenings_of(old, new)
        if old is not None and new is not None and found:
            sentence = f"{named}, {new.version} would judge records instead of {old.version}"
            weakened += [Weakening(REGROUPED, sentence), *found]
            weaker.append((old, new))
    if not weaker:
        return None
    proposal = _proposal(before, weaker[0][1], tuple(weakened[:_MOST_WEAKENINGS]), by, at)
    fingerprints = [[old.fingerprint, new.fingerprint] for old, new in weaker]
    return replace(proposal, candidate=content_hash([setting, fingerprints]))


def _set_apart(effect: str, contract_ids: list[str]) -> ConflictError:
    """Return the error for a setting of all subjects that has to be set for some of them first."""
    names = [*contract_ids[:_MOST_SHOWN], *(["and more"] if len(contract_ids) > _MOST_SHOWN else [])]
    return ConflictError(
        f"compatibilityGroup for all subjects would {effect} the contracts {', '.join(names)}. First set "
        "compatibilityGroup of each of their subjects with PUT /config/SUBJECT: as it is now, or as it should be with "
        "another person's approval"
    )


def _newest_of_groups(stores: Stores, contract_id: str) -> dict[str, ContractVersion]:
    """Return the newest enforced version of each compatibility group; empty without groups."""
    topic = stores.contracts.topic_of(contract_id)
    found = () if topic is None else groups_of(stores, topic).groups
    versions = (
        (each.name, stores.contracts.version(contract_id, each.version)) for each in found if each.version
    )
    return {name: version for name, version in versions if version is not None}


def propose_draft(stores: Stores, draft: ContractVersion, by: Principal, at: datetime) -> None:
    """Record the author of a draft that weakens the enforced version, so that another person may promote it."""
    before = baseline(stores, draft.contract_id)
    weakened = () if before is None else _weakenings_of(before, draft)
    if before is not None and weakened and by is not ANONYMOUS:
        _propose(stores, _proposal(before, draft, weakened, by, at))


def prepare_proofs(stores: Stores, contract: DataContract) -> None:
    """Prove what a publication weakens before its write transaction."""
    before = baseline(stores, contract.id)
    if before is not None:
        proven(_weakenings_of_documents, _comparable(before.contract), _comparable(contract))


def baseline(stores: Stores, contract_id: str) -> ContractVersion | None:
    """Return the version to compare a change with: the enforced one, otherwise the highest that was ever enforced.

    So a deletion or a retirement does not permit a looser contract. None before the first version, and after all were
    permanently deleted.
    """
    enforced = stores.contracts.highest(contract_id, ENFORCED)
    if enforced is not None:
        return enforced
    for version in stores.contracts.versions(contract_id, deleted=True):
        if any(change.status in ENFORCED for change in stores.lifecycle.changes(version.registry_id)):
            return version
    return None


def _weakenings_of(before: ContractVersion, after: ContractVersion | None) -> tuple[Weakening, ...]:
    if after is None:
        return (FORGOTTEN,)
    if before.registry_id == after.registry_id:
        return ()
    one, other = (each.contract for each in (before, after))
    return proven(_weakenings_of_documents, _comparable(one), _comparable(other))


def _comparable(contract: DataContract) -> bytes:
    """Dump a contract with a fixed version and status, because these weaken nothing."""
    return dump_contract(contract.model_copy(update={"version": "0.0.0", "status": Status.ACTIVE}))


def _weakenings_of_documents(before: bytes, after: bytes) -> tuple[Weakening, ...]:
    one, other = (DataContract.model_validate_json(each) for each in (before, after))
    return weakenings(one, other)[:_MOST_WEAKENINGS]


def _proposal(
    before: ContractVersion,
    after: ContractVersion | None,
    weakened: tuple[Weakening, ...],
    by: Principal,
    at: datetime,
) -> WeakeningProposal:
    candidate, version = (NOTHING, "") if after is None else (after.fingerprint, after.version)
    return WeakeningProposal(
        before.contract_id, before.fingerprint, candidate, version, weakened, by.name, at
    )


def _require_approval(stores: Stores, wanted: WeakeningProposal, by: Principal, at: datetime) -> None:
    subject = subject_of_contract(stores, wanted.contract_id)
    found = stores.proposals.find(wanted.contract_id, wanted.base, wanted.candidate)
    if by is ANONYMOUS:
        stores.audit.append(_change(wanted, by, SELF_APPROVED, subject, at))
    elif found is None:
        raise NotApproved(wanted)
    elif found.approved_by is None:
        if found.proposed_by == by.name or not by.may(Role.APPROVER, subject):
            raise NotApproved(found)
        stores.audit.append(_change(found, by, APPROVED, subject, at))
    if found is not None:
        stores.proposals.remove(found)


def _propose(stores: Stores, proposal: WeakeningProposal) -> None:
    """Store a proposal unless it exists: its first author stays its author."""
    if stores.proposals.find(proposal.contract_id, proposal.base, proposal.candidate) is not None:
        return
    stores.proposals.put(proposal)
    subject = subject_of_contract(stores, proposal.contract_id)
    at, who = proposal.proposed_at, proposal.proposed_by
    stores.audit.append(AuditedAction(at, who, PROPOSED, subject, proposal.base, proposal.candidate))


def _open_proposals(stores: Stores, contract_id: str) -> tuple[WeakeningProposal, ...]:
    subject_of_contract(stores, contract_id)
    enforced = baseline(stores, contract_id)
    if enforced is None:
        return ()
    found = stores.proposals.of_contract(contract_id)
    return tuple(each for each in found if each.base == enforced.fingerprint)


def _require_proposal(
    stores: Stores, contract_id: str, candidate: str, by: Principal
) -> tuple[WeakeningProposal, str]:
    """Return the open proposal of a candidate, and its subject. Raises NotFoundError, Forbidden."""
    found = next((each for each in _open_proposals(stores, contract_id) if each.candidate == candidate), None)
    if found is None:
        raise NotFoundError(
            f"no proposal exists of the candidate {candidate} against the version of {contract_id} that is enforced now; have "
            "its author publish it again"
        )
    subject = subject_of_contract(stores, contract_id)
    require(by, Role.APPROVER, subject)
    return found, subject


def _change(
    proposal: WeakeningProposal, by: Principal, action: str, subject: str, at: datetime
) -> AuditedAction:
    return AuditedAction(at, by.name, action, subject, proposal.base, proposal.candidate)


def _sentence(proposal: WeakeningProposal) -> str:
    sentences = [each.sentence for each in proposal.weakenings]
    if len(sentences) > _MOST_SHOWN:
        sentences = [*sentences[:_MOST_SHOWN], f"and {len(sentences) - _MOST_SHOWN} more"]
    what = f"{proposal.contract_id} {proposal.version}" if proposal.version else proposal.contract_id
    return f"{what} would be less strict than what is enforced: {'; '.join(sentences)}. {next_step(proposal)}"


def next_step(proposal: WeakeningProposal) -> str:
    """Return the next step before the change takes effect."""
    return (
        f"Have another person than {proposal.proposed_by}, with the role approver, run `tidegate approve "
        f"{proposal.contract_id} {proposal.candidate}`, then make the same request again"
    )
