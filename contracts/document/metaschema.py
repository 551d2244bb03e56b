"""The JSON Schema of contract documents, generated from the model, with which editors complete and validate.

`python -m tidegate.contracts.document.metaschema` writes it to standard output.
Source: JSON Schema draft 2020-12.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from tidegate.contracts.document.model import SCHEMA_KEY, DataContract


class _Generator(GenerateJsonSchema):
    """A generator that omits what does not help an author: titles that repeat a key, and defaults of null."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        written = super().default_schema(schema)
        return {key: value for key, value in written.items() if (key, value) != ("default", None)}

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        written = super().model_schema(schema)
        # Only the summary line of a class is for authors; the rest of its docstring is for developers.
        return {**written, "description": written["description"].partition("\n")[0]}

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        written = super().dict_schema(schema)
        # Keys that do not match the pattern are refused, not ignored.
        return {**written, "additionalProperties": False} if "patternProperties" in written else written

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        written = super().tagged_union_schema(schema)
        written.pop("discriminator", None)  # a keyword of OpenAPI, not of JSON Schema
        return written


def metaschema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a contract document before its schema file is read."""
    schema = DataContract.model_json_schema(by_alias=True, schema_generator=_Generator)
    # Editors find the meta-schema of a JSON document by this key; it is not a part of the contract.
    schema["properties"][SCHEMA_KEY] = {
        "type": "string",
        "description": "Where the meta-schema is, for editors.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:tidegate:contract:v1",
        "title": "Tidegate data contract",
        **{key: value for key, value in schema.items() if key != "title"},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(metaschema(), indent=2, ensure_ascii=False) + "\n")
