"""Detect fields that may hold personal data, by their names and the formats of their values."""

from __future__ import annotations

import re
from typing import Final

from tidegate.contracts.infer.profile import FieldProfile
from tidegate.contracts.infer.proposal import words_of
from tidegate.contracts.infer.text_formats import TextFormat

CLASS: Final = "pii"
_ENOUGH: Final = 20
_WORDS: Final = frozenset(
    [
        "firstname",
        "lastname",
        "surname",
        "forename",
        "fullname",
        "maiden",
        "givenname",
        "familyname",
        "nickname",
        "username",
        "login",
        "email",
        "mail",
        "phone",
        "telephone",
        "mobile",
        "fax",
        "msisdn",
        "imsi",
        "imei",
        "ssn",
        "sin",
        "nino",
        "nhs",
        "passport",
        "licence",
        "license",
        "iban",
        "bic",
        "pan",
        "cvv",
        "address",
        "street",
        "postcode",
        "postal",
        "zip",
        "zipcode",
        "birth",
        "birthday",
        "birthdate",
        "dob",
        "patient",
        "person",
        "citizen",
        "employee",
        "applicant",
        "ip",
        "ipaddress",
        "signature",
        "password",
        "secret",
        "note",
        "notes",
        "comment",
        "comments",
        "remark",
        "remarks",
        "freetext",
        "diary",
        "biography",
        "gender",
        "religion",
        "ethnicity",
        "nationality",
        "tax",
        "taxid",
        "vat",
        "contact",
        "recipient",
        "sender",
        "passenger",
        "guest",
        "tenant",
        "insured",
        "policyholder",
        "cardholder",
    ]
)
_PAIRS: Final = (
    ("first", "name"), ("last", "name"), ("full", "name"), ("given", "name"), ("family", "name"), ("middle", "name"),
    ("customer", "name"), ("user", "name"), ("contact", "name"), ("card", "number"), ("account", "number"), ("social", "security"),
    ("customer", "id"), ("user", "id"), ("member", "id"), ("client", "id"), ("national", "id"), ("device", "id"),
)  # fmt: skip
_HARMLESS: Final = frozenset({"country", "count", "type", "kind", "status", "category", "code"})
_FORMATS: Final = frozenset({TextFormat.EMAIL, TextFormat.IPV4})
_SHAPES: Final = (
    re.compile(r"\+?0{1,3}[- ]?\(?0{2,4}\)?[- ]?0{3,4}[- ]?0{3,4}\Z"),  # telephone
    re.compile(r"000-00-0000\Z"),  # social security number of the USA
    re.compile(r"AA00[A0]{11,30}\Z"),  # IBAN
    re.compile(r"0{4}[ -]0{4}[ -]0{4}[ -]0{4}\Z"),  # payment card
)


def reason_of(field: FieldProfile) -> str | None:
    """Return why a field seems to hold personal data, without any of its values; None if it does not."""
    words = words_of(field.path)
    if words[-1] in _HARMLESS or field.properties is not None:
        return None
    return "its name" if _is_named_so(field) else _reason_of_values(field)


def _is_named_so(field: FieldProfile) -> bool:
    words = words_of(field.path)
    if not _WORDS.isdisjoint(words) or any(_follows(words, pair) for pair in _PAIRS):
        return True
    around = words_of(field.path[:-1]) if len(field.path) > 1 else []
    return words == ["name"] and not _WORDS.isdisjoint(around)


def _reason_of_values(field: FieldProfile) -> str | None:
    texts = field.texts
    if texts.count < _ENOUGH:
        return None
    for each in sorted(_FORMATS & texts.formats.keys()):
        return f"its values have the format {each}"
    fits = sum(
        shape.count
        for text, shape in texts.shapes.found.items()
        if any(pattern.match(text) for pattern in _SHAPES)
    )
    return "the shape of its values" if fits > 0.9 * texts.count else None


def _follows(words: list[str], pair: tuple[str, str]) -> bool:
    return any(words[index : index + 2] == list(pair) for index in range(len(words) - 1))
