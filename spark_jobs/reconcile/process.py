"""The process in which the job has a stream reconciled: `python -m tidegate.spark_jobs.reconcile.process STREAM`.

Of its own, so that neither its memory nor a crash touches the stream. Its settings are in its environment, where secrets
are in no list of processes. A line on its stdin is the plan of the stream, where the table asks for the keys of records; its
one line on stdout is a `ReconciliationResult` as JSON. It ends when the process that started it has ended.
"""

from __future__ import annotations

import os
import pickle
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from pydantic import ValidationError

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.crash import described
from tidegate.contracts.errors import TidegateError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.spark_jobs.reconcile.compare import reconcile_stream
from tidegate.spark_jobs.reconcile.report import as_findings
from tidegate.spark_jobs.settings import SinkSettings

_NAMED = 20
"""Records of each fault that are named."""
_LONGEST_FAILURE = 2000
_NICENESS = 10


def main() -> None:
    """Reconcile the stream that the command line names."""
    give_way()
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(1)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    sys.stdout.write(looked_at(sys.argv[1], read_plan(line)).model_dump_json() + "\n")


def plan_line(plan: EnforcementPlan | None) -> bytes:
    """Write the line of stdin that `read_plan` reads."""
    return (b"" if plan is None else b64encode(pickle.dumps(plan))) + b"\n"


def read_plan(line: bytes) -> EnforcementPlan | None:
    """Read what the job has written on stdin."""
    if not line.strip():
        return None
    found = pickle.loads(b64decode(line))  # noqa: S301 - from the process that has started this one
    assert isinstance(found, EnforcementPlan)  # noqa: S101 - narrows for the type checker
    return found


def looked_at(stream: str, plan: EnforcementPlan | None = None) -> ReconciliationResult:
    """Reconcile a stream with the settings of the environment; a failure is a result too."""
    try:
        findings = as_findings(reconcile_stream(SinkSettings(), stream, lambda: plan), _NAMED)
    except ValidationError:
        return _failed("the settings of the job cannot be read back; look at its environment")
    except TidegateError as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001 - whatever it was, who asked is to know
        sys.stderr.write(f"{described(error)}\n")
        return _failed(f"it gave up after {type(error).__name__}; the log of its job says more")
    return ReconciliationResult(at=datetime.now(UTC), findings=findings)


def give_way() -> None:
    """Let the stream go first: take what processor time is left, and be killed before it when memory is short."""
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError):  # there is no such file but on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def _failed(reason: str) -> ReconciliationResult:
    return ReconciliationResult(at=datetime.now(UTC), failure=masked(reason)[:_LONGEST_FAILURE])


def _end_with_parent() -> None:
    """Wait for the end of stdin, which the parent holds open: when it is killed, no one wants the result any more."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
