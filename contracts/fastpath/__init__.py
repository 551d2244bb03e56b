"""Generated code and shortcuts that make the judge faster, with the same verdicts as the strict path.

Property tests compare the two. Mostly the fast path recognises that a record is good, and leaves all other records to
strict decoding and to the rules themselves. TIDEGATE_FASTPATH=off compiles plans without it.
"""
