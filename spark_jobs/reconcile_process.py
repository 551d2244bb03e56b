"""The process in which the job has a stream reconciled: `python -m spark_jobs.reconcile_process STREAM`.

Of its own, so that neither its memory nor a crash touches the stream. Its settings are in its environment, where secrets
are in no list of processes; its one line on stdout is a `ReconciliationResult` as JSON. It ends with whoever started it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from pydantic import ValidationError

from contracts.crash import described
from contracts.errors import TidegateError
from contracts.reconciliation import ReconciliationResult
from spark_jobs.reconcile import reconcile_stream
from spark_jobs.reconcile_report import as_findings
from spark_jobs.settings import SinkSettings

_NAMED = 20
"""Records of each fault that are named."""
_LONGEST_FAILURE = 2000
_NICENESS = 10


def main() -> None:
    """Reconcile the stream that the command line names."""
    give_way()
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    sys.stdout.write(looked_at(sys.argv[1]).model_dump_json() + "\n")


def looked_at(stream: str) -> ReconciliationResult:
    """Reconcile a stream with the settings of the environment; a failure is a result too."""
    try:
        findings = as_findings(reconcile_stream(SinkSettings(), stream), _NAMED)
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
    return ReconciliationResult(at=datetime.now(UTC), failure=reason[:_LONGEST_FAILURE])


def _end_with_parent() -> None:
    """Wait for the end of stdin, which the parent holds open: when it is killed, nobody wants the result any more."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
