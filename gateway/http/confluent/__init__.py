"""The API of the Confluent Schema Registry: its paths, terms and error codes, over the store of the native API."""
