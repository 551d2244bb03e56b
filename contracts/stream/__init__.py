"""Values that the job and the gateway exchange: ledger, positions, evidence, reports, controls. Pure; no I/O."""
