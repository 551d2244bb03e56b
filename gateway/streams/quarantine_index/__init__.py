"""The index of the quarantine topics: which refused records have what in common, without any of their values."""
