"""The public package: records, tables and data frames judged by a contract."""

from __future__ import annotations

import copy
import doctest
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate
from tidegate import contract as contract_module
from tidegate.contracts.errors import ContractError, SettingsError

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.stays
version: 1.0.0
topic: hospital.stays
schema:
  type: json-schema
  definition:
    type: object
    additionalProperties: false
    required: [age, consultant]
    properties:
      age: {type: integer}
      consultant: {type: [string, "null"]}
      ward: {type: string}
      charge: {type: number, maximum: 0.305}
      left: {type: string, format: date}
      seen: {type: string, format: date-time}
      at: {type: string, pattern: "^23:"}
      local: {type: string, format: date-time-local}
      photo: {type: string}
      patient: {type: object, additionalProperties: false, properties: {name: {type: string}, born: {type: string, format: date}}}
      codes: {type: array, items: {type: string}}
      marks: {type: object, additionalProperties: {type: number}}
rules:
  - {id: age-is-known, kind: forbidden, field: /age, values: [999]}
  - {id: not-the-epoch, kind: range, field: /left, after: 1900-01-01}
"""


@pytest.fixture(scope="module")
def contract() -> tidegate.Contract:
    return tidegate.Contract.parse(CONTRACT)


def codes(verdicts: Any) -> list[list[str]]:
    return [[each["code"] for each in verdict["violations"]] for verdict in verdicts]


def test_the_example_in_the_documentation_holds() -> None:
    assert doctest.testmod(contract_module) == (0, 3)


@pytest.mark.parametrize("name", tidegate.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(tidegate, name).__name__ == name


@pytest.mark.parametrize(
    "write", [lambda record: record, json.dumps, lambda record: json.dumps(record).encode()]
)
def test_a_record_is_judged_in_each_form(contract: tidegate.Contract, write: Callable[[Any], Any]) -> None:
    assert contract.judge(write({"age": 63, "consultant": None})).is_accepted
    verdict = contract.judge(write({"age": 999, "consultant": None}))
    assert [(each.code, each.pointer) for each in verdict.violations] == [("age-is-known", "/age")]
    assert not contract.judge(None).is_accepted


def test_a_contract_is_loaded_and_pickled(tmp_path: Path, contract: tidegate.Contract) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    loaded = tidegate.Contract.load(path)
    assert (loaded.id, loaded.version, loaded.fingerprint) == (
        "hospital.stays",
        "1.0.0",
        contract.fingerprint,
    )
    assert copy.deepcopy(loaded).fingerprint == loaded.fingerprint
    assert repr(loaded) == "<Contract hospital.stays@1.0.0>"
    with pytest.raises(ContractError, match=r"contract\.yaml:3:5"):
        tidegate.Contract.parse(CONTRACT.replace("hospital.stays", "a b", 1), name="contract.yaml")


TABLE = pa.table(
    {
        "age": pa.array([63, 999, None, 7], pa.int16()),
        "consultant": pa.array([None, "C1", "C1", None], pa.large_string()),
        "ward": pa.array(["icu", None, "er", None]).dictionary_encode(),
        "charge": pa.array([Decimal("0.3"), None, Decimal("0.31"), None], pa.decimal128(10, 3)),
        "left": pa.array([date(2026, 1, 31), None, date(1900, 1, 1), None]),
        "seen": pa.array(
            [datetime(2026, 1, 31, 12, tzinfo=UTC), None, None, None], pa.timestamp("ns", "Europe/Berlin")
        ),
        "at": pa.array([time(23, 59), None, time(22), None], pa.time64("ns")),
        "local": pa.array(["2026-01-31 12:00:00", None, None, None]).cast(pa.timestamp("ms")),
        "photo": pa.array([b"\x00\xff", None, None, None]),
        "patient": pa.array(
            [{"name": None, "born": date(1970, 1, 1)}, None, {"name": "x", "born": None}, None]
        ),
        "codes": pa.array([["a"], None, ["a", None], []]),
        "marks": pa.array(
            [[("a", 1.5)], None, [("b", float("nan"))], []], pa.map_(pa.string(), pa.float64())
        ),
    }
)


def test_a_list_of_records_is_refused_with_what_to_do(contract: tidegate.Contract) -> None:
    records: Any = [{"age": 63}, {"age": 64}]
    with pytest.raises(
        SettingsError, match=r"one record, not a list; call it for each of them, or judge `pyarrow"
    ):
        contract.judge(records)


def test_each_type_of_a_table_is_judged_as_the_json_that_it_stands_for(contract: tidegate.Contract) -> None:
    judged = contract.judge_table(TABLE.remove_column(TABLE.schema.get_field_index("marks")))
    assert codes(judged.column("verdict").to_pylist()) == [
        [],
        ["age-is-known"],
        ["required", "maximum", "pattern", "type", "not-the-epoch"],
        [],
    ]
    assert judged.column("verdict").type.field("accepted").type == pa.bool_()


def test_a_number_that_json_has_no_text_for_is_refused(contract: tidegate.Contract) -> None:
    judged = contract.judge_table(TABLE.select(["age", "consultant", "marks"]))
    assert codes(judged.column("verdict").to_pylist())[2] == ["json.not-finite"]


UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


def test_a_column_that_json_has_no_value_for_is_refused_by_name(contract: tidegate.Contract) -> None:
    with pytest.raises(SettingsError, match="the column /x is of type sparse_union"):
        contract.judge_table(pa.table({"x": UNION}))


def test_an_empty_table_gets_the_column_too(contract: tidegate.Contract) -> None:
    assert contract.judge_table(TABLE.slice(0, 0)).schema.names == [*TABLE.schema.names, "verdict"]
    with pytest.raises(SettingsError, match="rename it first"):
        contract.judge_table(pa.table({"verdict": [1]}))


ROWS = {"age": [63, 999, 7], "consultant": [None, "C1", "C2"]}


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"])
def test_frames_of_each_library_are_judged_and_split(
    contract: tidegate.Contract, make: Callable[[Any], Any]
) -> None:
    frame = make(ROWS)
    judged = contract.judge_frame(frame)
    assert type(judged) is type(frame)
    accepted, refused = contract.split(frame)
    assert type(accepted) is type(refused) is type(frame)
    assert rows(accepted) == [{"age": 63, "consultant": None}, {"age": 7, "consultant": "C2"}]
    (bad,) = rows(refused)
    assert bad["age"] == 999
    assert bad["verdict"]["violations"][0]["code"] == "age-is-known"


def rows(frame: Any) -> list[dict[str, Any]]:
    if isinstance(frame, pd.DataFrame):
        return frame.astype(object).where(frame.notna(), None).to_dict("records")
    return frame.to_pylist() if isinstance(frame, pa.Table) else frame.to_dicts()


class Thing:
    """An object that no library knows."""


class Frame(pd.DataFrame):
    """A data frame of a program."""


def objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


TAKEN = "is no DataFrame of Spark, pandas or polars, and no pyarrow.Table; "
CONVERT = r"convert it, such as with `frame\['a'\].astype\(str\)`, or leave it out"
AS_TIMES = r"convert it, such as with `pandas.to_datetime\(frame\['a'\], utc=True\)`, or leave it out"
OPERATIONS: list[Callable[[tidegate.Contract, Any], Any]] = [
    lambda contract, frame: contract.judge_frame(frame),
    lambda contract, frame: contract.split(frame),
    lambda contract, frame: contract.infer(frame, id="a"),
]


@pytest.mark.parametrize("run", OPERATIONS, ids=["judge", "split", "infer"])
@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.LazyFrame(ROWS), rf"polars.LazyFrame {TAKEN}call `.collect\(\)` on it first"),
        (pl.Series([1]), rf"polars.Series {TAKEN}call `.to_frame\(\)` on it first"),
        (pd.Series([1]), rf"pandas.Series {TAKEN}call `.to_frame\(\)` on it first"),
        (pa.record_batch(ROWS), rf"pyarrow.RecordBatch {TAKEN}make a table of it"),
        ([1], rf"list {TAKEN}make a table of it with `pyarrow.Table.from_pylist\(records\)`, or call `judge`"),
        ({"age": 1}, rf"dict {TAKEN}call `judge` for one record"),
        ("a.csv", rf"str {TAKEN}convert it to one of them"),
        (Thing(), rf"tests.Thing {TAKEN}convert it to one of them"),
        (pd.DataFrame({"a": [1, "x", None]}), rf"the column `a` holds values of the types int, str, .*{CONVERT}"),
        (pd.DataFrame({"a": pd.Categorical([1, "x"])}), rf"holds values of the types int, str, .*{CONVERT}"),
        (pd.DataFrame({"a": [pd.Timestamp(0), 3]}), rf"holds values of the types Timestamp, int, .*{AS_TIMES}"),
        (objects(pd.Timestamp(0), pd.Timestamp(0, tz="UTC")), rf"types Timestamp, Timestamp with a time zone, .*{AS_TIMES}"),
        (objects(date(2026, 1, 1), pd.Timestamp(0)), rf"the types Timestamp, date, .*{AS_TIMES}"),
        (objects(b"x", "y"), rf"the types bytes, str, .*{CONVERT}"),
        (objects("y", b"x"), rf"the types bytes, str, .*{CONVERT}"),
        (pd.DataFrame({"a": pd.Categorical([b"x", "y"])}), rf"the types bytes, str, .*{CONVERT}"),
        (pd.DataFrame({"a": pd.cut([1, 2, 3], 2)}), rf"holds values of type Interval, .*{CONVERT}"),
        (pd.DataFrame({"a": pd.period_range("2026-01", periods=2, freq="M")}), rf"is of type period\[M\], .*{CONVERT}"),
        (pd.DataFrame({"a": ["\ud800"]}), r"holds text with half a surrogate pair, .*encode\('utf-8', 'replace'\)"),
        (pd.DataFrame({"a": [{"b": 1}, {"b": "x"}]}), rf"type dict whose members are of different types, .*{CONVERT}"),
        (pd.DataFrame({"a": [{"b": 1}, [1]]}), rf"holds values of the types dict, list, .*{CONVERT}"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "x")])), r"have 2 levels of names; join them, "),
        (pd.DataFrame({"b": [1]}, index=pd.Index([7], name="age")), r"`age` is the index .*`frame.reset_index\(\)`"),
        (pd.DataFrame({"a": [Thing()]}), rf"holds values of type Thing, for which Arrow has no type; {CONVERT}"),
        (pd.DataFrame({"a": [2**70]}), rf"holds an integer of more than 64 bits, .*{CONVERT}"),
        (pd.DataFrame({"a": [Decimal("Infinity")]}), rf"holds an infinite decimal, or one of more than 76 .*{CONVERT}"),
        (pa.table([pa.array([1]), pa.array([2])], ["a", "a"]), r"two columns are named `a`, .*; rename one of them"),
        (pd.DataFrame({"a": [1j]}), rf"is of type complex128, .*{CONVERT}"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"has two columns `a`; rename one of them"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), r"has two columns `1`; rename one of them"),
        (pd.DataFrame(index=[0, 1]), r"has rows without a column"),
        (pl.DataFrame({"a": [Thing()]}, schema={"a": pl.Object}), r"the column `a` is of type Object, .*`polars.col\('a'\)"),
        (pl.DataFrame({"a": [2**70]}, schema={"a": pl.Int128}), r"the column `a` is of type Int128, "),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused_with_what_to_do(
    contract: tidegate.Contract, run: Callable[[tidegate.Contract, Any], Any], frame: Any, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        run(contract, frame)
    assert "'x'" not in str(refused.value)  # no value of a record


def test_objects_of_one_kind_and_sparse_values_are_judged(contract: tidegate.Contract) -> None:
    frame = pd.DataFrame(
        {
            "age": pd.arrays.SparseArray([0, 999]),
            "consultant": ["C1", None],
            "seen": pd.Series(
                [datetime(2026, 1, 1, tzinfo=UTC), pd.Timestamp(0, tz="Europe/Berlin")], dtype=object
            ),
            "left": pd.Series([date(2026, 1, 1), pd.NaT], dtype=object),
        },
        index=pd.Index([4, 4], name="row"),  # which the contract says nothing about
    )
    assert codes(contract.judge_frame(frame)["verdict"]) == [[], ["age-is-known"]]


def test_views_of_texts_are_split(contract: tidegate.Contract) -> None:
    ages = [63, 999, 7, 8, 999]
    table = pa.table({"age": ages, "consultant": pa.array(["C"] * 5, pa.string_view())})
    accepted, refused = contract.split(table)
    assert (accepted.column("age").to_pylist(), len(refused)) == ([63, 7, 8], 2)
    assert accepted.schema == table.schema
    assert contract.split(table.slice(1, 1))[0].schema == table.schema


def test_the_frame_of_a_subclass_is_judged(contract: tidegate.Contract) -> None:
    accepted, refused = contract.split(Frame(ROWS))
    assert (len(accepted), len(refused)) == (2, 1)


def test_arguments_of_another_type_are_refused_with_what_to_do(contract: tidegate.Contract) -> None:
    parts: dict[str, Callable[[Any], Any]] = {
        "Contract takes a document, not a dict; `Contract.load": tidegate.Contract,
        "Contract.load takes a path, not a dict; ": tidegate.Contract.load,
        "Contract.parse takes text or bytes, not a dict; write a dictionary": tidegate.Contract.parse,
        "judge_table takes a pyarrow.Table, not a dict; `judge_frame`": contract.judge_table,
        "{} is not a valid contract id": lambda name: contract.infer(pa.table(ROWS), id=name),
    }
    for message, call in parts.items():
        with pytest.raises(SettingsError, match=f"^{message}"):
            call({})


def test_text_that_is_no_utf_8_is_refused(contract: tidegate.Contract) -> None:
    assert [each.stage for each in contract.judge('{"age": "\ud800"}').violations] == ["decode"]


def test_avro_is_judged_as_bytes_only() -> None:
    avro = tidegate.Contract.parse(
        "apiVersion: tidegate/v1\nkind: DataContract\nid: a\nversion: 1.0.0\ntopic: a\n"
        "schema: {type: avro, definition: {type: record, name: R, fields: [{name: n, type: int}]}}\n"
    )
    assert avro.judge(b"\x02").is_accepted
    with pytest.raises(SettingsError, match="describes Avro"):
        avro.judge({"n": 1})
    with pytest.raises(SettingsError, match="describes Avro"):
        avro.judge_table(pa.table({"n": [1]}))


STRANGE = "x\u2028\U0001f600 \x7f: #é'\"\\ *"
STAYS = {
    "age": [999 if row % 400 == 7 else row % 97 for row in range(4_000)],
    "left": [date(2024, 1, 1 + row % 30) for row in range(4_000)],
    "seen": [datetime(2024, 1, 1 + row % 30, row % 24) for row in range(4_000)],  # noqa: DTZ001 - local times
    STRANGE: [row % 2 == 0 for row in range(4_000)],
}


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"])
def test_a_contract_is_inferred_from_a_frame_and_judges_it(make: Callable[[Any], Any]) -> None:
    frame = make(STAYS)
    proposed = tidegate.Contract.infer(frame, id="hospital.stays")
    assert proposed.contract.fingerprint == tidegate.Contract.parse(proposed.text).fingerprint
    assert (proposed.contract.id, proposed.contract.document.status) == ("hospital.stays", "draft")
    _, refused = proposed.contract.split(frame)
    assert {row["age"] for row in rows(refused)} == {999}
    assert len(refused) == STAYS["age"].count(999)
    assert "# 999: apart from all other values of the field. Violated by " in proposed.text
    definition = proposed.contract.document.schema_.definition
    assert definition["properties"][STRANGE] == {"type": "boolean"}
    assert definition["properties"]["seen"] == {"type": "string", "format": "date-time-local"}


def test_maps_and_a_lone_column_of_bytes_are_inferred_as_they_are_judged() -> None:
    marks = pa.array([[("a", 1.5)], []] * 500, pa.map_(pa.string(), pa.float64()))
    photos = pa.array([b'{"age": 1}', b"\xff"] * 500, pa.binary())
    for table in (pa.table({"marks": marks}), pa.table({"value": photos})):
        proposed = tidegate.Contract.infer(table, id="a")
        accepted, refused = proposed.contract.split(table)
        assert (accepted.num_rows, refused.num_rows) == (1_000, 0)
        assert "0.000% false refusals" in proposed.text


def test_durations_and_nanoseconds_are_inferred_as_they_are_judged() -> None:
    frame = pd.DataFrame(
        {
            "took": pd.to_timedelta(range(300), unit="ms"),
            "at": pd.to_datetime(range(300), unit="ns", utc=True),
        }
    )
    proposed = tidegate.Contract.infer(frame, id="a")
    definition = proposed.contract.document.schema_.definition
    assert definition["properties"]["took"] == {"type": "number"}
    assert definition["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert [column.type for column in proposed.contract.document.columns] == ["double", "string"]
    accepted, refused = proposed.contract.split(frame)
    assert (len(accepted), len(refused)) == (300, 0)
    assert not proposed.contract.judge({"took": "1 s", "at": "1970-01-01T00:00:00Z"}).is_accepted


@pytest.mark.parametrize(
    ("frame", "name", "message"),
    [
        (pa.table({"age": [1]}), "a b", r"'a b' is not a valid contract id"),
        (pa.table({"age": pa.array([], pa.int64())}), "a", r"has no rows"),
        (pa.table({"x": UNION}), "a", r"the column /x is of type sparse_union"),
        ([1], "a", r"list is no DataFrame"),
    ],
)
def test_what_no_contract_can_be_inferred_from_is_refused(frame: Any, name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        tidegate.Contract.infer(frame, id=name)


OPEN = """\
apiVersion: tidegate/v1
kind: DataContract
id: a.b
version: 1.0.0
topic: a.b
schema: {type: json-schema, definition: {type: object, properties: {age: {type: [number, "null"]}}}}
"""


def test_a_dictionary_gets_the_verdict_of_its_json() -> None:
    contract = tidegate.Contract.parse(OPEN)
    for value in (float("nan"), float("inf")):
        (violation,) = contract.judge({"age": value}).violations
        assert violation.code == "json.not-finite"
    assert contract.judge({"age": 2**64}) == contract.judge(b'{"age":18446744073709551616}')
    assert not contract.judge({"at": datetime(2026, 1, 1, tzinfo=UTC)}).violations
    with pytest.raises(SettingsError, match="cannot be written as JSON"):
        contract.judge({"age": b"7"})


def test_a_value_that_does_not_fit_its_column_is_refused_as_in_the_job() -> None:
    contract = tidegate.Contract.parse(
        CONTRACT.partition("  definition:")[0]
        + "  definition: {type: object, properties: {x: {type: number}}}\n"
        + "columns: [{name: x, from: /x, type: int}]\n"
    )
    judged = contract.judge_table(pa.table({"x": [1.5, 1.0]})).column("verdict").to_pylist()
    for record in ({"x": 1.5}, '{"x": 1.5}', b'{"x": 1.5}'):
        assert [(each.stage, each.code) for each in contract.judge(record).violations] == [("column", "x")]
    assert (codes(judged), [each["accepted"] for each in judged]) == ([["x"], []], [False, True])
