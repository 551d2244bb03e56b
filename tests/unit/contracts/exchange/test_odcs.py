"""Documents of the Open Data Contract Standard: read, written, and nothing lost between."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.load import load_contract, parse_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.source import SourceDocument
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import Imported
from tidegate.contracts.exchange.odcs import read_odcs, write_odcs
from tidegate.contracts.exchange.odcs_properties import KEPT
from tidegate.contracts.exchange.read import read_foreign
from tidegate.contracts.judge.plan import compile_plan

EXAMPLES = sorted((Path(__file__).parents[4] / "schemas" / "examples").glob("*/contract.yaml"))
DOCUMENT = """\
apiVersion: v3.1.0
kind: DataContract
id: 2c1f1c8e-9a35-4e07-a3c5-0a2f6a6f3d11
name: Admissions
version: v1.4
status: production
tenant: north
domain: hospital
dataProduct: patient-flow
tags: [gold]
description: {purpose: Admissions of all wards., usage: Reports only., limitations: No children's ward.}
team:
  name: Patient flow
  members: [{username: ann, role: Owner}]
support: [{channel: "#patient-flow", tool: slack}]
servers: [{server: live, type: kafka, host: "broker:9092", format: json}]
slaProperties: [{property: latency, value: 4, unit: d}]
customProperties: [{property: cost-centre, value: 7}]
schema:
  - name: Admissions
    physicalName: hospital.admissions
    physicalType: topic
    businessName: Stays
    tags: [inpatient]
    quality: [{metric: rowCount, mustBeGreaterThan: 10}]
    properties:
      - {name: id, primaryKey: true, primaryKeyPosition: 1, logicalType: string, physicalType: varchar(10),
         logicalTypeOptions: {pattern: "^A[0-9]+$", maxLength: 10}, unique: true}
      - name: Age of the patient
        physicalName: age
        logicalType: integer
        required: true
        logicalTypeOptions: {minimum: 0, format: i32}
        quality:
          - {metric: missingValues, mustBe: 0, arguments: {missingValues: [999, null]}, description: 999 is unknown.}
          - {type: sql, query: SELECT 1, mustBe: 1}
      - {name: ward, logicalType: string, required: false, examples: [icu],
         quality: [{metric: invalidValues, mustBeLessOrEqualTo: 5, unit: percent, arguments: {validValues: [icu, er]}},
                   {metric: invalidValues, mustBeLessThan: 1, arguments: {pattern: "[a-z]+"}, severity: warning}]}
      - {name: left, logicalType: date, logicalTypeOptions: {exclusiveMinimum: "1900-01-01", format: yyyy-MM-dd}}
      - {name: seen, logicalType: timestamp, logicalTypeOptions: {format: "dd.MM.yyyy HH:mm"}}
      - {name: patient, logicalType: object, properties: [{name: postcode, logicalType: string, classification: pii}]}
      - {name: codes, logicalType: array, items: {logicalType: string, businessName: ICD-10}}
      - {name: extra, physicalType: blob}
"""


def source_of(text: str) -> SourceDocument:
    return read_yaml("admissions.odcs.yaml", text)


def contract_of(imported: Imported) -> DataContract:
    return parse_contract(json.dumps(imported.document), name="contract.json", read_schema=None).contract


@pytest.fixture
def document() -> dict[str, Any]:
    value: dict[str, Any] = source_of(DOCUMENT).value
    return value


def refused(contract: DataContract, record: dict[str, Any]) -> set[str]:
    good = {"id": "A1", "age": 63}
    (verdict,) = compile_plan(contract).explain_each(
        pa.array([json.dumps(good | record).encode()], pa.large_binary())
    )
    return {each.code for each in verdict.violations}


def test_a_document_becomes_a_contract_that_judges(document: dict[str, Any]) -> None:
    contract = contract_of(read_odcs(document))
    assert (contract.id, contract.version, contract.topic) == (document["id"], "1.4.0", "hospital.admissions")
    assert contract.team is not None
    assert (contract.team.name, contract.team.contact) == ("Patient flow", "#patient-flow")
    assert contract.primary_key == ("id",)
    assert contract.classification == {"/patient/postcode": "pii"}
    assert [each.id for each in contract.rules] == [
        "age-missingvalues",
        "ward-invalidvalues-2",
        "left-in-range",
    ]
    assert [each.kwargs["mostly"] for each in contract.expectations] == [0.95]
    assert refused(contract, {}) == set()
    assert refused(contract, {"ward": None, "left": None}) == set()
    assert refused(contract, {"age": 999}) == {"age-missingvalues"}
    assert refused(contract, {"age": 2**31}) == {"maximum"}
    assert refused(contract, {"ward": "ICU"}) == {"ward-invalidvalues-2"}
    assert refused(contract, {"left": "1900-01-01"}) == {"left-in-range"}
    assert refused(contract, {"codes": [1]}) == {"type"}


def test_what_is_not_judged_is_listed_with_its_place(document: dict[str, Any]) -> None:
    left_out = {each.pointer: each.reason for each in read_odcs(document).left_out}
    assert left_out.keys() == {
        "/slaProperties/0",
        "/schema/0/quality/0",
        "/schema/0/properties/0/unique",
        "/schema/0/properties/1/quality/1",
        "/schema/0/properties/4/logicalTypeOptions/format",
        "/schema/0/properties/7/physicalType",
    }
    assert left_out["/schema/0/properties/1/quality/1"].startswith("SQL is not run on a stream")


@pytest.mark.parametrize(
    ("given", "is_listed"),
    [
        ({"logicalType": "string", "physicalType": "varchar(20)"}, True),
        ({"logicalType": "number", "physicalType": "decimal(12,2)"}, True),
        ({"logicalType": "string", "physicalType": "VARCHAR2(20 CHAR)"}, True),
        ({"logicalType": "array", "physicalType": "array<string>"}, True),
        ({"logicalType": "string", "physicalType": "text"}, False),
        # What the brackets say is said again, and judged.
        (
            {
                "logicalType": "string",
                "physicalType": "varchar(20)",
                "logicalTypeOptions": {"maxLength": 20},
            },
            False,
        ),
        (
            {
                "logicalType": "array",
                "physicalType": "array<string>",
                "items": {"logicalType": "string"},
            },
            False,
        ),
    ],
)
def test_what_stands_in_brackets_after_a_physical_type_is_listed(
    document: dict[str, Any], given: dict[str, Any], is_listed: bool
) -> None:
    document["schema"][0]["properties"].append({"name": "more", **given})
    left_out = {each.pointer: each.reason for each in read_odcs(document).left_out}
    reason = f"of the type `{given['physicalType']}`, what is in brackets is not judged; write it as a rule"
    assert left_out.get("/schema/0/properties/8/physicalType") == (reason if is_listed else None)


def test_nothing_is_lost(document: dict[str, Any]) -> None:
    assert write_odcs(contract_of(read_odcs(document))) == document


def test_each_object_of_several_is_imported_and_nothing_of_the_others_is_lost(
    document: dict[str, Any],
) -> None:
    document["schema"].append({"name": "Wards", "properties": [{"name": "code", "logicalType": "string"}]})
    with pytest.raises(ContractError, match="choose one of Admissions, Wards"):
        read_odcs(document)
    for name in ("Admissions", "Wards"):
        contract = contract_of(read_odcs(document, name))
        assert contract.id == f"{document['id']}.{name}"
        assert write_odcs(contract) == document


def test_a_changed_contract_is_written_and_what_it_does_not_use_is_kept(document: dict[str, Any]) -> None:
    imported = read_odcs(document)
    changed = copy.deepcopy(imported.document)
    changed["version"] = "1.5.0"
    changed["schema"]["definition"]["properties"]["age"]["maximum"] = 130
    changed["rules"] = [each for each in changed["rules"] if each["id"] != "left-in-range"]
    written = write_odcs(contract_of(Imported(changed)))
    age, left = (
        next(each for each in written["schema"][0]["properties"] if name_of(each) == name)
        for name in ("age", "left")
    )
    assert written["version"] == "1.5.0"
    assert age["logicalTypeOptions"]["maximum"] == 130
    assert "exclusiveMinimum" not in left.get("logicalTypeOptions", {})
    assert (written["tenant"], written["servers"]) == (document["tenant"], document["servers"])
    assert written["schema"][0]["tags"] == ["inpatient"]
    again = contract_of(read_odcs(written))
    assert {each.id for each in again.rules} == {each["id"] for each in changed["rules"]}


def name_of(given: dict[str, Any]) -> str:
    return str(given.get("physicalName") or given["name"])


def test_every_field_of_a_contract_survives_the_standard() -> None:
    assert len(EXAMPLES) > 1
    for path in EXAMPLES:
        contract = load_contract(path).contract
        written = write_odcs(contract)
        read_foreign(SourceDocument(path.name, written, {}, {}, frozenset()))  # valid by the official schema
        again = contract_of(read_odcs(written))
        assert without_kept(again) == without_kept(contract)


def without_kept(contract: DataContract) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(contract.model_dump_json(by_alias=True))
    plain["schema"]["definition"].pop(KEPT, None)
    for each in plain["schema"]["definition"]["properties"].values():
        each.pop(KEPT, None)
    return plain


def test_edited_properties_win_over_the_schema_next_to_them() -> None:
    written = write_odcs(load_contract(EXAMPLES[0]).contract)
    written["schema"][0]["properties"].append({"name": "added", "logicalType": "string"})
    imported = read_odcs(written)
    assert "added" in imported.document["schema"]["definition"]["properties"]
    assert [each.pointer for each in imported.left_out] == ["/customProperties/0/value/schema"]


def test_mistakes_by_the_official_schema_are_located() -> None:
    with pytest.raises(ContractError, match=r"admissions\.odcs\.yaml:\d+:\d+: .*'Kind'") as caught:
        read_foreign(source_of(DOCUMENT.replace("kind: DataContract", "kind: DataContract\nKind: 1")))
    assert len(caught.value.problems) == 1


OPEN = """\
apiVersion: v3.0.2
kind: DataContract
id: payments
version: 1.1.0
status: active
domain: null
description: {purpose: Payments., limitations: null, usage: null}
team: null
servers: null
support: null
tags: null
slaProperties: null
customProperties: null
schema:
  - name: payments
    description: null
    tags: null
    customProperties: null
    quality: [{rule: countCheck, type: library, dimension: completeness, scheduler: cron}]
    properties:
      - {name: id, logicalType: string, required: true, description: null, primaryKeyPosition: null, quality: null,
         logicalTypeOptions: {minLength: 2, maxLength: null, pattern: null}, examples: null, classification: null}
      - {name: country, logicalType: string, logicalTypeOptions: null, quality: [{rule: nullCheck, type: library}]}
"""


def test_what_authors_leave_open_is_nothing_and_comes_back() -> None:
    """The example of the standard itself has keys without a value, and checks of 3.0 without a limit."""
    found = read_foreign(source_of(OPEN))
    contract = contract_of(found)
    assert contract.schema_.definition["properties"]["id"]["minLength"] == 2
    assert {each.pointer: each.reason for each in found.left_out} == {
        "/schema/0/quality/0": "the standard does not define the metric `countCheck`; write a rule",
        "/schema/0/properties/1/quality/0": "the standard does not define the metric `nullCheck`; write `required: true` or the "
        "metric `nullValues`",
    }
    assert write_odcs(contract) == source_of(OPEN).value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v2.2.2\nkind: DataContract\nuuid: a\n", r":1:13: only versions 3\.0 to 3\.2"),
        (DOCUMENT.replace("v1.4", "1.4"), r":5:10: 1\.4 is not of type 'string'; put it in quotes"),
        (DOCUMENT.replace("{name: extra,", "{name: age,"), r"another property is named `age` in the records"),
    ],
)
def test_a_mistake_says_what_to_do(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        read_foreign(source_of(text))


def test_a_primary_key_and_a_share_name_the_column_of_their_field(document: dict[str, Any]) -> None:
    share = {"metric": "nullValues", "unit": "percent", "mustBeLessOrEqualTo": 1}
    document["schema"][0]["properties"] += [
        {"name": "guest-id", "logicalType": "string", "primaryKey": True, "primaryKeyPosition": 2},
        {"name": "room.no", "logicalType": "string", "quality": [share]},
    ]
    contract = contract_of(read_odcs(document))
    assert contract.primary_key[-1] == "guest_id"
    assert [each.kwargs["column"] for each in contract.expectations if each.id == "room.no-nullvalues"] == [
        "room_no"
    ]
    check_compiles(contract)
    assert write_odcs(contract) == document


def test_a_primary_key_of_a_renamed_column_survives_the_standard() -> None:
    fields = {"type": "object", "required": ["g"], "properties": {"g": {"type": "string"}}}
    contract = load_contract(EXAMPLES[0]).contract.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    kept = {name: contract[name] for name in ("apiVersion", "kind", "id", "version", "topic")}
    kept |= {"schema": {"type": "json-schema", "definition": fields}, "primary_key": ["guest"]}
    renamed = contract_of(Imported(kept | {"columns": [{"name": "guest", "from": "/g", "type": "string"}]}))
    assert contract_of(read_odcs(write_odcs(renamed))).primary_key == ("guest",)


def test_the_key_of_a_map_is_kept_and_listed_and_so_are_empty_lists(document: dict[str, Any]) -> None:
    named = {"logicalType": "string", "description": "A ward.", "logicalTypeOptions": {"pattern": "^[a-z]+$"}}
    counts = {"logicalType": "map", "map": {"key": named, "value": {"logicalType": "integer"}}}
    document["schema"][0]["properties"] += [
        {"name": "counts", **counts},
        {"name": "rest", "logicalType": "object", "properties": [], "quality": []},
    ]
    document |= {"customProperties": []}
    place = f"/schema/0/properties/{len(document['schema'][0]['properties']) - 2}/map/key"
    found = read_odcs(document)
    assert place in {each.pointer for each in found.left_out}
    assert write_odcs(contract_of(found)) == document


def test_an_object_without_properties_is_listed() -> None:
    head = DOCUMENT[: DOCUMENT.index("    physicalName: hospital.admissions")]
    assert [str(each) for each in read_odcs(source_of(head).value).left_out][1:] == [
        "/: `Admissions` names no fields, so every record passes; add them to the schema"
    ]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [("v3.1.0", "v2.2.2", "/apiVersion"), ("schema:\n", "schema: []\nx-rest:\n", "/schema")],
)
def test_a_document_without_a_contract_is_refused(old: str, new: str, place: str) -> None:
    with pytest.raises(ContractError) as caught:
        read_odcs(source_of(DOCUMENT.replace(old, new, 1)).value)
    assert caught.value.problems[0].pointer == place


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),  # as 3.0 has it
        ({"exclusiveMaximum": 5}, 4, 5),
        ({"format": "u8"}, 255, 256),
        ({"multipleOf": 5}, 10, 11),
    ],
)
def test_options_of_numbers(document: dict[str, Any], options: dict[str, Any], good: int, bad: int) -> None:
    document["schema"][0]["properties"].append(
        {"name": "n", "logicalType": "integer", "logicalTypeOptions": options}
    )
    contract = contract_of(read_odcs(document))
    assert refused(contract, {"n": good}) == set()
    assert refused(contract, {"n": bad})
    assert write_odcs(contract) == document


OFFICIAL_3_0 = """\
apiVersion: v3.0.2
kind: DataContract
id: payments
version: 1.0.0
status: active
team: [{username: ceastwood, role: dpo, comment: Away until April.}]
slaProperties: [{property: latency, value: 4, unit: d, column: txn_ref_dt}]
schema:
  - name: payments
    quality: [{rule: countCheck, type: library, description: Ensures that the rows are complete.}]
    properties:
      - name: rcvr_id
        logicalType: string
        quality:
          - {rule: nullCheck, type: library, dimension: completeness, severity: error, schedule: 0 20 * * *}
          - {rule: minCheck, customProperties: [{property: min, value: 100000}]}
"""
"""As the examples of the standard's version 3.0 have it: checks without a comparison, and keys that 3.1 does not allow."""


def test_checks_and_keys_that_only_version_3_0_allows_are_read_and_kept() -> None:
    found = read_foreign(source_of(OFFICIAL_3_0))
    reasons = {each.pointer: each.reason for each in found.left_out}
    assert reasons.keys() == {
        "/slaProperties/0",
        "/schema/0/quality/0",
        "/schema/0/properties/0/quality/0",
        "/schema/0/properties/0/quality/1",
    }
    assert "write `required: true`" in reasons["/schema/0/properties/0/quality/0"]
    assert write_odcs(contract_of(found)) == source_of(OFFICIAL_3_0).value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "rule: countCheck",
            "metric: rowCount",
            r":10:\d+: one of these keys is needed: mustBe, mustNotBe, ",
        ),
        (
            "{rule: countCheck",
            "{metric: rowCount, mustBe: 1, mustBeLessThan: 3",
            r":10:\d+: only one of these keys is allowed: mustBe, mustBeLessThan$",
        ),
        ("[{username", "[{user: 1, username", r":6:8: Additional properties are not allowed"),
    ],
)
def test_what_fits_no_form_of_the_standard_is_reported_without_a_copy_of_it(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(ContractError) as caught:
        read_foreign(source_of(OFFICIAL_3_0.replace("v3.0.2", "v3.1.0").replace(old, new)))
    assert any(re.search(message, str(each)) for each in caught.value.problems), caught.value
    assert "'type': 'library'" not in str(caught.value)
