"""The job in a process of its own that kills itself after a given step: `crashing_job.py STEP TIMES CONTRACT_ID`.

With a path or pattern in HISTORY_FILES it judges these files instead of the topic. With SIGSTOP as a fourth argument it stops instead, and goes on as a zombie when somebody lets it. With a table's folder of
metadata in CRASH_ON_NEW_METADATA it waits, after the step, until a file is new there: it ends in the middle of the next.

Nothing is patched: the job tells its observer of each step that it has finished. Its settings come from the environment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from tidegate.contracts.errors import TidegateError
from tidegate.gateway.exits import exit_code
from tidegate.spark_jobs.enforce import enforce_contracts
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.steps import ReplayStep, Step


def main() -> None:
    step, times, contract_id, *how = sys.argv[1:]
    left = int(times)
    number = signal.Signals[how[0]] if how else signal.SIGKILL

    def kill_after(_stream: str, finished: Step | ReplayStep) -> None:
        nonlocal left
        left -= finished == step
        if left == 0 and finished == step:
            folder = os.environ.get("CRASH_ON_NEW_METADATA")
            if folder is None:
                os.kill(os.getpid(), number)
            else:
                threading.Thread(
                    target=kill_on_new_metadata, args=(Path(folder), number), daemon=True
                ).start()

    files = os.environ.get("HISTORY_FILES")
    history = None if files is None else HistoryRequest((files,))
    try:
        enforce_contracts(JobSettings(), (contract_id,), observer=kill_after, history=history)
    except TidegateError as error:
        traceback.print_exc()
        sys.exit(exit_code(error))  # as `tidegate enforce` ends


def kill_on_new_metadata(folder: Path, number: int) -> None:
    before = set(folder.glob("*.metadata.json"))
    while set(folder.glob("*.metadata.json")) <= before:
        pass
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main()
