"""Basic types of contract documents: ids, pointers, scalars, versions, and the strict base model."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool | None
"""A JSON scalar. Dates and times in YAML are read as strings."""
POINTER_PATTERN = r"^(/([^~/]|~[01])*)+$"
RULE_ID_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9])?$"
IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
VERSION_PATTERN = r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$"
MOST_DAYS = 36_500
"""Maximum retention in days, a hundred years. In milliseconds, as in Kafka, it fits into 64 bits."""

COLUMN_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
BOUND_PATTERN = r"^(P[0-9YMWDTHS.]+|-?[0-9.]{17,200})$"
"""A duration, or the digits of a number that no double holds."""
TOPIC_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"
ZONE_PATTERN = r"^(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"


def is_version(text: str) -> bool:
    """Return whether a text is a semantic version as contracts have it."""
    return re.fullmatch(VERSION_PATTERN, text) is not None


Pointer = Annotated[
    str,
    Field(
        pattern=POINTER_PATTERN,
        description="JSON Pointer (RFC 6901) of a field in a record, such as /address/postcode; `*` means every element of an array. In a rule, `**` at the start means every object at any depth.",
    ),
]


RuleId = Annotated[
    str,
    Field(
        pattern=RULE_ID_PATTERN,
        description="Lower-case id, unique in the contract, such as age-is-known.",
    ),
]


Identifier = Annotated[
    str,
    Field(
        pattern=IDENTIFIER_PATTERN,
        description="Letters, digits, `.`, `_` and `-`, such as hospital.admissions.",
    ),
]


SemanticVersion = Annotated[
    str,
    Field(
        pattern=VERSION_PATTERN,
        description="Semantic version, such as 1.2.0.",
    ),
]


class OnViolation(StrEnum):
    """The action for a record that violates a rule of severity `error`, or for its stream."""

    FAIL = "fail"
    DROP = "drop"
    ALERT = "alert"
    QUARANTINE = "quarantine"


class Part(BaseModel):  # noqa: PLW1641 - pydantic adds the hash of a frozen model
    """A strict, frozen base model: an unknown key is reported as a mistake, not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def __eq__(self, other: object) -> bool:
        """Return whether two parts are of one class and have equal JSON: `true` is not 1."""
        if super().__eq__(other) is not True:
            return False
        return all(equal_json(getattr(self, name), getattr(other, name)) for name in type(self).model_fields)


def equal_json(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON. Python's `==` also holds for `true` and 1.

    Numbers are equal by value: 1 and 1.0 are.
    """
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs.extend((value, right[name]) for name, value in left.items())
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif left != right or isinstance(left, bool) is not isinstance(right, bool):
            return False
    return True


_VALUE = "-value"


def subject_of(topic: str) -> str:
    """Return the registry subject for the values of a topic (Confluent's TopicNameStrategy)."""
    return f"{topic}{_VALUE}"


def topic_of(subject: str) -> str | None:
    """Return the topic whose values a registry subject is for; None for a subject of another strategy."""
    return subject.removesuffix(_VALUE) if subject.endswith(_VALUE) else None
