"""The pure core: contract documents, the one judge, ledger values. No I/O, no Spark, no web."""
