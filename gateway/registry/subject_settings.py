"""Compatibility settings and modes of a subject, of a context, or of the whole registry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.registry.approvals import guard_grouping, weakened_by_grouping, write_or_propose
from tidegate.gateway.registry.schemas.entities import Config
from tidegate.gateway.registry.schemas.errors import (
    Refused,
    invalid_level,
    invalid_mode,
    no_subject_level,
    no_subject_mode,
    not_permitted,
    subject_not_found,
)
from tidegate.gateway.registry.schemas.names import GLOBAL, canonical
from tidegate.gateway.registry.schemas.rule_sets import check_rule_set
from tidegate.gateway.registry.subject_reading import ListedSubjects
from tidegate.gateway.registry.subject_scope import (
    DEFAULT_LEVEL,
    IMPORT,
    LEVELS,
    MODES,
    POLICIES,
    READWRITE,
    check_writable,
    config_in_scope,
    config_of,
    mode_in_scope,
    mode_of,
)
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import Deleted


class SubjectSettings(Service):
    """A service that reads and changes the settings and modes of scopes."""

    def config(self, name: str, *, inherited: bool) -> Config:
        """Return a scope's own settings, or with `inherited` those in effect. Raises Refused (40408)."""
        scope = canonical(name)
        with self._database.reading() as stores:
            if scope == GLOBAL or inherited:
                found = config_in_scope(stores, scope)
                return found if found.level else found.model_copy(update={"level": DEFAULT_LEVEL})
            own = config_of(stores, scope)
            if own is None:
                raise no_subject_level(scope)
            return own

    def alias(self, subject: str) -> str | None:
        """Return the subject that a subject is an alias of; None if it is not an alias."""
        own = self._database.read(lambda stores: config_of(stores, subject))
        return (own.alias or None) if own else None

    def put_config(self, name: str, given: Mapping[str, Any], by: Principal) -> dict[str, Any]:
        """Change the given settings (null removes one); return all settings of the scope.

        Raises Refused, NotApproved or ConflictError if another `compatibilityGroup` weakens what judges records.
        """
        scope = canonical(name)
        changes = read_config(given)
        at = self._now()

        def work(stores: Stores) -> Config:
            check_writable(stores, scope)
            old = config_of(stores, scope)
            kept = {name: getattr(old, name) for name in (old.model_fields_set if old else ())}
            kept |= {name: getattr(changes, name) for name in changes.model_fields_set}
            new = Config(**{name: value for name, value in kept.items() if value is not None})
            guard_grouping(stores, scope, new.group or None, by, at)
            stores.settings.put_config(scope, new.model_dump_json(by_alias=True, exclude_unset=True))
            change = AuditedAction(at, by.name, "subject.config-changed", scope, _hash(old), _hash(new))
            stores.audit.append(change)
            return new

        if "group" in changes.model_fields_set:
            self._prove_grouping(scope, changes.group or None, by, at)
        shown = write_or_propose(self._database, work).shown()
        level = shown.pop("compatibilityLevel", None)
        return shown if level is None else {"compatibility": level, **shown}

    def delete_config(self, name: str, by: Principal) -> Config:
        """Delete the settings of a scope; return them.

        Raises Refused (40401, 42205), NotApproved or ConflictError if that weakens what judges records.
        """
        scope = canonical(name)
        at = self._now()

        def work(stores: Stores) -> Config:
            old = config_of(stores, scope)
            if old is None and scope != GLOBAL:
                raise subject_not_found(scope)
            check_writable(stores, scope)
            if old is None:
                return Config(level=DEFAULT_LEVEL)
            guard_grouping(stores, scope, None, by, at)
            stores.settings.put_config(scope, None)
            stores.audit.append(AuditedAction(at, by.name, "subject.config-deleted", scope, _hash(old)))
            return old

        self._prove_grouping(scope, None, by, at)
        return write_or_propose(self._database, work)

    def _prove_grouping(self, scope: str, group: str | None, by: Principal, at: datetime) -> None:
        """Prove what another `compatibilityGroup` weakens before the write transaction, which checks it again."""
        self._database.read(lambda stores: weakened_by_grouping(stores, scope, group, by, at))

    def mode(self, name: str, *, inherited: bool) -> str:
        """Return a scope's own mode, or with `inherited` the one in effect. Raises Refused (40409)."""
        scope = canonical(name)
        with self._database.reading() as stores:
            if scope == GLOBAL:
                return mode_of(stores, scope) or READWRITE
            if inherited:
                return mode_in_scope(stores, scope)
            own = mode_of(stores, scope)
            if own is None:
                raise no_subject_mode(scope)
            return own

    def put_mode(self, name: str, mode: str, *, force: bool, who: str) -> str:
        """Set the mode of a scope. Raises Refused (42204, 42205).

        A change to IMPORT needs `force`, or a scope without versions that are not deleted.
        """
        scope, mode = canonical(name), mode.upper()
        if mode not in MODES:
            raise invalid_mode()
        at = self._now()
        with self._database.writing() as stores:
            old = mode_of(stores, scope)
            begins = mode == IMPORT and mode_in_scope(stores, scope) != IMPORT
            if begins and not force and _has_versions(stores, scope):
                raise not_permitted("Cannot import since found existing subjects")
            stores.settings.put_mode(scope, mode)
            change = AuditedAction(at, who, "subject.mode-changed", scope, _mode_hash(old), _mode_hash(mode))
            stores.audit.append(change)
            return mode

    def delete_mode(self, name: str, who: str) -> str:
        """Delete the mode of a scope; return it. Raises Refused (40401)."""
        scope = canonical(name)
        at = self._now()
        with self._database.writing() as stores:
            old = mode_of(stores, scope)
            if old is None:
                if scope == GLOBAL:
                    return READWRITE
                raise subject_not_found(scope)
            stores.settings.put_mode(scope, None)
            stores.audit.append(AuditedAction(at, who, "subject.mode-deleted", scope, _mode_hash(old)))
            return old


def read_config(given: Mapping[str, Any]) -> Config:
    """Parse settings from a request; the level may be named `compatibility`. Raises Refused (42203, 42210)."""
    found = dict(given)
    if "compatibility" in found:
        found["compatibilityLevel"] = found.pop("compatibility")
    level = found.get("compatibilityLevel")
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise invalid_level()
        found["compatibilityLevel"] = level.upper()
    policy = found.get("compatibilityPolicy")
    if policy is not None:
        if not isinstance(policy, str) or policy.upper() not in POLICIES:
            raise Refused(422, 42203, "Invalid compatibility policy. Valid values are strict and lenient")
        found["compatibilityPolicy"] = policy.upper()
    config = Config.model_validate(found)
    if config.alias:
        canonical(config.alias)
    check_rule_set(config.default_rule_set)
    check_rule_set(config.override_rule_set)
    return config


def _has_versions(stores: Stores, scope: str) -> bool:
    """Return whether a scope has a version that is not deleted."""
    if scope == GLOBAL:
        wanted = ListedSubjects()
    elif scope.endswith(":"):
        wanted = ListedSubjects(prefix=scope)
    else:
        return bool(stores.subjects.numbers(scope, Deleted.LEFT_OUT))
    query = stores.subjects.subjects(wanted.context, wanted.beginning, wanted.deleted, None)
    return bool(stores.subjects.page(query, 0, 1))


def _hash(config: Config | None) -> str | None:
    return None if config is None else content_hash(config.shown())


def _mode_hash(mode: str | None) -> str | None:
    return None if mode is None else content_hash(mode)
