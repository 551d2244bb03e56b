"""The fingerprint of a contract: equal if and only if two documents mean the same."""

from __future__ import annotations

import hashlib
import json

from tidegate.contracts.document.model import DataContract


def canonical_bytes(contract: DataContract) -> bytes:
    """Encode a contract so that equal contracts give equal bytes.

    The result is JSON in UTF-8 without spaces, with keys sorted by code point and without default values. Comments,
    key order, YAML or JSON, and a schema inside or beside the contract make no difference.
    """
    document = contract.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def fingerprint(contract: DataContract) -> str:
    """Return the SHA-256 of the canonical bytes, as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(canonical_bytes(contract)).hexdigest()
