"""Compatibility of Avro schemas: schema resolution, and the cases that the specification leaves open."""

from tidegate.contracts.inclusion.avro.claims import CODES
from tidegate.contracts.inclusion.avro.resolution import Resolution, includes, resolve

__all__ = ["CODES", "Resolution", "includes", "resolve"]
