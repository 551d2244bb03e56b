"""The fingerprint of a contract: equal for two documents if and only if they mean the same."""

from __future__ import annotations

import hashlib
import json

from tidegate.contracts.document.model import DataContract


def canonical_bytes(contract: DataContract) -> bytes:
    """Return the canonical encoding of a contract: equal contracts have equal bytes.

    It is JSON in UTF-8 without whitespace and default values, with keys sorted by code point. Comments, key order, the
    choice of YAML or JSON, and whether the schema is in its own file make no difference.
    """
    document = contract.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def fingerprint(contract: DataContract) -> str:
    """Return the SHA-256 of the canonical bytes, as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(canonical_bytes(contract)).hexdigest()
