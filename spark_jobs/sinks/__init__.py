"""The sinks: where accepted records go, and how data and ledger move there in one commit."""
