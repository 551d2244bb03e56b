"""Expectations: what the accepted records of a batch must look like together, in Great Expectations' vocabulary."""
