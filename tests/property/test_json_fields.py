"""The types of fields that a JSON Schema declares, against the records that it accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.json_schema_worlds import DIALECTS, NAMES, SchemaMaker, seeded, value
from tidegate.contracts.columns.typed import derived_type, kind_of
from tidegate.contracts.document.fields import FieldType, tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.rules.places import EACH, places

_TYPES = {
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    str: {"string"},
    list: {"array"},
    dict: {"object"},
}


def is_held(found: FieldType, held: Any) -> bool:
    """Return whether a field may hold a value, and whether its derived column can."""
    whole = {"integer"} if isinstance(held, float) and held.is_integer() else set()
    if not found.possible & (_TYPES[type(held)] | whole):
        return False
    kind = kind_of(derived_type(found, formats_hold=True), found)
    return found.is_partial or (kind is not None and kind.convert(held) is not None)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**63))
def test_a_field_of_a_record_that_fits_has_a_declared_type(seed: int) -> None:
    """A partial type promises nothing, and the column of one may refuse a record."""
    random = seeded(seed)
    maker = SchemaMaker(random, random.randrange(len(DIALECTS)))
    schema = maker.document()
    assume(isinstance(schema, dict))
    named = {name: maker.schema(1) for name in random.sample(NAMES, 2)}
    schema["properties"] = {**schema.get("properties", {}), **named}
    try:
        fit = JsonSchemaFormat(
            JsonSchema.model_validate({"type": "json-schema", "definition": schema, "formats": "assert"})
        )
    except ContractError:
        assume(False)
        raise
    declared = fit.fields.pointers()[:20]
    pointers = [*declared, *(f"{each}/{token}" for each in declared for token in (EACH, "0", "1"))]
    for _ in range(30):
        record = {name: value(random) for name in random.sample(NAMES, random.randint(1, 4))}
        for pointer in pointers if fit.is_valid(record) else ():
            found = fit.fields.find(pointer)
            for _, (held,) in places(record, [tokens(pointer)]):
                assert found is None or held is None or is_held(found, held), (schema, record, pointer)
