"""The compatibility groups of a contract's subject: the newest enforced version of each, and the schemas in it.

Source: Confluent Schema Registry, setting `compatibilityGroup`: the metadata property that names the group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tidegate.contracts.columns.union import GroupColumns, conflicts
from tidegate.contracts.compiled import table_columns
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.judge.groups import MOST_GROUPS
from tidegate.gateway.registry.schemas.names import scopes
from tidegate.gateway.registry.subject_scope import ENFORCED, config_of
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import SubjectVersion

_CACHE_SIZE = 256


@dataclass(frozen=True, slots=True)
class CompatibilityGroup:
    """A group, named by the value of its metadata property; "" for versions without the property.

    `version` is its newest enforced contract version, None without one. `schemas` are the ids of its schemas,
    including deleted versions, because their records are still in the topic.
    """

    name: str
    version: str | None
    schemas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompatibilityGroups:
    """The groups of a subject. `setting` is the property that names the group, None without the setting.

    `newest` is the group of the newest enforced version.
    """

    setting: str | None = None
    newest: str | None = None
    groups: tuple[CompatibilityGroup, ...] = ()


def group_setting(stores: Stores, topic: str) -> str | None:
    """Return the property that names the groups of a topic's subject; None without the setting."""
    for scope in scopes(subject_of(topic)):
        found = config_of(stores, scope)
        if found is not None and found.group:
            return found.group
    return None


def groups_of(stores: Stores, topic: str) -> CompatibilityGroups:
    """Return the groups of a topic's subject, ordered by name."""
    setting = group_setting(stores, topic)
    return CompatibilityGroups() if setting is None else _groups_by(stores, topic, setting)


def judging_versions(
    stores: Stores, topic: str, setting: str | None, unframed_group: str | None
) -> dict[int | None, str]:
    """Return the version that would judge the records of each schema id, and (None) those without one, under a setting.

    `unframed_group` is that of the newest version. Ids whose records no version would judge are left out.
    """
    found = _groups_by(stores, topic, setting)
    versions = {each.name: each.version for each in found.groups if each.version is not None}
    judges: dict[int | None, str] = {
        schema_id: versions[each.name]
        for each in found.groups
        if each.name in versions
        for schema_id in each.schemas
    }
    unframed = found.newest
    if setting is not None and unframed_group is not None:
        unframed = unframed_group
    elif len(versions) > 1:
        unframed = None
    return judges | ({None: versions[unframed]} if unframed in versions else {})


def split_subjects(stores: Stores, settings: Iterable[str]) -> frozenset[str]:
    """Return the subjects whose versions one of the settings puts into several groups."""
    named = tuple(settings)
    groups: dict[tuple[str, str], set[str]] = {}
    for subject, metadata_json in stores.subjects.metadata():
        for setting in named:
            groups.setdefault((subject, setting), set()).add(_group_in(metadata_json, setting))
    return frozenset(subject for (subject, _), names in groups.items() if len(names) > 1)


def _groups_by(stores: Stores, topic: str, setting: str | None) -> CompatibilityGroups:
    """Return the groups that a setting makes; None makes one without a name."""
    ids: dict[str, set[int]] = {}
    versions: dict[str, tuple[bytes, str]] = {}
    for member in stores.subjects.members(subject_of(topic), ENFORCED):
        name = _group_in(member.metadata_json, setting)
        ids.setdefault(name, set()).add(member.schema_id)
        if member.precedence is not None and member.version is not None:
            versions[name] = max(versions.get(name, (b"", "")), (member.precedence, member.version))
    groups = tuple(
        CompatibilityGroup(name, versions[name][1] if name in versions else None, tuple(sorted(ids[name])))
        for name in sorted(ids)
    )
    newest = max(versions, key=lambda name: versions[name]) if versions else None
    return CompatibilityGroups(setting, newest, groups)


def require_group(stores: Stores, contract: DataContract) -> None:
    """Require that a document names its compatibility group if its subject has groups, and none otherwise.

    Raises ContractError. A document without a group would join the versions without the property, and judge their
    producers' records. With a group of unframed records that does not exist, each unframed record would be refused.
    """
    subject = subject_of(contract.topic)
    setting = group_setting(stores, contract.topic)
    if setting is None:
        for member in ("compatibility_group", "unframed_group"):
            if getattr(contract, member) is not None:
                raise ContractError.at(
                    f"/{member}",
                    f"the subject {subject} has no compatibility groups; set `compatibilityGroup` with "
                    f"PUT /config/{subject}, or leave {member} out",
                )
        return
    found = groups_of(stores, contract.topic).groups
    names = [group.name for group in found]
    listed = ", ".join(json.dumps(name) for name in names)
    if contract.compatibility_group is None and any(names):
        raise ContractError.at(
            "/compatibility_group",
            f"the subject {subject} has compatibility groups (by {setting}: {listed}), and this version names none; name "
            'the group of its records, or "" for that of the versions without one',
        )
    unframed = contract.unframed_group
    enforced = [group.name for group in found if group.version is not None]
    if unframed in names and unframed not in {contract.compatibility_group or "", *enforced}:
        raise ContractError.at(
            "/unframed_group",
            f"no version of the group {json.dumps(unframed)} of the subject {subject} is enforced, and records that name no "
            "schema would all be refused; name a group with an enforced version, or that of this version",
        )
    if unframed not in {None, contract.compatibility_group or "", *names}:
        raise ContractError.at(
            "/unframed_group",
            f"the subject {subject} has no group {json.dumps(unframed)} (by {setting}: {listed}), and records that name no "
            "schema would all be refused; name one of its groups, or that of this version",
        )


def table_conflicts(stores: Stores, contract: DataContract, group: str) -> tuple[str, ...]:
    """Return why a version of a group cannot write one table with the other groups, a sentence each."""
    others = [
        each
        for each in groups_of(stores, contract.topic).groups
        if each.version is not None and each.name != group
    ]
    if not others:
        return ()
    if len(others) >= MOST_GROUPS:
        sentence = (
            f"{len(others)} other compatibility groups have an enforced version, and {MOST_GROUPS} may in all; retire "
            "the versions of one that no producer uses"
        )
        return (sentence,)
    parts = [GroupColumns(contract, table_columns(contract)), *_parts(stores, contract.id, others)]
    return tuple(dict.fromkeys(conflicts(parts)))


def grouping_conflicts(stores: Stores, contract_id: str, topic: str, setting: str | None) -> tuple[str, ...]:
    """Return why the groups that a setting would make cannot write one table, a sentence each."""
    groups = [each for each in _groups_by(stores, topic, setting).groups if each.version is not None]
    if len(groups) < 2:
        return ()
    if len(groups) > MOST_GROUPS:
        sentence = (
            f"{len(groups)} compatibility groups have an enforced version, and {MOST_GROUPS} may in all"
        )
        return (sentence,)
    return tuple(dict.fromkeys(conflicts(_parts(stores, contract_id, groups))))


def _parts(stores: Stores, contract_id: str, groups: Iterable[CompatibilityGroup]) -> list[GroupColumns]:
    found = (stores.contracts.version(contract_id, each.version or "") for each in groups)
    return [_columns(each.document) for each in found if each is not None]


def require_one_table(stores: Stores, contract: DataContract, registered: SubjectVersion | None) -> None:
    """Require that a version can write one table with those of the other groups. Raises ContractError.

    `registered` is its version in the subject, None for a new document.
    """
    setting = group_setting(stores, contract.topic)
    if setting is None:
        return
    if registered is None:
        group = contract.compatibility_group or ""
    else:
        group = _group_in(registered.schema.metadata_json, setting)
    found = table_conflicts(stores, contract, group)
    if found:
        raise ContractError(_problems(found))


def _problems(sentences: Iterable[str]) -> tuple[Problem, ...]:
    return tuple(Problem("/columns", sentence) for sentence in sentences)


@lru_cache(maxsize=_CACHE_SIZE)
def _columns(document: bytes) -> GroupColumns:
    contract = DataContract.model_validate_json(document)
    return GroupColumns(contract, table_columns(contract))


def _group_in(metadata_json: str | None, setting: str | None) -> str:
    if setting is None:
        return ""
    properties = json.loads(metadata_json or "{}").get("properties") or {}
    return str(properties.get(setting) or "")
