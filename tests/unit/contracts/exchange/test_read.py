"""Documents of other formats: recognised, converted, and what is not judged listed with its place."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.document.load import parse_contract, read_source
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.read import read_foreign, recognised
from tidegate.contracts.judge.plan import compile_plan

SPECIFICATION = """\
dataContractSpecification: 1.2.1
id: urn:datacontract:checkout:orders
info:
  title: Orders
  version: 2.0.0
  description: Orders of the shop.
  owner: Checkout
  status: active
  contact: {email: checkout@example.org}
servers: {production: {type: kafka, host: broker, topic: shop.orders, format: json}}
models:
  orders:
    description: One record an order.
    fields:
      order_id: {$ref: '#/definitions/order_id', required: true, unique: true, primaryKey: true}
      ordered_at: {type: timestamp, required: true}
      total: {type: long, minimum: 0, quality: [{type: sql, query: SELECT 1, mustBe: 1}]}
      email: {type: text, format: email, pii: true}
      status: {type: string, enum: [placed, shipped]}
      lines: {type: array, items: {type: record, fields: {sku: {type: varchar(20)}, n: {type: int, minimum: 1}}}}
      shipped_at: {type: timestamp_ntz}
      blob: {type: geometry}
    quality: [{type: sql, query: SELECT COUNT(*), mustBeGreaterThan: 5}]
definitions:
  order_id: {type: text, format: uuid, description: An internal id.}
servicelevels: {freshness: {threshold: 25h}}
"""
DBT = """\
version: 2
models:
  - name: orders
    columns:
      - {name: id, data_type: bigint, constraints: [{type: not_null}, {type: primary_key}]}
      - name: status
        data_type: varchar(20)
        data_tests:
          - unique
          - accepted_values: {arguments: {values: [placed, shipped]}}
          - relationships: {to: ref('states'), field: id}
          - our_test
      - name: total
        data_type: decimal(12,2)
        tests:
          - dbt_utils.accepted_range: {min_value: 0, inclusive: false, config: {severity: warn}}
          - dbt_expectations.expect_column_values_to_be_between: {max_value: 1000, mostly: 0.9}
          - not_null: {config: {where: "status = 'shipped'"}}
    data_tests: [dbt_utils.expression_is_true: {expression: a > b}]
"""
UUID = "243c25e5-a081-43a9-aeab-6d5d5b6cb5e2"


def imported(name: str, text: str) -> tuple[DataContract, dict[str, str]]:
    found = read_foreign(read_source(name, text))
    contract = parse_contract(json.dumps(found.document), name="contract.json", read_schema=None).contract
    return contract, {each.pointer: each.reason for each in found.left_out}


def codes(contract: DataContract, record: dict[str, Any]) -> set[str]:
    values = pa.array([json.dumps(record).encode()], pa.large_binary())
    (verdict,) = compile_plan(contract).explain_each(values)
    return {each.code for each in verdict.violations}


def test_the_data_contract_specification_is_read() -> None:
    contract, left_out = imported("orders.yaml", SPECIFICATION)
    assert (contract.id, contract.version, contract.topic) == (
        "urn-datacontract-checkout-orders",
        "2.0.0",
        "shop.orders",
    )
    assert contract.team is not None
    assert (contract.team.name, contract.team.contact) == ("Checkout", "checkout@example.org")
    assert contract.primary_key == ("order_id",)
    assert contract.classification == {"/email": "pii"}
    good = {"order_id": UUID, "ordered_at": "2026-01-01T00:00:00Z"}
    assert codes(contract, good) == set()
    assert codes(contract, good | {"shipped_at": "2026-01-02T00:00:00", "blob": [1]}) == set()
    assert codes(contract, good | {"order_id": "7"}) == {"format"}
    assert codes(contract, good | {"total": -1, "status": "lost"}) == {"minimum", "enum"}
    assert codes(contract, good | {"lines": [{"sku": "a", "n": 0}]}) == {"minimum"}
    assert left_out.keys() == {
        "/servers/production/host",
        "/servicelevels/freshness",
        "/models/orders/fields/order_id/unique",
        "/models/orders/fields/total/quality/0",
        "/models/orders/fields/blob/type",
        "/models/orders/quality/0",
    }


UNREAD_SPECIFICATION = """\
dataContractSpecification: 1.1.0
id: orders
info: {title: Orders, version: 1.0.0, owner: Checkout, contact: {name: Ann, email: ann@example.org, url: https://example.org}}
servers:
  production: {type: kafka, host: 'broker:9092', topic: shop.orders, format: json}
  lake: {type: s3, location: 's3://orders', format: parquet}
terms: {usage: Analysis only., limitations: None.}
tags: [orders]
links: {wiki: https://example.org/orders}
models:
  orders:
    type: table
    title: The orders
    fields:
      total: {type: decimal, precision: 12, scale: 2, tags: [money], links: {wiki: x}, lineage: {inputFields: []}}
      by_day: {type: map, keys: {type: string}, values: {type: long, config: {avroType: long}}}
examples: [{type: json, data: []}]
quality: {type: SodaCL, specification: {}}
"""


def test_every_key_of_the_data_contract_specification_is_read_or_listed() -> None:
    _, left_out = imported("orders.yaml", UNREAD_SPECIFICATION)
    field = "/models/orders/fields"
    assert left_out.keys() == {
        "/info/contact/name",
        "/info/contact/url",
        "/servers/production/host",
        "/servers/lake/type",
        "/servers/lake/location",
        "/servers/lake/format",
        "/terms",
        "/tags",
        "/links",
        "/examples",
        "/quality",
        "/models/orders/type",
        "/models/orders/title",
        f"{field}/total/precision",
        f"{field}/total/scale",
        f"{field}/total/tags",
        f"{field}/total/links",
        f"{field}/total/lineage",
        f"{field}/by_day/keys",
        f"{field}/by_day/values/config",
    }


UNREAD_DBT = """\
version: 2
sources: [{name: raw, tables: [{name: orders}]}]
exposures: [{name: board}]
models:
  - {description: without a name}
  - name: orders
    meta: {owner: ann}
    config: {tags: [daily]}
    columns:
      - {data_type: int}
      - name: total
        data_type: int
        meta: {unit: eur}
        tags: [money]
        tests:
          - dbt_utils.accepted_range: {min_value: "{{ var('least') }}", max_value: 9}
          - dbt_utils.accepted_range: {min_value: "'2020-01-01'"}
          - not_null: {config: {severity: warn}}
"""


def test_every_key_of_a_model_of_dbt_is_read_or_listed() -> None:
    contract, left_out = imported("schema.yml", UNREAD_DBT)
    column = "/models/1/columns/1"
    assert left_out.keys() == {
        "/sources",
        "/exposures",
        "/models/0",
        "/models/1/meta",
        "/models/1/config",
        "/models/1/columns/0",
        f"{column}/meta",
        f"{column}/tags",
        f"{column}/tests/0",
        f"{column}/tests/1",
        f"{column}/tests/2",
    }
    assert "`min_value: {{ var('least') }}` is no number" in left_out[f"{column}/tests/0"]
    assert len(contract.rules) == 1
    assert codes(contract, {"total": 10}) == {contract.rules[0].id}
    assert codes(contract, {"total": None}) == set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("schema.yml", "models: [{name: o, columns: [{name: id, data_tests: [not_null]}]}]"),
        (
            "suite.json",
            '{"name": "o", "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}]}',
        ),
    ],
)
def test_a_required_field_without_a_type_is_not_null(name: str, text: str) -> None:
    contract, left_out = imported(name, text)
    assert not left_out
    assert codes(contract, {"id": None}) == {"type"}
    assert codes(contract, {}) == {"required"}
    for value in (0, "a", False, {}, []):
        assert codes(contract, {"id": value}) == set()


def test_conditions_and_columns_of_a_suite_are_listed() -> None:
    column = {"column": "shipped"}
    expectations = [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {**column, "row_condition": "status = 1"}},
        {"type": "expect_table_columns_to_match_set", "kwargs": {"column_set": ["shipped"]}},
    ]
    contract, left_out = imported("s.json", json.dumps({"name": "s", "expectations": expectations}))
    assert left_out.keys() == {f"/expectations/{index}" for index in range(2)}
    assert codes(contract, {"shipped": None}) == codes(contract, {}) == set()


def test_a_definition_that_refers_to_itself_is_refused() -> None:
    text = SPECIFICATION.replace("{type: text, format: uuid,", "{$ref: '#/definitions/order_id',")
    with pytest.raises(ContractError, match="refers to itself"):
        imported("orders.yaml", text)


def test_models_of_dbt_are_read() -> None:
    contract, left_out = imported("schema.yml", DBT)
    assert contract.primary_key == ("id",)
    assert [(each.id, each.severity) for each in contract.rules] == [
        ("status-invalidvalues", "error"),
        ("total-in-range", "warning"),
    ]
    assert [each.type for each in contract.expectations] == ["expect_column_values_to_be_between"]
    assert codes(contract, {"id": 1, "status": "placed", "total": 0.5}) == set()
    assert codes(contract, {"id": None, "status": "lost", "total": 0}) == {
        "type",
        "status-invalidvalues",
        "total-in-range",
    }
    assert left_out.keys() == {
        "/models/0/columns/1/data_tests/0",
        "/models/0/columns/1/data_tests/2",
        "/models/0/columns/1/data_tests/3",
        "/models/0/columns/2/tests/2",
        "/models/0/data_tests/0",
    }


def test_schemas_get_a_contract_around_them() -> None:
    contract, _ = imported(
        "orders.schema.json", json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
    )
    assert (contract.id, contract.topic) == ("orders", "orders")
    assert codes(contract, {"n": "1"}) == {"type"}
    avro = {"type": "record", "name": "Order", "namespace": "shop", "doc": "An order.", "fields": []}
    contract, _ = imported("any.avsc", json.dumps(avro))
    assert (contract.id, contract.schema_.type, contract.description) == ("shop.Order", "avro", "An order.")


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"apiVersion": "v3.0.2", "kind": "DataContract"}, "Open Data Contract Standard"),
        ({"apiVersion": "tidegate/v1", "kind": "DataContract"}, None),
        ({"expectations": [], "name": "suite"}, "Great Expectations suite"),
        ([{"type": "record", "name": "r", "fields": []}], "Avro schema"),
        ([], None),
        ("text", None),
    ],
)
def test_formats_are_recognised(document: object, name: str | None) -> None:
    assert recognised(document) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "the format of this document is not known"),
        ('{"expectations": [{}]}', "an expectation has a `type` and `kwargs`"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        read_foreign(read_source("any.yaml", text))
