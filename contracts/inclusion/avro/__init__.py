"""Compatibility of Avro schemas: schema resolution, and what the specification leaves out of it."""

from contracts.inclusion.avro.claims import CODES
from contracts.inclusion.avro.resolution import Resolution, includes, resolve

__all__ = ["CODES", "Resolution", "includes", "resolve"]
