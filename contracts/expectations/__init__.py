"""Expectations: checks of the accepted records of a batch as a whole, in the vocabulary of Great Expectations."""
