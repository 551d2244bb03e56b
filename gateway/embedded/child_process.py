"""Run another program that does not outlive its parent. Run as a script: `child_process.py PARENT_PID COMMAND...`.

Linux sends SIGTERM to this process when the thread that started it ends. On other systems, the next start of
the embedded run ends the processes that a killed run left.

Source: prctl(2), PR_SET_PDEATHSIG: kept across execve, bound to the parent's thread.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Bind this process to the parent, then replace it by the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        # The parent died before this process was set up.
        sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted: the command is our own argument list


if __name__ == "__main__":
    main()
