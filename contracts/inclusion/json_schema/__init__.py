"""Compatibility of JSON Schemas: whether every document of the old one is a document of the new one."""

from tidegate.contracts.inclusion.json_schema.prove import DirectedPair, Pair, includes

__all__ = ["DirectedPair", "Pair", "includes"]
