"""The HTTP servers: native API, Confluent API and desk. Each handler parses, calls one function and renders."""
