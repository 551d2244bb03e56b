"""A contract with one record that crashes each worker that judges it."""

from __future__ import annotations

import os
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.judge.plan import EnforcementPlan

# The workers know nothing of this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

POISON = "poison"


class PoisonedPlan:
    """A plan that a value with POISON in it ends: with an exception, or with the worker."""

    def __init__(self, plan: EnforcementPlan, how: str) -> None:
        self._plan = plan
        self._how = how

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for while it is unpickled
            raise AttributeError(name)
        return getattr(self._plan, name)

    def with_now(self, now: int) -> PoisonedPlan:
        return PoisonedPlan(self._plan.with_now(now), self._how)

    def for_table(self, limits: TableLimits) -> PoisonedPlan:
        return PoisonedPlan(self._plan.for_table(limits), self._how)

    def judge(self, values: pa.Array, *beside: Any) -> pa.StructArray:
        self._look(values)
        return self._plan.judge(values, *beside)

    def judge_typed(self, values: pa.Array, *beside: Any) -> pa.StructArray:
        self._look(values)
        return self._plan.judge_typed(values, *beside)

    def _look(self, values: pa.Array) -> None:
        if not pc.any(pc.match_substring(values, POISON)).as_py():
            return
        match self._how:
            case "dies":
                os._exit(9)
            case "store":
                raise ConnectionResetError(104, "Connection reset by peer")
            case _:
                raise ValueError("a mistake that one record shows")
