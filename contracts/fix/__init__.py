"""Fixes: declared patches of refused records, in a document of their own. Nothing in a fix is executed."""
