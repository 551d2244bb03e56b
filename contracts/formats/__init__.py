"""Payload formats: JSON with JSON Schema, and Avro."""
