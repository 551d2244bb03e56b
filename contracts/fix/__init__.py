"""Fixes: declarative patches of refused records, each in its own document. A fix contains no code."""
