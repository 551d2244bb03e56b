"""The index of the quarantine topics: what refused records have in common, without any of their values."""
