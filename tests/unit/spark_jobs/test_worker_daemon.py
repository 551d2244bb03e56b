"""The parent of Spark's Python workers: what it writes into the log of the job."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys

import psutil

SECRET = b"a-secret"


def framed(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def test_a_task_whose_jvm_has_gone_leaves_no_traceback_in_the_log() -> None:
    """Spark closes the connection of a task that it cancels, as in every stop of a stream between two batches."""
    command = [sys.executable, "-m", "tidegate.spark_jobs.worker.daemon", "pyspark.worker"]
    environment = {
        **os.environ,
        "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
    }
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as daemon:
        assert daemon.stdout is not None
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as task:
            (worker,) = struct.unpack("!i", task.recv(4, socket.MSG_WAITALL))
            task.sendall(framed(SECRET))
            assert task.recv(6, socket.MSG_WAITALL) == framed(b"ok")
            task.sendall(struct.pack("!i", 0) + framed(b"no version of Python"))
            # Unread answers are dropped with the connection: the worker's next write fails.
            task.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        psutil.wait_procs([psutil.Process(worker)] if psutil.pid_exists(worker) else [], timeout=60)
        _, log = daemon.communicate(timeout=60)  # the end of its input ends it
    assert worker > 0
    assert log == b""
