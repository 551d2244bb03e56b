"""The sinks: where accepted records are written, and how data and ledger are committed together."""
