"""Histories: records of files and tables, copied once, and read from the copy like a topic. Start with `load.py`."""
