"""Refusals in the words and numbers that clients of a schema registry know.

Source: Confluent Schema Registry, `Errors.java`.
"""

from __future__ import annotations

from tidegate.contracts.errors import TidegateError

LEVELS = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
_FOR_GOOD = "Set permanent=true to delete permanently"  # clients know the message without a space before it
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
    """A schema that its subject's compatibility level does not let in; its code is a setting."""

    def __init__(self, subject: str, details: tuple[str, ...]) -> None:
        message = (
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: [{', '.join(details)}]"
        )
        super().__init__(409, 409, message)


class WeakerContract(IncompatibleSchema):
    """A change that weakens the contract behind a subject and lacks an approval; its code is that of IncompatibleSchema.

    Clients know the status and the code as those of a request that does not get better by asking again.
    """

    def __init__(self, contract_id: str, details: tuple[str, ...]) -> None:
        message = f'The contract "{contract_id}" that is enforced would be weakened, details: [{", ".join(details)}]'
        Refused.__init__(self, 409, 409, message)


def subject_not_found(subject: str) -> Refused:
    """Say that nothing is registered under a name."""
    return Refused(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> Refused:
    """Say that a subject has no such version."""
    return Refused(404, 40402, f"Version {version} not found.")


def schema_not_found(what: int | str = "") -> Refused:
    """Say that no schema has this id or GUID, or that a subject has no such schema."""
    return Refused(404, 40403, f"Schema {what} not found" if what else "Schema not found")


def subject_soft_deleted(subject: str) -> Refused:
    """Say that a subject is soft-deleted already."""
    return Refused(404, 40404, f"Subject '{subject}' was soft deleted.{_FOR_GOOD}")


def subject_not_soft_deleted(subject: str) -> Refused:
    """Say that a subject has to be soft-deleted first."""
    return Refused(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Refused:
    """Say that a version is soft-deleted already."""
    return Refused(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.{_FOR_GOOD}",
    )


def version_not_soft_deleted(subject: str, version: int) -> Refused:
    """Say that a version has to be soft-deleted first."""
    return Refused(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def no_subject_level(subject: str) -> Refused:
    """Say that a scope has no settings of its own."""
    return Refused(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> Refused:
    """Say that a scope has no mode of its own."""
    return Refused(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def resource_associated(association_type: str, resource: str) -> Refused:
    """Say that a resource has an association of a type already."""
    return Refused(
        409, 40903, f"An association of type '{association_type}' already exists for resource '{resource}'"
    )


def subject_associated(subject: str) -> Refused:
    """Say that a subject that a resource wants for itself is used by another one."""
    return Refused(409, 40904, f"An association already exists for subject '{subject}'")


def subject_owned(subject: str) -> Refused:
    """Say that a subject belongs to another resource."""
    return Refused(409, 40905, f"A strong association already exists for subject '{subject}'")


def no_active_version(subject: str) -> Refused:
    """Say that a subject has nothing that a resource could use."""
    return Refused(409, 40907, f"No active (non-deleted) version exists for subject '{subject}'")


def frozen(association_type: str, subject: str) -> Refused:
    """Say that an association is not to be changed."""
    return Refused(
        409, 40908, f"The association of type  '{association_type}' is frozen for subject '{subject}'"
    )


def no_association(resource: str) -> Refused:
    """Say that a resource has no association."""
    return Refused(404, 40410, f"Association for '{resource}' not found.")


def invalid_schema(reason: str) -> Refused:
    """Return what is wrong with a schema."""
    return Refused(422, 42201, f"Invalid schema: {reason}")


def no_such_reference(name: str, subject: str, version: int) -> Refused:
    """Say that a reference leads nowhere."""
    return invalid_schema(
        f"the reference '{name}' leads to version {version} of the subject '{subject}', which does not exist; "
        "register it first"
    )


def invalid_version(version: str) -> Refused:
    """Say that a text is no version."""
    return Refused(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] "
        'and the string "latest"',
    )


def invalid_level() -> Refused:
    """Say that a text is no compatibility level."""
    return Refused(422, 42203, f"Invalid compatibility level. Valid values are {LEVELS}")


def invalid_mode() -> Refused:
    """Say that a text is no mode."""
    return Refused(422, 42204, f"Invalid mode. Valid values are {MODES}.")


def not_permitted(message: str) -> Refused:
    """Return what the mode of a subject does not permit."""
    return Refused(422, 42205, message)


def referenced(subject: str, version: int, by: tuple[int, ...]) -> Refused:
    """Say that a version is referred to, and by which schemas."""
    ids = ", ".join(str(one) for one in by)
    return Refused(
        422,
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}. "
        f"They are those of the schema ids {ids}",
    )


def read_only(subject: str) -> Refused:
    """Say that a subject is not to be written."""
    return not_permitted(f"Subject {subject} is in read-only mode")


def no_import(subject: str) -> Refused:
    """Say that ids are given in another mode only."""
    return not_permitted(f"Subject {subject} is not in import mode")


def not_read_write(subject: str) -> Refused:
    """Say that a schema without an id is registered in another mode only."""
    return not_permitted(f"Subject {subject} is not in read-write mode")


def id_taken(schema_id: int) -> Refused:
    """Say that an id is another schema's."""
    return not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")


def id_mismatch(known: int, given: int) -> Refused:
    """Say that a schema has another id."""
    return Refused(422, 42207, f"Schema already registered with id {known} instead of input id {given}")


def invalid_subject(subject: str, reason: str) -> Refused:
    """Return why a name is no name of a subject."""
    return Refused(422, 42208, f"The specified subject '{subject}' is not a valid. Reason: {reason}")


def too_large(message: str) -> Refused:
    """Say that a schema is too large."""
    return Refused(422, 42209, message)


def invalid_rule_set(reason: str) -> Refused:
    """Return what is wrong with a rule set."""
    return Refused(422, 42210, f"Invalid rule set: {reason}")


def context_not_empty(context: str) -> Refused:
    """Say that a context holds subjects."""
    return Refused(422, 42211, f"The specified context '{context}' is not empty.")


def invalid_association(name: str, reason: str) -> Refused:
    """Return which property of an association is wrong, and why."""
    return Refused(
        422, 42212, f"The association specified an invalid value for property: '{name}', reason: {reason}"
    )
