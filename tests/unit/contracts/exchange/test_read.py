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
        "/info/title",
        "/servers/production/host",
        "/servicelevels/freshness",
        "/models/orders/fields/order_id/unique",
        "/models/orders/fields/total/quality/0",
        "/models/orders/fields/blob/type",
        "/models/orders/fields/lines/items/fields/sku/type",
        "/models/orders/quality/0",
    }


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


ENUM_OF_ODCS = """\
{apiVersion: v3.1.0, kind: DataContract, id: o, version: 1.0.0, status: active, schema: [{name: o, properties:
 [{name: s, enum: [{value: a}, {value: 1}]}, {name: t, required: true, enum: [{value: a}]}]}]}
"""
ENUM_OF_SPECIFICATION = """\
{dataContractSpecification: 1.2.1, id: o, info: {version: 1.0.0}, models: {o: {fields:
 {s: {enum: [a, 1]}, t: {enum: [a], required: true}}}}}
"""


@pytest.mark.parametrize("text", [ENUM_OF_ODCS, ENUM_OF_SPECIFICATION])
def test_an_optional_field_of_listed_values_without_a_type_may_be_null(text: str) -> None:
    contract, _ = imported("o.yaml", text)
    for value in (None, "a", 1):
        assert codes(contract, {"s": value, "t": "a"}) == set()
    assert codes(contract, {"s": "b", "t": "a"}) == {"enum"}
    assert codes(contract, {"t": None}) == {"enum"}


NULLS_OF_ODCS = """\
{apiVersion: v3.1.0, kind: DataContract, id: o, version: 1.0.0, status: active, schema: [{name: o, properties:
 [{name: s, quality: [{metric: nullValues, mustBe: 0, severity: SEVERITY}]}]}]}
"""
NULLS_OF_SPECIFICATION = """\
{dataContractSpecification: 1.2.1, id: o, info: {version: 1.0.0}, models: {o: {fields:
 {s: {quality: [{metric: nullValues, mustBe: 0, severity: SEVERITY}]}}}}}
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [(NULLS_OF_ODCS, "/schema/0/properties/0"), (NULLS_OF_SPECIFICATION, "/models/o/fields/s")],
)
@pytest.mark.parametrize(("severity", "is_listed"), [("warning", True), ("Info", True), ("error", False)])
def test_a_check_against_nulls_that_only_warns_is_listed(
    text: str, place: str, severity: str, *, is_listed: bool
) -> None:
    contract, left_out = imported("o.yaml", text.replace("SEVERITY", severity))
    reason = "a null refuses the record, because the schema requires the field and has no severity"
    assert left_out == ({f"{place}/quality/0/severity": reason} if is_listed else {})
    assert codes(contract, {"s": None}) == {"type"}


@pytest.mark.parametrize(
    ("field", "good", "bad", "never"),
    [
        ("{type: integer, enum: ['1', '-2', 3, 4.0, '5.0']}", (1, -2, 3, 4, 5), ("1", 6), ()),
        ("{type: long, enum: ['1', one, '1.5', true, '0x1']}", (1,), ("one", 1.5, True), (1, 2, 3, 4)),
        ("{type: decimal, enum: ['1.50', '2', NaN, ~]}", (1.5, 2), ("1.50",), (2,)),
        ("{type: boolean, enum: ['true', False, 'yes']}", (True, False), ("true", "yes"), (2,)),
        ("{type: string, enum: [1, '2', 2.50, true]}", ("1", "2"), (1, 2), (2, 3)),
        ("{type: date, enum: ['2026-01-01']}", ("2026-01-01",), ("2026-01-02",), ()),
        ("{enum: ['1', 2]}", ("1", 2), (1, "2"), ()),
    ],
)
def test_listed_values_of_the_specification_have_the_type_of_their_field(
    field: str, good: tuple[object, ...], bad: tuple[object, ...], never: tuple[int, ...]
) -> None:
    contract, left_out = imported(
        "o.yaml",
        f"{{dataContractSpecification: 1.2.1, id: o, info: {{version: 1.0.0}}, models: {{o: {{fields: {{s: {field}}}}}}}}}",
    )
    assert left_out.keys() == {f"/models/o/fields/s/enum/{index}" for index in never}
    for value in (*good, None):
        assert codes(contract, {"s": value}) == set(), value
    for value in bad:
        assert codes(contract, {"s": value}), value


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
        "/models/0/columns/1/data_type",
        "/models/0/columns/2/data_type",
        "/models/0/columns/1/data_tests/0",
        "/models/0/columns/1/data_tests/2",
        "/models/0/columns/1/data_tests/3",
        "/models/0/columns/2/tests/2",
        "/models/0/data_tests/0",
    }


@pytest.mark.parametrize(
    ("test", "good", "bad"),
    [
        ("accepted_values: {values: [placed, shipped]}", "placed", (5, True, "lost")),
        ("accepted_values: {values: [1, 2.5]}", 2.5, ("1", True, 3)),
        ("accepted_values: {arguments: {values: [true]}}", True, ("true", 1, False)),
        ("dbt_utils.accepted_range: {min_value: 0}", 0.5, ("abc", False, -1)),
    ],
)
def test_a_test_of_dbt_gives_a_column_without_a_type_its_type(
    test: str, good: object, bad: tuple[object, ...]
) -> None:
    contract, left_out = imported(
        "schema.yml", f"models: [{{name: o, columns: [{{name: n, data_tests: [{test}]}}]}}]"
    )
    assert left_out == {}
    for value in (good, None):
        assert codes(contract, {"n": value}) == set()
    for value in bad:
        assert codes(contract, {"n": value}), value


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ("accepted_values: {values: [placed], config: {severity: warn}}", "accepted_values/values"),
        ("accepted_values: {arguments: {values: [1, a]}}", "accepted_values/arguments/values"),
        ("accepted_range: {max_value: 5, severity: warn}", "accepted_range/max_value"),
    ],
)
def test_a_test_of_dbt_that_gives_a_column_no_type_is_listed(test: str, place: str) -> None:
    column = f"{{name: n, data_tests: [{test}]}}"
    contract, left_out = imported("schema.yml", f"models: [{{name: o, columns: [{column}]}}]")
    assert left_out == {
        f"/models/0/columns/0/data_tests/0/{place}": (
            "it gives the column no type, so values of other types pass; give it a `data_type`"
        )
    }
    assert codes(contract, {"n": False}) == set()


def test_one_test_of_dbt_that_gives_a_type_is_enough() -> None:
    tests = (
        "accepted_values: {values: [a, b], config: {severity: warn}}, accepted_values: {values: [a, b, c]}"
    )
    column = f"{{name: n, data_tests: [{tests}]}}"
    contract, left_out = imported("schema.yml", f"models: [{{name: o, columns: [{column}]}}]")
    assert left_out == {}
    assert codes(contract, {"n": "a"}) == set()
    assert codes(contract, {"n": 5}) == {"type"}


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


def imported_test(test: str, data_type: str = "numeric") -> tuple[DataContract, dict[str, str]]:
    return imported(
        "schema.yml",
        f"models: [{{name: o, columns: [{{name: n, data_type: {data_type}, data_tests: [{test}]}}]}}]",
    )


PLACE = "/models/0/columns/0/data_tests/0"
TYPE_PLACE = "/models/0/columns/0/data_type"


@pytest.mark.parametrize("bound", ["\"{{ var('most') }}\"", "other_column", "\"'2026-01-01'\"", "true"])
@pytest.mark.parametrize("within", ["", "/arguments"])
def test_a_bound_that_is_no_number_is_listed(bound: str, within: str) -> None:
    arguments = f"{{min_value: 0, max_value: {bound}}}"
    arguments = f"{{arguments: {arguments}}}" if within else arguments
    contract, left_out = imported_test(f"dbt_utils.accepted_range: {arguments}")
    assert left_out.keys() == {f"{PLACE}/dbt_utils.accepted_range{within}/max_value"}
    assert codes(contract, {"n": -1}) == {"n-in-range"}
    assert codes(contract, {"n": 10**9}) == set()


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("dbt_utils.accepted_range: {max_value: other_column}", "has no bound that is a number"),
        ("not_null: {config: {enabled: false}}", "is switched off"),
        ("accepted_values: {values: [\"{{ var('a') }}\"]}", "only dbt can evaluate"),
        (
            "dbt_expectations.expect_column_mean_to_be_between: {max_value: 1, row_condition: n > 0}",
            "condition",
        ),
    ],
)
def test_a_test_that_dbt_runs_otherwise_is_listed_as_a_whole(test: str, reason: str) -> None:
    contract, left_out = imported_test(test)
    assert left_out.keys() == {PLACE}
    assert reason in left_out[PLACE]
    assert (contract.rules, contract.expectations) == ((), ())
    assert codes(contract, {"n": None}) == set()


def test_a_severity_that_is_not_known_is_listed() -> None:
    test = "dbt_utils.accepted_range: {min_value: 0, config: {severity: \"{{ env_var('s') }}\"}}"
    contract, left_out = imported_test(test)
    assert left_out.keys() == {f"{PLACE}/dbt_utils.accepted_range/config/severity"}
    assert contract.rules[0].severity == "error"


def test_parts_of_other_models_are_not_listed_one_by_one() -> None:
    text = "models: [{name: a, meta: {o: 1}, columns: [{name: n, tags: [x]}]}, {name: b, meta: {o: 1}, columns: []}]"
    found = read_foreign(read_source("schema.yml", text), "b")
    assert [str(each) for each in found.left_out] == [
        "/models/1/meta: a contract has no field for `meta`",
        "/: `b` names no fields, so every record passes; add them to the schema",
        "/models: a: import these with `--object`",
    ]


def test_a_text_that_only_dbt_has_is_no_description() -> None:
    column = "{name: n, description: \"{{ doc('n') }}\"}"
    text = f"models: [{{name: o, description: \"The {{{{ var('o') }}}}\", columns: [{column}]}}]"
    contract, left_out = imported("schema.yml", text)
    assert left_out.keys() == {"/models/0/description", "/models/0/columns/0/description"}
    assert contract.description is None


def test_a_part_of_a_column_of_dbt_is_listed_and_is_no_field_of_its_own() -> None:
    columns = "{name: payload.a, data_tests: [not_null]}, {name: payload}, {name: odd.name, quote: true, data_tests: [not_null]}"
    contract, left_out = imported("schema.yml", f"models: [{{name: o, columns: [{columns}]}}]")
    assert (
        left_out["/models/0/columns/0"]
        == "`payload.a` is a part of a column; write rules for the pointer /payload/a"
    )
    assert codes(contract, {"payload": {"a": 1}, "odd.name": 1}) == set()
    assert codes(contract, {"payload": {"a": 1}}) == {"required"}


def test_columns_of_one_name_are_refused_with_their_place() -> None:
    with pytest.raises(ContractError, match=r"schema\.yml:3:5: another column is named `n`; rename one"):
        imported("schema.yml", "models: [{name: o, columns: [\n    {name: n},\n    {name: n}]}]")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("{type: record, fields: {a: 5}}", "this is not a mapping"),
        ("{type: record, fields: [a]}", "this is not a mapping"),
        ("{type: string, quality: {type: sql}}", "this is not a list"),
        ("{type: record, fields: {child: {$ref: '#/definitions/order_id'}}}", "refers to itself"),
    ],
)
def test_parts_of_another_kind_are_refused_with_their_place(field: str, message: str) -> None:
    text = SPECIFICATION.replace("{type: text, format: uuid, description: An internal id.}", field)
    with pytest.raises(ContractError, match=r"orders\.yaml:\d+:\d+: .*" + message):
        imported("orders.yaml", text)


@pytest.mark.parametrize(
    ("data_type", "good", "bad"),
    [
        ("int8", 7, "7"),
        ("float8", 0.5, "0.5"),
        ("double precision", 0.5, "0.5"),
        ("character varying", "a", 7),
        ("int unsigned", 7, "7"),
    ],
)
def test_types_of_databases_are_known(data_type: str, good: object, bad: object) -> None:
    contract, left_out = imported_test("unique", data_type)
    assert left_out.keys() == {PLACE}
    assert codes(contract, {"n": good}) == set()
    assert codes(contract, {"n": bad}) == {"type"}


@pytest.mark.parametrize(
    ("data_type", "good", "bad"),
    [
        ("uuid", UUID, "not-a-uuid"),
        ("int unsigned", 2**32 - 1, -5),
        ("int(10) unsigned", 0, 2**32),
        ("decimal(9,2) unsigned", 0.5, -0.5),
        ("int2", -(2**15), 70_000),
        ("int4", 2**31 - 1, 2**31),
        ("int64", 2**63 - 1, 2**63),
    ],
)
def test_what_a_type_of_a_database_never_holds_is_refused(data_type: str, good: object, bad: object) -> None:
    contract, left_out = imported_test("unique", f"'{data_type}'")
    assert left_out.keys() == {PLACE} | ({TYPE_PLACE} if "(" in data_type else set())
    assert codes(contract, {"n": good}) == set()
    assert codes(contract, {"n": bad})


@pytest.mark.parametrize("data_type", ["smallint", "TINYINT"])
def test_a_type_whose_bounds_depend_on_the_database_is_listed(data_type: str) -> None:
    contract, left_out = imported_test("unique", data_type)
    assert (
        left_out[TYPE_PLACE]
        == f"the bounds of the type `{data_type}` differ by database and are not judged; write a rule"
    )
    assert codes(contract, {"n": 70_000}) == set()
    expectation = {
        "type": "expect_column_values_to_be_of_type",
        "kwargs": {"column": "n", "type_": data_type},
    }
    _, left_out = imported("s.json", json.dumps({"name": "s", "expectations": [expectation]}))
    assert left_out.keys() == {"/expectations/0"}


def test_a_format_that_contradicts_a_type_is_listed() -> None:
    text = SPECIFICATION.replace("blob: {type: geometry}", "blob: {type: uuid, format: email}")
    contract, left_out = imported("orders.yaml", text)
    assert left_out["/models/orders/fields/blob/format"] == "the type `uuid` has its own format"
    good = {"order_id": UUID, "ordered_at": "2026-01-01T00:00:00Z", "blob": UUID}
    assert codes(contract, good) == set()


def test_null_in_a_set_of_values_of_a_suite_says_nothing() -> None:
    kwargs = {"column": "sex", "value_set": ["f", "m", None]}
    suite = {"name": "s", "expectations": [{"type": "expect_column_values_to_be_in_set", "kwargs": kwargs}]}
    contract, left_out = imported("s.json", json.dumps(suite))
    assert not left_out
    assert codes(contract, {"sex": "f"}) == codes(contract, {"sex": None}) == codes(contract, {}) == set()
    assert codes(contract, {"sex": "x"}) == {contract.rules[0].id}
