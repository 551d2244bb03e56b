"""The job in a process of its own that kills itself (SIGKILL) after a given step: `crashing_job.py STEP TIMES CONTRACT_ID`.

Nothing is patched: the job tells its observer of each step that it has finished. Its settings come from the environment.
"""

from __future__ import annotations

import os
import signal
import sys

from spark_jobs.enforce import enforce_contracts
from spark_jobs.settings import JobSettings
from spark_jobs.steps import Step


def main() -> None:
    step, times, contract_id = sys.argv[1:]
    left = int(times)

    def kill_after(_stream: str, finished: Step) -> None:
        nonlocal left
        left -= finished == step
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    enforce_contracts(JobSettings(), (contract_id,), observer=kill_after)


if __name__ == "__main__":
    main()
