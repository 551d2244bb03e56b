"""Inclusion of schemas, with counterexamples. Knows JSON Schema and Avro, and no contract."""
