"""Compile the expectations of a contract: metrics for the workers, and expectations left to Great Expectations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.contracts.document.model import Expectation
from tidegate.contracts.errors import Problem
from tidegate.contracts.expectations.checks import Arguments, Check, CheckedExpectation, check_of, fixed
from tidegate.contracts.expectations.metrics import Metric, RowCount
from tidegate.contracts.expectations.vocabulary import REFUSED, VOCABULARY, ArgumentReader, ArgumentShape
from tidegate.contracts.suggestions import did_you_mean

Partials = tuple[Any, ...]
"""The values of `ExpectationPlan.metrics` for some rows, in the same order."""

_PATTERNS = frozenset({"regex", "regex_list"})


@dataclass(frozen=True, slots=True)
class CompiledExpectation:
    """One expectation. `check` is None if only Great Expectations can judge it.

    `columns` are the columns that it is about, () for one about the table.
    """

    expectation: Expectation
    arguments: Arguments
    columns: tuple[str, ...]
    check: Check | None
    is_cross_checked: bool
    """Whether Great Expectations may judge it too, every so many batches, to compare the results.

    False for patterns: the regular expression engines of Great Expectations can backtrack without end.
    """


class ExpectationPlan:
    """The expectations of one contract version, over its typed columns."""

    def __init__(self, compiled: Sequence[CompiledExpectation], columns: pa.Schema) -> None:
        self.compiled = tuple(compiled)
        self.columns = columns
        wanted = (metric for each in self.compiled if each.check for metric in each.check.metrics)
        self.metrics: tuple[Metric, ...] = (
            tuple(dict.fromkeys([RowCount(), *wanted])) if self.compiled else ()
        )
        """The metrics to compute, each once; the number of rows first. Empty without expectations."""
        self.needed: tuple[str, ...] = tuple(
            dict.fromkeys(name for metric in self.metrics for name in metric.columns)
        )
        """Names of the columns that the metrics read."""

    def __bool__(self) -> bool:
        return bool(self.compiled)

    def observe_written(self, columns: pa.StructArray, is_written: pa.Array | None) -> Partials:
        """Return the metrics of the written rows of typed columns, as `EnforcementPlan.judge_typed` returns them.

        `is_written` is an array of booleans of the same length, None if all rows are written.
        """
        return self.observe(typed_rows(columns, self.columns, self.needed, is_written))

    def observe(self, rows: pa.RecordBatch) -> Partials:
        """Return the metrics of these rows of typed columns."""
        return tuple(metric.observe(rows) for metric in self.metrics)

    def merge(self, parts: Iterable[Partials]) -> Partials:
        """Return the metrics of a whole batch from those of its parts; those of no rows without parts."""
        nothing = self.observe(pa.RecordBatch.from_pylist([], self.columns))
        return reduce(self._merged, parts, nothing)

    def find(self, partials: Partials) -> tuple[CheckedExpectation | None, ...]:
        """Return the result of each expectation, in contract order; None if only Great Expectations can judge it."""
        noted = dict(zip(self.metrics, partials, strict=True))
        return tuple(
            each.check.find(*(noted[metric] for metric in each.check.metrics)) if each.check else None
            for each in self.compiled
        )

    def rows(self, partials: Partials) -> int:
        """Return the number of rows that were observed."""
        return int(partials[0])

    def _merged(self, left: Partials, right: Partials) -> Partials:
        return tuple(
            metric.merge(one, other) for metric, one, other in zip(self.metrics, left, right, strict=True)
        )


def typed_rows(
    columns: pa.StructArray, schema: pa.Schema, names: Sequence[str], is_written: pa.Array | None
) -> pa.RecordBatch:
    """Return the written rows with the columns `names`.

    A further, unnamed column keeps the number of rows if there are no names.
    """
    # Rows that are not written are null in the struct, and are omitted here.
    arrays = [columns.field(schema.get_field_index(name)) for name in names]
    counted = pa.array(np.empty(len(columns), np.int8))
    fields = [*(schema.field(name) for name in names), pa.field("", pa.int8())]
    rows = pa.RecordBatch.from_arrays([*arrays, counted], schema=pa.schema(fields))
    return rows if is_written is None else rows.filter(is_written)


def compile_expectations(
    expectations: Iterable[Expectation], columns: pa.Schema
) -> tuple[ExpectationPlan, tuple[Problem, ...]]:
    """Compile expectations over typed columns; also return their problems, with pointers into the contract."""
    compiled: list[CompiledExpectation] = []
    problems: list[Problem] = []
    # `Schema.names` builds a new list at each access, and a contract may have thousands of columns.
    names = dict.fromkeys(columns.names)
    for index, expectation in enumerate(expectations):
        pointer = f"/expectations/{index}"
        shape = VOCABULARY.get(expectation.type)
        if shape is None:
            problems.append(Problem(f"{pointer}/type", _unknown(expectation.type)))
            continue
        reader = ArgumentReader(pointer, expectation.type, shape, expectation.kwargs, columns, names)
        arguments = reader.read()
        problems += reader.problems
        if arguments is not None:
            compiled.append(_compiled(expectation, shape, arguments, columns))
    return ExpectationPlan(compiled, columns), tuple(problems)


def _unknown(name: str) -> str:
    if name in REFUSED:
        return f"{name} is not for batches: {REFUSED[name]}"
    return f"there is no expectation `{name}`{did_you_mean(name, VOCABULARY)}"


def _compiled(
    expectation: Expectation, shape: ArgumentShape, arguments: Arguments, columns: pa.Schema
) -> CompiledExpectation:
    check = _check(expectation, shape, arguments, columns)
    about = () if expectation.type.startswith("expect_table") else arguments.names
    is_cross_checked = _PATTERNS.isdisjoint(shape.arguments)
    return CompiledExpectation(
        expectation,
        arguments,
        tuple(name for name in about if name in columns.names),
        check,
        is_cross_checked,
    )


def _check(
    expectation: Expectation, shape: ArgumentShape, arguments: Arguments, columns: pa.Schema
) -> Check | None:
    names = columns.names
    match expectation.type:
        case "expect_table_column_count_to_be_between" | "expect_table_column_count_to_equal":
            return fixed(arguments.interval.holds(len(names)))
        case "expect_table_columns_to_match_ordered_list":
            return fixed(list(arguments.names) == names)
        case "expect_table_columns_to_match_set":
            wanted, found = set(arguments.names), set(names)
            return fixed(wanted == found if arguments.exact_match else wanted <= found)
        case "expect_column_to_exist":
            is_there = arguments.column in names
            return fixed(is_there and arguments.index in {None, names.index(arguments.column)})
        case _ if not shape.is_exact or (arguments.second and not _go_together(arguments, columns)):
            return None
        case name:
            return check_of(name, arguments)


def _go_together(arguments: Arguments, columns: pa.Schema) -> bool:
    """Return whether two columns can be compared without rounding and without NaN."""
    kinds = [columns.field(name).type for name in (arguments.column, arguments.second)]
    if any(pa.types.is_floating(kind) for kind in kinds):
        return False
    return kinds[0] == kinds[1] or all(pa.types.is_integer(kind) for kind in kinds)
