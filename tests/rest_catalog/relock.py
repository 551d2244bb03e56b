"""Write jars.lock again from ivy.xml: `python -m tests.rest_catalog.relock`."""

from __future__ import annotations

from tests.rest_catalog.server import IVY_FILE, LOCK_FILE
from tidegate.gateway.embedded.jars import relock

if __name__ == "__main__":
    relock(None, LOCK_FILE, IVY_FILE)
