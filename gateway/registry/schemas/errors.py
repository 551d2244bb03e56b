"""Refusals with the error codes and messages that clients of a schema registry know.

Source: Confluent Schema Registry, `Errors.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.errors import TidegateError

LEVELS = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
_FOR_GOOD = "Set permanent=true to delete permanently"  # Confluent's message has no space before it
MODES = "READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT"


class Refused(TidegateError):  # noqa: N818 - a refusal, with its number
    """A request that is answered with `status` and a body of `error_code` and `message`."""

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(status, error_code, message)
        self.status = status
        self.error_code = error_code
        self.message = message

    def __str__(self) -> str:
        return self.message


class IncompatibleSchema(Refused):
    """A schema that its subject's compatibility level refuses; the HTTP API sets its error code from a setting."""

    def __init__(self, subject: str, details: tuple[str, ...]) -> None:
        message = (
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: [{', '.join(details)}]"
        )
        super().__init__(409, 409, message)


class WeakerContract(IncompatibleSchema):
    """An unapproved change that weakens the contract behind a subject; it has the code of IncompatibleSchema.

    Clients do not repeat a request that is refused with this status and code.
    """

    def __init__(self, contract_id: str, details: tuple[str, ...]) -> None:
        message = f'The contract "{contract_id}" that is enforced would be weakened, details: [{", ".join(details)}]'
        Refused.__init__(self, 409, 409, message)


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """A factory of refusals of one kind: status, error code, and a message whose `{}` are filled in order."""

    status: int
    error_code: int
    message: str

    def __call__(self, *values: object) -> Refused:
        """Return the refusal with these values in its message."""
        return Refused(self.status, self.error_code, self.message.format(*values))


subject_not_found = RefusalKind(404, 40401, "Subject '{}' not found.")
version_not_found = RefusalKind(404, 40402, "Version {} not found.")
subject_soft_deleted = RefusalKind(404, 40404, f"Subject '{{}}' was soft deleted.{_FOR_GOOD}")
subject_not_soft_deleted = RefusalKind(
    404, 40405, "Subject '{}' was not deleted first before being permanently deleted"
)
version_soft_deleted = RefusalKind(404, 40406, f"Subject '{{}}' Version {{}} was soft deleted.{_FOR_GOOD}")
version_not_soft_deleted = RefusalKind(
    404, 40407, "Subject '{}' Version {} was not deleted first before being permanently deleted"
)
no_subject_level = RefusalKind(
    404, 40408, "Subject '{}' does not have subject-level compatibility configured"
)
no_subject_mode = RefusalKind(404, 40409, "Subject '{}' does not have subject-level mode configured")
no_association = RefusalKind(404, 40410, "Association for '{}' not found.")
resource_associated = RefusalKind(409, 40903, "An association of type '{}' already exists for resource '{}'")
subject_associated = RefusalKind(409, 40904, "An association already exists for subject '{}'")
subject_owned = RefusalKind(409, 40905, "A strong association already exists for subject '{}'")
no_active_version = RefusalKind(409, 40907, "No active (non-deleted) version exists for subject '{}'")
frozen = RefusalKind(409, 40908, "The association of type  '{}' is frozen for subject '{}'")
invalid_schema = RefusalKind(422, 42201, "Invalid schema: {}")
no_such_reference = RefusalKind(
    422,
    42201,
    "Invalid schema: the reference '{0}' leads to version {2} of the subject '{1}', which does not exist; register it first",
)
invalid_version = RefusalKind(
    422,
    42202,
    "The specified version '{}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string "
    '"latest"',
)
invalid_level = RefusalKind(422, 42203, f"Invalid compatibility level. Valid values are {LEVELS}")
invalid_mode = RefusalKind(422, 42204, f"Invalid mode. Valid values are {MODES}.")
not_permitted = RefusalKind(422, 42205, "{}")
read_only = RefusalKind(422, 42205, "Subject {} is in read-only mode")
no_import = RefusalKind(422, 42205, "Subject {} is not in import mode")
not_read_write = RefusalKind(422, 42205, "Subject {} is not in read-write mode")
id_taken = RefusalKind(422, 42205, "Overwrite new schema with id {} is not permitted.")
id_mismatch = RefusalKind(422, 42207, "Schema already registered with id {} instead of input id {}")
invalid_subject = RefusalKind(422, 42208, "The specified subject '{}' is not a valid. Reason: {}")
too_large = RefusalKind(422, 42209, "{}")
invalid_rule_set = RefusalKind(422, 42210, "Invalid rule set: {}")
context_not_empty = RefusalKind(422, 42211, "The specified context '{}' is not empty.")
invalid_association = RefusalKind(
    422, 42212, "The association specified an invalid value for property: '{}', reason: {}"
)


def schema_not_found(what: int | str = "") -> Refused:
    """Return the refusal for an unknown id or GUID, or for a schema that a subject does not have."""
    return Refused(404, 40403, f"Schema {what} not found" if what else "Schema not found")


def referenced(subject: str, version: int, by: str) -> Refused:
    """Return the refusal to delete a version; `by` says which schemas refer to it."""
    return Refused(
        422,
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}. "
        f"They are those of {by}",
    )
