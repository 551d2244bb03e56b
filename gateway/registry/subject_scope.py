"""The contract that governs a subject, and the settings of the subject's own scope and of wider ones."""

from __future__ import annotations

import json
from typing import Any

from tidegate.contracts.document.model import Compatibility, DataContract, Status
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.registry.schemas.entities import Config
from tidegate.gateway.registry.schemas.errors import read_only
from tidegate.gateway.registry.schemas.names import GLOBAL, scopes, topic_of
from tidegate.gateway.storage.sql import Stores

DEFAULT_LEVEL = "BACKWARD"
ENFORCED = (Status.ACTIVE.value, Status.DEPRECATED.value)
LEVELS = tuple(each.value for each in Compatibility)
POLICIES = ("STRICT", "LENIENT")
READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = MODES = (
    "READWRITE",
    "READONLY",
    "READONLY_OVERRIDE",
    "IMPORT",
)


def config_of(stores: Stores, scope: str) -> Config | None:
    """Return the settings of one scope itself; None if it has none."""
    found = stores.settings.setting(scope).config
    return None if found is None else Config.model_validate_json(found)


def config_in_scope(stores: Stores, subject: str) -> Config:
    """Return the settings in effect for a subject: each as the nearest scope that has it sets it.

    A level that the subject's contract promises, if not the default, comes after the subject's own settings and before
    the wider scopes.
    """
    merged: dict[str, Any] = {}
    for scope in scopes(subject):
        found = config_of(stores, scope)
        if found is not None:
            own = {name: getattr(found, name) for name in found.model_fields_set}
            merged = {**{name: value for name, value in own.items() if value is not None}, **merged}
        if scope == subject and "level" not in merged:
            promised = _promised_level(stores, subject)
            merged |= {"level": promised} if promised else {}
    return Config(**merged)


def _promised_level(stores: Stores, subject: str) -> str | None:
    """Return the level that a subject's contract promises; None if it is the default, or without a contract."""
    topic = topic_of(subject)
    contract_id = stores.contracts.contract_of_topic(topic) if topic else None
    enforced = stores.contracts.highest(contract_id, ENFORCED) if contract_id else None
    return None if enforced is None else json.loads(enforced.document).get("compatibility")


def mode_of(stores: Stores, scope: str) -> str | None:
    """Return the mode of one scope itself; None if it has none."""
    return stores.settings.setting(scope).mode


def mode_in_scope(stores: Stores, subject: str) -> str:
    """Return the mode in effect for a subject. A global READONLY_OVERRIDE overrides every narrower mode."""
    for_all = mode_of(stores, GLOBAL)
    if for_all == READONLY_OVERRIDE:
        return for_all
    found = (mode_of(stores, scope) for scope in scopes(subject))
    return next((mode for mode in found if mode is not None), READWRITE)


def check_writable(stores: Stores, subject: str) -> str:
    """Return the mode in effect for a subject or another scope. Raises Refused (42205) if it is read-only."""
    mode = mode_in_scope(stores, subject)
    if mode in {READONLY, READONLY_OVERRIDE}:
        raise read_only("null" if subject == GLOBAL else subject)
    return mode


def unknown_contract(contract_id: str) -> NotFoundError:
    """Return the error for an id that no contract has."""
    return NotFoundError(f"no contract is published under the id {contract_id}")


def topic_of_contract(stores: Stores, contract_id: str) -> str:
    """Return the topic that a contract owns. Raises NotFoundError."""
    topic = stores.contracts.topic_of(contract_id)
    if topic is None:
        raise unknown_contract(contract_id)
    return topic


def subject_of_contract(stores: Stores, contract_id: str) -> str:
    """Return the subject that a contract governs. Raises NotFoundError."""
    return subject_of(topic_of_contract(stores, contract_id))


def enforced_contract(stores: Stores, contract_id: str) -> DataContract | None:
    """Return the enforced version of a contract; None without one."""
    enforced = stores.contracts.highest(contract_id, ENFORCED)
    return None if enforced is None else enforced.contract
