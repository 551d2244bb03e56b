"""Write jars.lock again from ivy.xml: `python -m tests.rest_catalog.relock`."""

from __future__ import annotations

from gateway.embedded.jars import relock
from tests.rest_catalog.server import IVY_FILE, LOCK_FILE

if __name__ == "__main__":
    relock(None, LOCK_FILE, IVY_FILE)
