"""Faults at random, for as long as asked."""
