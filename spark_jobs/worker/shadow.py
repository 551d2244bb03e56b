"""The shadow: another version of a contract that judges batches too. Only differing verdicts are reported."""

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
    """A version that judges in addition to the enforced one. Without a plan, only its `failure` is reported.

    The plan is passed to the workers pickled, so that an error in unpickling it can be caught and does not fail the
    task.
    """

    version: str
    pickled: bytes | None = None
    failure: str | None = None

    @classmethod
    def of(cls, plan: EnforcementPlan) -> Shadow:
        """Return the shadow of a compiled version."""
        return cls(plan.contract.version, pickle.dumps(plan))

    def for_table(self, limits: Callable[[EnforcementPlan], TableLimits]) -> Shadow:
        """Return this version with the limits of a table added, which `limits` returns. Never raises."""
        if self.pickled is None:
            return self
        try:
            plan = self.plan()
            return Shadow.of(plan.for_table(limits(plan)))
        except Exception as error:  # noqa: BLE001 - no error of the shadow may affect the enforced version
            return Shadow(self.version, failure=could_not_judge(type(error).__name__))

    def plan(self) -> EnforcementPlan:
        """Return the compiled version. Unpickling compiles it only once in a process."""
        assert self.pickled is not None  # noqa: S101 - callers check it
        plan: EnforcementPlan = pickle.loads(self.pickled)  # noqa: S301 - from our own driver, like Spark's own pickles
        return plan


def merged(shadow: Shadow | None, results: Iterable[bytes]) -> ShadowResult | None:
    """Combine the results of the tasks of a batch, each as JSON; None without a shadow."""
    if shadow is None:
        return None
    found = (ShadowResult.model_validate_json(each) for each in results)
    return reduce(ShadowResult.merged, found, ShadowResult(version=shadow.version, failure=shadow.failure))


def could_not_judge(error: str) -> str:
    """Return the reported failure for an error, named by its class only: its message may hold a value."""
    return f"the shadow version could not judge some records: {error}"
