"""Records of files, topics and tables as batches of Arrow. Start with `source.py`."""
