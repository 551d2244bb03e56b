"""Read documents of other formats: recognise the format, and return the contract that the document describes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final, cast

from jsonschema import Draft201909Validator, ValidationError
from jsonschema.exceptions import best_match

from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.fields import objects_of
from tidegate.contracts.document.load import LoadedContract, parse_contract
from tidegate.contracts.document.model import SCHEMA_KEY
from tidegate.contracts.document.source import SourceDocument
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.exchange.converted import above, outermost
from tidegate.contracts.exchange.datacontract import convert_datacontract
from tidegate.contracts.exchange.dbt import convert_dbt
from tidegate.contracts.exchange.expectation_suite import convert_suite
from tidegate.contracts.exchange.imported import Imported, LeftOut, identifier, pointer
from tidegate.contracts.exchange.odcs import is_odcs, read_odcs, require_version, with_unfit
from tidegate.contracts.exchange.odcs_properties import KEPT

ODCS: Final = "Open Data Contract Standard"
SPECIFICATION: Final = "Data Contract Specification"
DBT: Final = "dbt"
AVRO: Final = "Avro schema"
JSON_SCHEMA: Final = "JSON Schema"
SUITE: Final = "Great Expectations suite"
_SHOWN: Final = 20
"""Maximum number of mistakes that are reported for a document."""
_OPEN_IN_3_0: Final = (
    "AuthoritativeDefinitions",
    "CustomProperty",
    "DataQuality",
    "Pricing",
    "Role",
    "Server",
    "ServiceLevelAgreementProperty",
    "SupportItem",
    "Team",
    "TeamMember",
)
"""Parts of the standard that may have any key in 3.0, but only defined keys in later versions."""
_COMPARISONS: Final = (
    "mustBe",
    "mustNotBe",
    "mustBeGreaterThan",
    "mustBeGreaterOrEqualTo",
    "mustBeLessThan",
    "mustBeLessOrEqualTo",
    "mustBeBetween",
    "mustNotBeBetween",
)
_CONVERTERS: Final = {SPECIFICATION: convert_datacontract, DBT: convert_dbt, SUITE: convert_suite}


def recognised(document: object) -> str | None:
    """Return the name of the format of a document; None for a contract of Tidegate or an unknown format."""
    if isinstance(document, list):
        return AVRO if document and all(map(_is_avro, document)) else None
    if not isinstance(document, dict):
        return None
    return next((name for name, is_one in _SIGNS.items() if is_one(document)), None)


def _is_avro(document: object) -> bool:
    return isinstance(document, dict) and document.get("type") == "record" and "fields" in document


def _is_json_schema(document: dict[str, Any]) -> bool:
    is_object = "properties" in document and document.get("type") == "object"
    return "apiVersion" not in document and (SCHEMA_KEY in document or is_object)


_SIGNS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    ODCS: is_odcs,
    SPECIFICATION: lambda document: "dataContractSpecification" in document,
    DBT: lambda document: isinstance(document.get("models"), list) and "apiVersion" not in document,
    AVRO: _is_avro,
    JSON_SCHEMA: _is_json_schema,
    SUITE: lambda document: isinstance(document.get("expectations"), list) and "kind" not in document,
}
"""Tests that recognise each format, in the order in which they are tried."""


def read_foreign(source: SourceDocument, chosen: str | None = None) -> Imported:
    """Return the contract that a document describes; `chosen` names one of several objects or models.

    Raises ContractError with positions for an unknown format or a document with mistakes.
    """
    document, found = source.value, recognised(source.value)
    try:
        if found == ODCS:
            require_version(document)
            _require_valid(document)
            return read_odcs(document, chosen)
        if found in _CONVERTERS:
            return _converted(document, found, chosen)
        if found in {AVRO, JSON_SCHEMA}:
            return Imported(_around(document, found, PurePosixPath(source.name).name.partition(".")[0]))
    except ContractError as error:
        raise ContractError(
            tuple(source.problem(each.pointer, each.message) for each in error.problems)
        ) from None
    formats = f"{ODCS} 3, {SPECIFICATION}, dbt `schema.yml`, {JSON_SCHEMA}, {AVRO}, {SUITE}"
    message = f"the format of this document is not known; read are: {formats}"
    raise ContractError((source.problem("", message),))


def fitting(
    imported: Imported, name: str, write: Callable[[dict[str, Any]], str]
) -> tuple[Imported, LoadedContract]:
    """Return an import without the rules and expectations that do not suit their fields, and its contract.

    They are listed with their places. `write` returns the text of a contract document, which is read and compiled under
    `name`. Raises ContractError for all other mistakes.
    """
    document, left_out = dict(imported.document), list(imported.left_out)
    while True:
        try:
            loaded = parse_contract(write(document), name=name, read_schema=None)
            check_compiles(loaded.contract)
            return replace(imported, document=document, left_out=tuple(left_out)), loaded
        except ContractError as error:
            # All of them at once: a document may have hundreds.
            if not (unfit := _unfit(error)):
                raise
        for (kind, index), message in unfit.items():
            rule = document[kind][index]["id"]
            place = imported.places.get(rule, "")
            left_out.append(LeftOut(place, f"`{rule}` does not suit its field: {message}"))
        document = with_unfit(document, [document[kind][index]["id"] for kind, index in unfit])
        for kind in {kind for kind, _ in unfit}:
            document[kind] = [each for at, each in enumerate(document[kind]) if (kind, at) not in unfit]


def _unfit(error: ContractError) -> dict[tuple[str, int], str]:
    """Return the first problem of each rule or expectation, by its kind and index."""
    found: dict[tuple[str, int], str] = {}
    for problem in error.problems:
        match problem.pointer.split("/"):
            case ["", ("rules" | "expectations") as kind, index, *_]:
                found.setdefault((kind, int(index)), problem.message)
    return found


def located(error: ContractError, source: SourceDocument) -> ContractError:
    """Return the error of `fitting` with places in the document, or in the contract that was made of it."""
    is_schema = recognised(source.value) in {AVRO, JSON_SCHEMA}
    problems = []
    for each in error.problems:
        place = each.pointer.removeprefix("/schema/definition")
        if is_schema and place != each.pointer:
            problems.append(source.problem(place, each.message))
        else:
            made = "schema" if place != each.pointer else "contract"
            message = f"the {made} that it describes has a mistake at {place}: {each.message}"
            problems.append(Problem("", message, source.name))
    return ContractError(tuple(problems))


def _converted(document: dict[str, Any], found: str, chosen: str | None) -> Imported:
    """Return the contract of a document that is first converted to the standard.

    Unlike for documents of the standard, nothing is kept in the schema: parts that the contract lacks are listed.
    """
    converted, places, listed = _CONVERTERS[found](document)
    read = read_odcs(converted, chosen)
    for each in objects_of(read.document):
        each.pop(KEPT, None)
    left_out = outermost((*listed, *map(places.restore, read.left_out)))
    others = {
        places.of(pointer("schema", index)): each["name"]
        for index, each in enumerate(converted["schema"])
        if len(converted["schema"]) > 1 and each["name"] != chosen
    }
    if others:
        left_out = tuple(each for each in left_out if not any(map(others.__contains__, above(each.pointer))))
        names = ", ".join([*others.values()][:_SHOWN]) + (", and more" if len(others) > _SHOWN else "")
        left_out += (LeftOut(places.of("/schema"), f"{names}: import these with `--object`"),)
    sources = {name: places.source(place) for name, place in read.places.items()}
    return Imported(read.document, left_out, sources)


def _require_valid(document: dict[str, Any]) -> None:
    """Validate a document by the official JSON Schema of the standard. Raises ContractError."""
    schema = json.loads(
        files("open_data_contract_standard").joinpath("schema.json").read_text(encoding="utf-8")
    )
    if _is_of_3_0(document):
        for name in _OPEN_IN_3_0:
            for each in objects_of(schema["$defs"][name]):
                each.pop("additionalProperties", None)
                each.pop("unevaluatedProperties", None)
    validator = Draft201909Validator(schema)
    found = [each for each in validator.iter_errors(_in_newest_form(document)) if not _is_of_no_type(each)]
    errors = sorted(found, key=lambda each: list(map(str, each.absolute_path)))
    if len(errors) > 1:  # two keywords of the schema report the same unknown key
        errors = [each for each in errors if each.validator != "unevaluatedProperties"] or errors[:1]
    if errors:
        raise ContractError(tuple(map(_problem, errors[:_SHOWN])))


def _problem(error: ValidationError) -> Problem:
    """Return the problem of an error without quoting the whole part; for alternatives, that of the nearest one."""
    place = pointer(*error.absolute_path)
    if error.validator in {"oneOf", "anyOf"} and isinstance(error.instance, dict):
        if {each.validator for each in error.context or ()} == {"required"}:
            names = [name for each in error.context or () for name in cast("list[str]", each.validator_value)]
            return Problem(place, f"one of these keys is needed: {', '.join(dict.fromkeys(names))}")
        if len(given := [each for each in _COMPARISONS if each in error.instance]) > 1:
            return Problem(place, f"only one of these keys is allowed: {', '.join(given)}")
    # An alternative of another type, such as an object where a list is given, is not the one that was meant.
    meant = [each for each in error.context or () if each.validator != "type" or each.path]
    nearest = best_match(meant)
    return Problem(place, _message(error)) if nearest is None else _problem(nearest)


def _is_of_3_0(document: dict[str, Any]) -> bool:
    return str(document["apiVersion"]).lstrip("v").startswith("3.0")


def _message(error: ValidationError) -> str:
    is_unquoted = error.validator_value == "string" and isinstance(error.instance, int | float)
    return error.message[:300] + ("; put it in quotes" if error.validator == "type" and is_unquoted else "")


def _without_nulls(node: Any) -> Any:
    """Return a document without keys that have no value, which authors leave as placeholders."""
    if isinstance(node, dict):
        return {
            name: _without_nulls(part) for name, part in node.items() if part is not None or name == "value"
        }
    return [_without_nulls(each) for each in node] if isinstance(node, list) else node


def _in_newest_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with its syntax of version 3.0 replaced by that of the newest version, only for validation.

    The package has only the schema of the newest version. It does not allow the flag `exclusiveMinimum`, the key `rule`
    for a metric, and checks without a limit, which 3.0 allows.
    """
    newest: dict[str, Any] = _without_nulls(document)
    if not _is_of_3_0(document):
        return newest
    for each in objects_of(newest.get("schema")):
        if isinstance(options := each.get("logicalTypeOptions"), dict):
            for name in ("exclusiveMinimum", "exclusiveMaximum"):
                options.pop(name) if isinstance(options.get(name), bool) else None
        for check in each["quality"] if isinstance(each.get("quality"), list) else ():
            if isinstance(check, dict) and isinstance(check.get("rule"), str):
                check.setdefault("metric", "rowCount")
                if check.get("type", "library") == "library" and not check.keys() & set(_COMPARISONS):
                    check["mustBe"] = 0
    return newest


def _is_of_no_type(error: ValidationError) -> bool:
    """Return whether the error is a false one about a property without a logical type, which the standard allows.

    The schema's condition for maps also applies without a type, because its `if` has no `required`.
    """
    return (
        error.validator == "required"
        and isinstance(error.instance, dict)
        and "logicalType" not in error.instance
        and (error.validator_value == ["map"])
    )


def _around(schema: Any, found: str, stem: str) -> dict[str, Any]:
    """Return a contract document for a schema; a JSON Schema is named by `stem`, the name of its file."""
    first = schema[-1] if isinstance(schema, list) else schema
    named = [first.get("namespace"), first.get("name")] if found == AVRO else [stem]
    name = identifier(*named) or "records"
    description = first.get("doc") or first.get("description")
    return {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": name,
        "version": "1.0.0",
        "status": "active",
        **({"description": description} if isinstance(description, str) and description else {}),
        "topic": name,
        "schema": {"type": "avro" if found == AVRO else "json-schema", "definition": schema},
    }
