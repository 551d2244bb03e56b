"""Generated code and shortcuts of the judge, which only make it faster.

What this package says of a record, the strict path says too; property tests hold it to that. Mostly it says that a
record is good, and leaves any other record to strict decoding and to the rules themselves. TIDEGATE_FASTPATH=off
compiles plans without it.
"""
