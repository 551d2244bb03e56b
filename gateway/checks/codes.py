"""The codes of findings, with their meaning. Codes are stable."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.compatibility import consumers, declarations, expectations, rules, schemas
from tidegate.contracts.inclusion.avro import CODES as AVRO_CODES
from tidegate.contracts.inclusion.json_schema.codes import CODES as JSON_SCHEMA_CODES

OWN_CODES: Final = {
    "contract.invalid": "the document does not compile",
    "contract.unknown-name": "a field, keyword or format that may be misspelt",
    "contract.rule-not-judged": "a rule for clients, in the schema or in the registry, that nothing judges",
    "contract.deleted": "a contract is gone",
    "contract.moved": "a contract is now in a file that was not checked",
    "contract.new": "there is no earlier version",
    "contract.not-enforced": "no earlier version is active or deprecated",
    "base.invalid": "the earlier version cannot be read, so nothing was compared",
    "version.too-low": "the version does not say that, or how much, the document has changed",
    "version.taken": "another document is published under this version",
    "version.doubled": "two of the checked documents claim the same version",
}
"""The codes of the check itself."""

MEANINGS: Final = {
    **OWN_CODES,
    **schemas.CODES,
    **JSON_SCHEMA_CODES,
    **AVRO_CODES,
    **rules.CODES,
    **expectations.CODES,
    **declarations.CODES,
    **consumers.CODES,
}
"""All codes of findings."""
