"""The face that Confluent Schema Registry has: its paths, its words and its errors, over the store of the native face."""
