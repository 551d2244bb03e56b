"""The GUID of a schema: equal wherever the same schema is registered.

Source: Confluent Schema Registry, `Schema.updateHash`: MD5 of the text, the references, the metadata and the rule
set, read as a UUID.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator

from tidegate.gateway.registry.schemas.entities import Metadata, Reference, Rule, RuleSet

_GIVEN = b"\x01"
"""Stands before metadata and rule set, to tell empty ones from none."""


def schema_guid(
    text: str, references: tuple[Reference, ...], metadata: Metadata | None, rule_set: RuleSet | None
) -> str:
    """Return the GUID of a schema by its canonical text and what belongs to it."""
    digest = hashlib.md5(usedforsecurity=False)
    for part in _parts(text, references, metadata, rule_set):
        digest.update(part if isinstance(part, bytes) else part.encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _parts(
    text: str, references: tuple[Reference, ...], metadata: Metadata | None, rule_set: RuleSet | None
) -> Iterator[str | bytes]:
    yield text
    for reference in references:
        yield reference.name
        yield reference.subject
        yield reference.version.to_bytes(4, signed=True)
    if metadata is not None:
        yield _GIVEN
        for path, tags in metadata.tags.items():
            yield path
            yield from tags
        for name, value in metadata.properties.items():
            yield name
            yield value
        yield from metadata.sensitive
    if rule_set is not None:
        yield _GIVEN
        for rule in rule_set.rules():
            yield from _rule_parts(rule)


def _rule_parts(rule: Rule) -> Iterator[str | bytes]:
    yield rule.name
    yield rule.doc or ""
    yield rule.kind
    yield rule.mode
    yield rule.type
    yield from rule.tags
    for name, value in rule.params.items():
        yield name
        yield value
    yield rule.expr or ""
    yield rule.on_success or ""
    yield rule.on_failure or ""
    yield b"\x01" if rule.disabled else b""
