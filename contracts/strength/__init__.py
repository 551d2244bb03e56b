"""How many corrupted records a contract would miss, and the rules that would catch them. Start with `measure.py`."""
