"""Contracts, made in one line."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from tidegate.contracts.document.model import DataContract

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{4}$"},
        "age": {"type": ["integer", "null"], "minimum": 0},
        "weight": {"type": "number"},
        "ward": {"type": "string", "enum": ["icu", "surgery", "maternity"]},
        "code": {"type": "string"},
        "admitted": {"type": "string", "format": "date"},
        "discharged": {"type": ["string", "null"], "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "consultant": {"type": "string"},
        "address": {
            "type": "object",
            "properties": {"postcode": {"type": "string"}},
            "required": ["postcode"],
        },
    },
    "required": ["id", "admitted"],
    "additionalProperties": False,
}


class MakeContract(Protocol):
    """Makes a contract: rules that get ids, a JSON Schema unless `kind` says avro, and any other key."""

    def __call__(
        self, *rules: dict[str, Any], schema: Any = ..., kind: str = ..., **others: Any
    ) -> DataContract: ...


def contract_of(
    *rules: dict[str, Any], schema: Any = None, kind: str = "json-schema", **others: Any
) -> DataContract:
    formats = {"formats": others.pop("formats")} if "formats" in others else {}
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "hospital.admissions",
            "version": "1.0.0",
            "topic": "hospital.admissions",
            "schema": {"type": kind, "definition": SCHEMA if schema is None else schema, **formats},
            "rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)],
            **others,
        }
    )


@pytest.fixture(scope="session")
def make_contract() -> MakeContract:
    return contract_of
