"""Whether one schema includes another, with a witness. Knows JSON Schema and Avro, and no contract."""
