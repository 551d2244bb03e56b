"""Benchmarks: one module for each question. They check correctness, and report figures with a baseline and a ratio."""
