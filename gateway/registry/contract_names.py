"""What a contract's id names: its topic, and the subject of the topic's values."""

from __future__ import annotations

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.storage.sql import Stores


def unknown_contract(contract_id: str) -> NotFoundError:
    """Return the error about an id that no contract has."""
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
