"""Compatibility of JSON Schemas: whether one schema accepts every document that another accepts."""

from tidegate.contracts.inclusion.json_schema.prove import DirectedPair, SchemaPair, includes

__all__ = ["DirectedPair", "SchemaPair", "includes"]
