"""The process of a reconciliation: `python -m tidegate.spark_jobs.reconcile.process STREAM`.

It is a separate process, so that neither its memory nor a crash affects the stream. Its settings are in its
environment, because arguments are visible to all users. The parent writes one line to its stdin: the plan of the
stream, or an empty line if the table needs no record keys. It writes one line to stdout: a `ReconciliationResult` as
JSON. It ends when its parent process has ended.
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

_MOST_LISTED = 20
"""Maximum number of records that are listed for each kind of fault."""
_MOST_FAILURE_CHARACTERS = 2000
_NICENESS = 10


def main() -> None:
    """Reconcile the stream that the command line names."""
    lower_priority()
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(1)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    sys.stdout.write(reconcile_to_result(sys.argv[1], read_plan(line)).model_dump_json() + "\n")


def plan_line(plan: EnforcementPlan | None) -> bytes:
    """Return the line for stdin that `read_plan` parses: a pickle in base64, or empty for None."""
    return (b"" if plan is None else b64encode(pickle.dumps(plan))) + b"\n"


def read_plan(line: bytes) -> EnforcementPlan | None:
    """Return the plan in a line of `plan_line`; None for an empty line."""
    if not line.strip():
        return None
    found = pickle.loads(b64decode(line))  # noqa: S301 - from the process that has started this one
    assert isinstance(found, EnforcementPlan)  # noqa: S101 - narrows for the type checker
    return found


def reconcile_to_result(stream: str, plan: EnforcementPlan | None = None) -> ReconciliationResult:
    """Reconcile a stream with the settings of the environment. Never raises: a failure is a result too."""
    try:
        findings = as_findings(reconcile_stream(SinkSettings(), stream, lambda: plan), _MOST_LISTED)
    except ValidationError:
        return _failed("the settings of the job cannot be read back; look at its environment")
    except TidegateError as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001 - every error is reported to the requester
        sys.stderr.write(f"{described(error)}\n")
        return _failed(f"it gave up after {type(error).__name__}; the log of its job says more")
    return ReconciliationResult(at=datetime.now(UTC), findings=findings)


def lower_priority() -> None:
    """Lower the CPU priority of this process, and let the kernel kill it first if memory is short."""
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError):  # the file exists on Linux only
        Path("/proc/self/oom_score_adj").write_text("1000")


def _failed(reason: str) -> ReconciliationResult:
    return ReconciliationResult(at=datetime.now(UTC), failure=masked(reason)[:_MOST_FAILURE_CHARACTERS])


def _end_with_parent() -> None:
    """Exit at the end of stdin, which the parent keeps open: without the parent, the result is not needed."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
