"""Topics that the job reads and writes: sources, outputs, the ledger topic."""
