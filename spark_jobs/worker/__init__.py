"""Code that runs in Python workers: judging, masking and writing the parts of a batch."""
