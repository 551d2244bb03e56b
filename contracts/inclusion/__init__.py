"""Inclusion checks between schemas, with counterexamples: JSON Schema and Avro, independent of contracts."""
