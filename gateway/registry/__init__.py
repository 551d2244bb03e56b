"""The registry: subjects, schemas, contracts, consumers, review and settings. No HTTP."""
