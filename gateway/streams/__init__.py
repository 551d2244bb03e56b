"""What streams report and are told: batches, controls, shadows, reconciliations, quarantined records. No HTTP."""
