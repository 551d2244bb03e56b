"""Compile the fast path of a contract. Only `judge.plan` imports this package."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.fastpath.avro import AvroFastPath
from tidegate.contracts.fastpath.json import JsonFastPath
from tidegate.contracts.fastpath.path import FastPath
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.rules.compiled import CompiledRules


def compile_fastpath(
    payload_format: JsonSchemaFormat | AvroFormat, rules: CompiledRules, columns: Sequence[TypedColumn]
) -> FastPath:
    """Return the fast path for these parts of a contract, with the same verdicts as the strict path."""
    fast_rules = FastRules(rules, payload_format.fields)
    match payload_format:
        case JsonSchemaFormat():
            return JsonFastPath(payload_format, fast_rules, columns)
        case AvroFormat():
            return AvroFastPath(payload_format, fast_rules, columns)
