"""Random JSON Schemas that name no draft: what is compatible is so for every client and for the stream."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.boundary_documents import Boundary
from tests.property.json_schema_rewrites import pair
from tests.property.json_schema_worlds import seeded, value
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.gateway.registry.schema_compatibility import Earlier, check_compatibility
from tidegate.gateway.registry.schemas.entities import Config
from tidegate.gateway.registry.schemas.errors import Refused
from tidegate.gateway.registry.schemas.json_schema import DRAFT_7, NEWEST, without_dialect
from tidegate.gateway.registry.schemas.parsing import ParsedSchema, parse_schema


def judge(definition: Any) -> JsonSchemaFormat | None:
    try:
        return JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition))
    except ContractError:
        return None


def undrafted(random: Random) -> tuple[ParsedSchema, ParsedSchema]:
    """Make two schemas without `$schema`, the earlier one read by either dialect, the new one as draft 7."""
    dialects = random.choice((DRAFT_7, NEWEST)), DRAFT_7
    written = [without_dialect(each) if isinstance(each, dict) else each for each in pair(random)[:2]]
    try:
        old, new = (
            parse_schema("JSON", json.dumps(each), {}, dialect)
            for each, dialect in zip(written, dialects, strict=True)
        )
    except Refused:
        assume(False)
        raise
    return old, new


@given(st.integers(0, 2**63))
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_no_document_contradicts_compatible_in_any_reading(seed: int) -> None:
    random = seeded(seed)
    old, new = undrafted(random)
    answer = check_compatibility(new, Config(level="BACKWARD"), (Earlier.of("version 1", old),))
    assume(answer.is_compatible)
    readings = [(old.definition, new.definition)]
    readings += [(old.read_as(each).definition, new.read_as(each).definition) for each in (DRAFT_7, NEWEST)]
    boundary = Boundary(random, old.definition, new.definition)
    documents = [make() for _ in range(40) for make in (boundary.document, lambda: value(random, 3))]
    for before, after in readings:
        accepts, judges = judge(before), judge(after)
        if accepts is not None:
            assert judges is not None, (before, after)
            for document in documents:
                assert judges.is_valid(document) or not accepts.is_valid(document), (before, after, document)
