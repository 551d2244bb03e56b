"""Another version of a contract, which judges batches too; only its differences are reported."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.shadow import ShadowResult


@dataclass(frozen=True, slots=True)
class Shadow:
    """A version that judges in addition to the enforced one. Without a plan only its `failure` is reported.

    The plan is passed to the workers as bytes, so that a plan that cannot be unpickled fails here and not in the
    task.
    """

    version: str
    pickled: bytes | None = None
    failure: str | None = None

    @classmethod
    def of(cls, plan: EnforcementPlan) -> Shadow:
        """Return a compiled version for the workers."""
        return cls(plan.contract.version, pickle.dumps(plan))

    def for_table(self, limits: Callable[[EnforcementPlan], TableLimits]) -> Shadow:
        """Return this version for a table with more limits on its rows, as `limits` returns them. Never raises."""
        if self.pickled is None:
            return self
        try:
            plan = self.plan()
            return Shadow.of(plan.for_table(limits(plan)))
        except Exception as error:  # noqa: BLE001 - whatever the shadow does must not hurt the enforced version
            return Shadow(self.version, failure=could_not_judge(type(error).__name__))

    def plan(self) -> EnforcementPlan:
        """Return the compiled version; it is compiled once in a process."""
        assert self.pickled is not None  # noqa: S101 - asked only where there is one
        plan: EnforcementPlan = pickle.loads(self.pickled)  # noqa: S301 - our own driver's, and come as Spark's pickles do
        return plan


def merged(shadow: Shadow | None, results: Iterable[bytes]) -> ShadowResult | None:
    """Combine the results of the tasks of a batch, each as JSON; None without a shadow."""
    if shadow is None:
        return None
    found = (ShadowResult.model_validate_json(each) for each in results)
    return reduce(ShadowResult.merged, found, ShadowResult(version=shadow.version, failure=shadow.failure))


def could_not_judge(error: str) -> str:
    """Return the reported failure for an error of a worker."""
    return f"records were left out, for a worker could not judge them by it: {error}"
