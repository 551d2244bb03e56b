"""How long comparing takes: two JSON Schemas of 300 fields, two contracts of that size, a folder of 200 changed contracts.

`python -m benchmarks.compatibility [--smoke] [--each] [--out FILE]`. The figure is the slowest of the typical changes;
`--each` prints all of them. The baselines are what is promised: 100 ms for a comparison, 10 s for the folder.
"""

from __future__ import annotations

import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, benchmark_parser, report_figures
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.json_schema import includes

Schema = dict[str, Any]
Change = Callable[[Schema], Schema]

COMPARISON_MS = 100.0
FOLDER_SECONDS = 10.0
_UNCHANGED = frozenset({"annotation", "nothing"})


def main() -> None:
    """Measure and write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--each", action="store_true", help="print every change")
    arguments = parser.parse_args()
    figures = measure(smoke=arguments.smoke, each=arguments.each)
    report_figures(figures, arguments.out)


def measure(*, smoke: bool, each: bool = False) -> list[Figure]:
    """Return the figures of each typical change, and of a check of a folder in which every contract has changed."""
    fields, contracts, rounds = (30, 5, 1) if smoke else (300, 200, 5)
    old = schema(fields)
    schemas = {name: timed(partial(judged, old, new), rounds) for name, new in changed(old).items()}
    base = contract("c", "1.0.0", old)
    whole = {
        name: timed(partial(compare, base, contract("c", "1.1.0", new)), rounds)
        for name, new in changed(old).items()
    }
    stricter = document("c", "1.1.0", old)
    stricter["rules"][0]["values"] = [99, 98]
    rules = timed(partial(compare, base, DataContract.model_validate(stricter)), rounds)
    if each:
        for name, milliseconds in schemas.items():
            print(f"{name:32s} {milliseconds:>8.1f} ms, whole contracts {whole[name]:>8.1f} ms")
    return [
        Figure.of("compatibility_300_fields_slowest", max(schemas.values()), "ms", COMPARISON_MS),
        Figure.of(
            "compatibility_300_fields_median", statistics.median(schemas.values()), "ms", COMPARISON_MS
        ),
        Figure.of("contracts_300_fields_slowest", max(whole.values()), "ms", COMPARISON_MS),
        Figure.of("contracts_300_fields_rule_narrowed", rules, "ms", COMPARISON_MS),
        Figure.of("check_200_changed_contracts", checked_folder(contracts), "s", FOLDER_SECONDS),
    ]


def timed(run: Callable[[], object], rounds: int) -> float:
    """Return the median milliseconds of `rounds` runs; the first run, which fills the caches of patterns, counts too."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def judged(old: Schema, new: tuple[Schema, Outcome]) -> None:
    """Compare two schemas. Raise AssertionError if the outcome is not the expected one."""
    definition, expected = new
    answer = includes(old, definition, formats_asserted=True)
    assert answer.outcome is expected, answer


# Data.


def schema(fields: int) -> Schema:
    """Build a schema with this number of top-level properties, of ten kinds; one kind has five nested properties."""
    kinds = [
        {"type": "string", "minLength": 1, "maxLength": 80},
        {"type": "integer", "minimum": 0, "maximum": 150},
        {"enum": [f"ward-{number}" for number in range(20)]},
        {"type": "string", "pattern": "^[A-Z]{2}[0-9]{4,8}$"},
        {"type": ["number", "null"], "exclusiveMinimum": 0},
        {"type": "string", "format": "date"},
        {"type": "array", "items": {"$ref": "#/$defs/code"}, "maxItems": 20, "uniqueItems": True},
        {"type": "boolean"},
        {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "integer"}, {"type": "null"}]},
        {
            "type": "object",
            "properties": {f"part{number}": {"$ref": "#/$defs/amount"} for number in range(5)},
            "required": ["part0"],
            "additionalProperties": False,
        },
    ]
    properties = {f"field{number}": copy.deepcopy(kinds[number % len(kinds)]) for number in range(fields)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "code": {"type": "string", "pattern": "^[A-Z0-9]{3,10}$"},
            "amount": {"type": "number", "minimum": 0, "multipleOf": 0.01},
        },
        "type": "object",
        "properties": properties,
        "required": [f"field{number}" for number in range(0, fields, 2)],
        "additionalProperties": False,
    }


def changed(old: Schema, first: int = 0) -> dict[str, tuple[Schema, Outcome]]:
    """Return typical changes of a schema by name: the new schema and the expected outcome of a backward comparison.

    They change the ten fields from `first`, a multiple of ten.
    """
    proven, refuted = Outcome.PROVEN, Outcome.REFUTED

    def after(change: Callable[[list[dict[str, Any]]], object]) -> Schema:
        new = copy.deepcopy(old)
        change([new["properties"][f"field{first + number}"] for number in range(10)])
        return new

    def with_fields(change: Callable[[dict[str, Any]], object]) -> Schema:
        new = copy.deepcopy(old)
        change(new["properties"])
        return new

    def without(name: str) -> Schema:
        new = with_fields(lambda properties: properties.pop(name))
        return {**new, "required": [each for each in new["required"] if each != name]}

    def several(fields: list[dict[str, Any]]) -> None:
        fields[0].update(maxLength=40)
        fields[1].update(maximum=120)
        fields[2].update(enum=["ward-1", "ward-2"])
        fields[3].update(pattern="^[A-Z]{2}[0-9]{4,6}$")
        fields[4].update(type="number")
        fields[5].update(format="date-time")
        fields[6].update(maxItems=5)
        fields[7].update(type="null")
        fields[8]["anyOf"].pop()
        fields[9]["required"].append("part1")

    more = with_fields(lambda properties: properties.update(more={"type": "string"}))
    narrow, wide = "^[A-Z]{2}[0-9]{4,6}$", "^[A-Z]{2}[0-9]{4,9}$"
    part = {"type": "integer", "minimum": 0}
    optional = f"field{first + 1}"
    return {
        "nothing": (after(lambda _: None), proven),
        "annotation": (after(lambda fields: fields[1].update(title="years")), proven),
        "optional property added": (more, proven),
        "required property added": ({**more, "required": [*more["required"], "more"]}, refuted),
        "optional property removed": (without(optional), refuted),
        "required property removed": (without(f"field{first}"), refuted),
        "no more required": ({**old, "required": old["required"][1:]}, proven),
        "made required": ({**old, "required": [*old["required"], optional]}, refuted),
        "range narrowed": (after(lambda fields: fields[1].update(maximum=120)), refuted),
        "range widened": (after(lambda fields: fields[1].update(maximum=200)), proven),
        "string shortened": (after(lambda fields: fields[0].update(maxLength=40)), refuted),
        "pattern narrowed": (after(lambda fields: fields[3].update(pattern=narrow)), refuted),
        "pattern widened": (after(lambda fields: fields[3].update(pattern=wide)), proven),
        "null not allowed": (after(lambda fields: fields[4].update(type="number")), refuted),
        "format removed": (after(lambda fields: fields[5].pop("format")), proven),
        "format changed": (after(lambda fields: fields[5].update(format="date-time")), refuted),
        "enum value added": (after(lambda fields: fields[2]["enum"].append("ward-x")), proven),
        "enum value removed": (after(lambda fields: fields[2]["enum"].pop()), refuted),
        "alternative added": (after(lambda fields: fields[8]["anyOf"].append({"type": "boolean"})), proven),
        "alternative removed": (after(lambda fields: fields[8]["anyOf"].pop()), refuted),
        "nested property required": (after(lambda fields: fields[9]["required"].append("part1")), refuted),
        "nested property narrowed": (
            after(lambda fields: fields[9]["properties"].update(part2=part)),
            refuted,
        ),
        "items limited": (after(lambda fields: fields[6].update(maxItems=3)), refuted),
        "definition narrowed": (defined(old, "amount", {"maximum": 1000}), refuted),
        "definition of items narrowed": (defined(old, "code", {"maxLength": 9}), refuted),
        "model opened": ({**old, "additionalProperties": True}, proven),
        "ten fields narrowed": (after(several), refuted),
    }


def defined(old: Schema, name: str, more: Schema) -> Schema:
    """Return the schema with additional keywords in a definition."""
    return {**old, "$defs": {**old["$defs"], name: {**old["$defs"][name], **more}}}


def contract(identity: str, version: str, definition: Schema | tuple[Schema, Outcome]) -> DataContract:
    """Build the contract of `document`."""
    return DataContract.model_validate(document(identity, version, definition))


def document(identity: str, version: str, definition: Schema | tuple[Schema, Outcome]) -> dict[str, Any]:
    """Return a contract document with the schema, a column, two rules and a consumer."""
    if isinstance(definition, tuple):
        definition = definition[0]
    return {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": identity,
        "version": version,
        "status": "active",
        "topic": identity,
        "team": {"name": "Bench", "contact": "bench@example.org"},
        "schema": {"type": "json-schema", "formats": "assert", "definition": definition},
        "columns": [{"name": "field11", "from": "/field11", "type": "int"}],
        "rules": [
            {"id": "age-is-known", "kind": "forbidden", "field": "/field11", "values": [99]},
            {"id": "code-is-known", "kind": "one_of", "field": "/field12", "values": ["ward-1", "ward-2"]},
        ],
        "consumers": [{"id": "report", "team": "Reports", "reads": ["/field11", "/field12"]}],
    }


def checked_folder(contracts: int) -> float:
    """Run `tidegate check` on a folder in which every contract has changed; return the seconds of the process."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        for number in range(contracts):
            old = schema(20 + number % 20)
            changes = [each for key, each in changed(old, number % 2 * 10).items() if key not in _UNCHANGED]
            versions = {"old": ("1.0.0", old), "new": ("1.1.0", changes[number % len(changes)][0])}
            for side, (version, definition) in versions.items():
                write(folder / side / f"c{number}", f"c{number}", version, definition)
        command = [sys.executable, "-c", "from tidegate.gateway.cli.main import main; main()", "check", "new"]
        start = time.perf_counter()
        ran = subprocess.run(
            [*command, "--against", "old", "--format", "json"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
    assert ran.returncode == 1, ran.stderr
    report = json.loads(ran.stdout)
    assert report["summary"]["contracts"] == contracts
    assert all(each["findings"] for each in report["contracts"])
    return seconds


def write(folder: Path, identity: str, version: str, definition: Schema) -> None:
    """Write a contract and its schema as two JSON files."""
    folder.mkdir(parents=True)
    written = document(identity, version, definition)
    written["schema"] = {"type": "json-schema", "formats": "assert", "file": "schema.json"}
    (folder / "contract.json").write_text(json.dumps(written))
    (folder / "schema.json").write_text(json.dumps(definition, indent=2))


if __name__ == "__main__":
    main()
