"""The demo: two streams, enforced on this machine, with all counts checked against a second source."""
