"""How many bytes a second one core judges of nested records of 20 KB: processor time, without Spark.

An order with some hundred lines, each with nested objects and lists, strings with patterns and formats, numbers with
bounds, and three rules, one of them about every line. Decoding is orjson alone, which says how fast the machine is.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, Final

import orjson
import pyarrow as pa

from benchmarks.figures import Figure, interleaved_seconds, run_on_records
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan

RECORD_BYTES: Final = 20_000
ASKED_MEGABYTES: Final = 100.0
BATCH: Final = 500
_SEED: Final = 20
_FIRST_DAY: Final = date(2024, 1, 1)

_ADDRESS: Final = {
    "type": "object",
    "required": ["street", "city", "postcode"],
    "properties": {
        "street": {"type": "string", "minLength": 1, "maxLength": 200},
        "city": {"type": "string", "maxLength": 100},
        "postcode": {"type": "string", "pattern": "^[0-9]{4} [A-Z]{2}$"},
    },
}
_LINE: Final = {
    "type": "object",
    "required": ["line", "sku", "quantity", "price", "ships", "stock"],
    "properties": {
        "line": {"type": "integer", "minimum": 1},
        "sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{6}$"},
        "description": {"type": "string", "maxLength": 500},
        "quantity": {"type": "integer", "minimum": 1, "maximum": 1000},
        "price": {"type": "number", "minimum": 0},
        "ships": {"type": "string", "format": "date"},
        "stock": {
            "type": "object",
            "required": ["site", "shelves"],
            "properties": {
                "site": {"enum": ["east", "north", "south", "west"]},
                "shelves": {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 20},
            },
        },
    },
}
DEFINITION: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["order_id", "ordered", "customer", "lines"],
    "properties": {
        "order_id": {"type": "string", "pattern": "^O[0-9]{9}$"},
        "ordered": {"type": "string", "format": "date"},
        "customer": {
            "type": "object",
            "required": ["name", "address"],
            "properties": {"name": {"type": "string"}, "address": _ADDRESS},
        },
        "lines": {"type": "array", "items": _LINE, "minItems": 1},
        "total": {"type": "number", "minimum": 0},
    },
}
_RULES: Final[list[dict[str, Any]]] = [
    {"id": "not-the-epoch", "kind": "range", "field": "/ordered", "after": "1900-01-01"},
    {"id": "total-is-known", "kind": "forbidden", "field": "/total", "values": [0]},
    {"id": "ships-one-day", "kind": "range", "field": "/lines/*/ships", "after": "1900-01-01"},
]


def main() -> None:
    """Measure, print and write the figures."""
    run_on_records(__doc__, measure, records=2_000, rounds=7)


def measure(records: int, rounds: int) -> list[Figure]:
    """Return the figures of judging orders with rules of the order only, and with a rule of each line."""
    maker = random.Random(_SEED)  # noqa: S311 - repeatable orders
    values = [json.dumps(order(maker)).encode() for _ in range(records)]
    size = sum(map(len, values))
    if not 0.9 < size / records / RECORD_BYTES < 1.1:
        raise RuntimeError(f"a record has {size / records:,.0f} bytes")
    array = pa.array(values, pa.binary())
    batches = [array.slice(start, BATCH) for start in range(0, records, BATCH)]
    plans = {"order": plan_of(_RULES[:2]), "lines": plan_of(_RULES)}
    for plan in plans.values():
        _require_verdicts(plan, values[0])
    cases = {name: _judging(plan, batches) for name, plan in plans.items()}
    cases["decoding"] = lambda: _decode(values)
    seconds = interleaved_seconds(cases, rounds, time.process_time)
    megabytes = {name: size / 1e6 / taken for name, taken in seconds.items()}
    return [
        Figure.of("nested_20_kb_megabytes", megabytes["order"], "MB/s", ASKED_MEGABYTES),
        Figure.of("nested_20_kb_rule_of_lines_megabytes", megabytes["lines"], "MB/s", ASKED_MEGABYTES),
        Figure.of("nested_20_kb_over_decoding", megabytes["order"], "MB/s", megabytes["decoding"]),
    ]


def plan_of(rules: list[dict[str, Any]]) -> EnforcementPlan:
    """Compile the contract of orders with these rules."""
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "shop.orders",
        "version": "1.0.0",
        "topic": "shop.orders",
        "schema": {"type": "json-schema", "definition": DEFINITION},
        "columns": [{"name": "order_id", "from": "/order_id", "type": "string"}],
        "rules": rules,
    }
    return compile_plan(DataContract.model_validate(document))


def order(maker: random.Random) -> dict[str, Any]:
    """Return an order of about RECORD_BYTES bytes of JSON."""
    lines = [_line(maker, number) for number in range(1, 90)]
    return {
        "order_id": f"O{maker.randrange(10**9):09d}",
        "ordered": _day(maker),
        "customer": {
            "name": "J. de Vries",
            "address": {"street": "Lange Voorhout 1", "city": "Den Haag", "postcode": "2514 EA"},
        },
        "lines": lines,
        "total": round(sum(line["quantity"] * line["price"] for line in lines), 2),
    }


def _line(maker: random.Random, number: int) -> dict[str, Any]:
    return {
        "line": number,
        "sku": f"ABC-{maker.randrange(10**6):06d}",
        "description": "Bolt, stainless, metric, box of one hundred",
        "quantity": maker.randrange(1, 100),
        "price": maker.randrange(1, 10_000) / 100,
        "ships": _day(maker),
        "stock": {
            "site": maker.choice(("east", "north", "south", "west")),
            "shelves": [f"S{maker.randrange(1000)}" for _ in range(3)],
        },
    }


def _day(maker: random.Random) -> str:
    return str(_FIRST_DAY + timedelta(days=maker.randrange(700)))


def _judging(plan: EnforcementPlan, batches: list[pa.Array]) -> Callable[[], object]:
    return lambda: [plan.judge(batch) for batch in batches]


def _decode(values: list[bytes]) -> None:
    for value in values:  # values are not kept, because allocating memory would be measured
        orjson.loads(value)


def _require_verdicts(plan: EnforcementPlan, value: bytes) -> None:
    """Raise RuntimeError unless a valid order is accepted and an order with an invalid line is refused."""
    broken = value.replace(b'"quantity": ', b'"quantity": -', 1)
    dispositions = plan.judge(pa.array([value, broken], pa.binary())).field("disposition").to_pylist()
    if dispositions[0] != 0 or dispositions[1] == 0:
        raise RuntimeError(f"judged {dispositions}")


if __name__ == "__main__":
    main()
