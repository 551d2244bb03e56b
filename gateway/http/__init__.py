"""The HTTP interfaces: native API, Confluent API and desk. A handler parses, calls one service and renders."""
