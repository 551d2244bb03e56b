"""The demo: two real streams, enforced on this machine, and every figure checked against a second source."""
