"""Benchmarks: one module a question. Correctness is asserted before anything is timed; read the ratios."""
