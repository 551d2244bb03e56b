"""Streams: batch reports, controls, shadows, reconciliations, quarantined records. No HTTP."""
