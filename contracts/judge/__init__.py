"""The one judge: a contract version, compiled, and the verdicts of records."""
