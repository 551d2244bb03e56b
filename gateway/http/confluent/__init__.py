"""The API of the Confluent Schema Registry: its paths, terms and errors, over the store of the native API."""
