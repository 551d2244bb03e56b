"""The compiled parts of a contract, without its judge: what lint, publication and comparison need."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.contracts.columns.typed import TypedColumn, compile_columns
from tidegate.contracts.document.consistency import inconsistencies
from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import AvroSchema, DataContract, JsonSchema
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.expectations.compile import compile_expectations
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.privacy.masks import Masks, masks_of, privacy_problems
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.rules.compile import compile_rules
from tidegate.contracts.rules.compiled import CompiledRules
from tidegate.contracts.suggestions import suggestion_budget


@dataclass(frozen=True, slots=True)
class ContractParts:
    """Schema, rules, columns and masks of a contract: all parts in which an author can make mistakes."""

    payload_format: JsonSchemaFormat | AvroFormat
    rules: CompiledRules
    columns: tuple[TypedColumn, ...]
    masks: Masks


@suggestion_budget()
def compile_parts(contract: DataContract, mask_key: MaskKey | None) -> ContractParts:
    """Compile the parts of a self-contained contract. Raises ContractError like `judge.plan.compile_plan`."""
    problems = list(inconsistencies(contract))
    if contract.framing == "auto" and isinstance(contract.schema_, AvroSchema):
        message = "`auto` is for JSON: bare Avro may begin with a zero byte as well; say `none` or `confluent-prefix`"
        problems.append(Problem("/framing", message))
    payload_format = rules = None
    columns: tuple[TypedColumn, ...] = ()
    try:
        payload_format = _compile_format(contract)
    except ContractError as error:
        raise ContractError((*problems, *error.problems)) from None
    problems += privacy_problems(contract, payload_format.fields)
    masks = masks_of(contract, mask_key)
    formats_hold = isinstance(contract.schema_, JsonSchema) and contract.schema_.formats == "assert"
    try:
        rules = compile_rules(contract, payload_format.fields)
    except ContractError as error:
        problems += error.problems
    try:
        columns = compile_columns(contract, payload_format.fields, formats_hold=formats_hold, masks=masks)
        typed = pa.schema([(column.name, column.kind.arrow_type) for column in columns])
        problems += compile_expectations(contract.expectations, typed)[1]
    except ContractError as error:
        problems += error.problems
    if problems or rules is None:
        raise ContractError(tuple(problems))
    return ContractParts(payload_format, rules, columns, masks)


def check_compiles(contract: DataContract) -> None:
    """Check that a contract compiles. Raises ContractError like `compile_parts`."""
    compile_parts(contract, None)


def table_columns(contract: DataContract) -> tuple[TypedColumn, ...]:
    """Return the columns of a contract's table. Raises ContractError like `compile_parts`."""
    return compile_parts(contract, None).columns


def schema_fields(contract: DataContract) -> SchemaFields:
    """Return the fields that the schema of a contract declares. Raises ContractError if it does not compile."""
    return _compile_format(contract).fields


def _compile_format(contract: DataContract) -> JsonSchemaFormat | AvroFormat:
    match contract.schema_:
        case JsonSchema():
            return JsonSchemaFormat(contract.schema_)
        case AvroSchema():
            return AvroFormat(contract.schema_)
