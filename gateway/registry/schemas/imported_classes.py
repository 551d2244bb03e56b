"""The tags that metadata give to fields by their paths, as classes of a contract, so that they hide what they name."""

from __future__ import annotations

import json
from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.classes import WHOLE_RECORD, classes_of
from tidegate.gateway.registry.schemas.entities import Metadata
from tidegate.gateway.registry.schemas.parsing import ParsedSchema
from tidegate.gateway.registry.schemas.tags import with_inline_tags

PREFIX: Final = "confluent:"
"""Begins the classes that come from metadata; the next registration replaces them."""


def with_tags(contract: DataContract, schema: ParsedSchema, metadata: Metadata | None) -> DataContract:
    """Classify the fields that the tags of metadata name; what the contract says of a field itself goes before.

    A tag of the whole record classifies each of its fields.
    """
    own = {pointer: name for pointer, name in contract.classification.items() if not name.startswith(PREFIX)}
    tags = metadata.tags if metadata is not None else {}
    found: dict[str, str] = {}
    if tags:
        text = with_inline_tags(schema.schema_type, json.dumps(schema.definition), tags)
        tagged = contract.schema_.model_copy(update={"definition": json.loads(text)})
        bare = contract.model_copy(update={"schema_": tagged, "classification": {}, "mask": {}})
        found = dict(classes_of(bare).by_pointer)
        whole = found.pop(WHOLE_RECORD, None)
        if whole is not None:
            found |= dict.fromkeys(_fields(schema.definition), whole)
    imported = {pointer: f"{PREFIX}{name}" for pointer, name in found.items()}
    return contract.model_copy(update={"classification": imported | own})


def _fields(definition: Any) -> list[str]:
    if not isinstance(definition, dict):
        return []
    names = [*definition.get("properties", {}), *(each["name"] for each in definition.get("fields", ()))]
    return [join((name,)) for name in names]
