"""The drafts of JSON Schema, and the formats that each asserts.

Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12. Where they leave a choice, this follows jsonschema-rs, which
validates the records: `dependencies` applies in every draft, and `content*` is asserted in drafts 6 and 7 only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final


class Dialect(IntEnum):
    """The drafts, oldest first."""

    DRAFT4 = 4
    DRAFT6 = 6
    DRAFT7 = 7
    DRAFT201909 = 2019
    DRAFT202012 = 2020

    @property
    def uri(self) -> str:
        """Return the `$schema` of the dialect."""
        return _URIS[self]


_URIS: Final = {
    Dialect.DRAFT4: "http://json-schema.org/draft-04/schema#",
    Dialect.DRAFT6: "http://json-schema.org/draft-06/schema#",
    Dialect.DRAFT7: "http://json-schema.org/draft-07/schema#",
    Dialect.DRAFT201909: "https://json-schema.org/draft/2019-09/schema",
    Dialect.DRAFT202012: "https://json-schema.org/draft/2020-12/schema",
}
_BY_URI: Final = {uri.rstrip("#"): dialect for dialect, uri in _URIS.items()}
METASCHEMAS: Final = frozenset(_BY_URI)
"""The URIs of the published meta-schemas, without an empty fragment."""

_FORMATS_4: Final = frozenset(
    {"date", "date-time", "email", "hostname", "ipv4", "ipv6", "regex", "time", "uri"}
) | {"idn-email"}
_FORMATS_6: Final = _FORMATS_4 | {"json-pointer", "uri-reference", "uri-template"}
_FORMATS_7: Final = _FORMATS_6 | {"idn-hostname", "iri", "iri-reference", "relative-json-pointer"}
_FORMATS_2019: Final = _FORMATS_7 | {"duration", "uuid"}
FORMATS: Final = {
    Dialect.DRAFT4: _FORMATS_4,
    Dialect.DRAFT6: _FORMATS_6,
    Dialect.DRAFT7: _FORMATS_7,
    Dialect.DRAFT201909: _FORMATS_2019,
    Dialect.DRAFT202012: _FORMATS_2019,
}
"""The formats that the judge asserts, by dialect; it ignores every other name."""

SAME_EVERYWHERE: Final = frozenset(
    {"date", "date-time", "email", "ipv4", "ipv6", "uri", "uri-reference", "uuid", "json-pointer"}
)
"""Formats that mean the same in every dialect that has them."""


def dialect_of(schema: Any) -> Dialect | None:
    """Return the dialect of a schema document: 2020-12 without `$schema`, None for an unknown `$schema`."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return Dialect.DRAFT202012
    return _BY_URI.get(uri.rstrip("#")) if isinstance(uri, str) else None
