"""Names of subjects, and of the contexts that contain them.

A qualified name is `:.context:subject`; an unqualified name is in the default context `.`.
Source: Confluent Schema Registry, `QualifiedSubject.java`.
"""

from __future__ import annotations

import re

from tidegate.contracts.document.terms import IDENTIFIER_PATTERN, TOPIC_PATTERN
from tidegate.gateway.registry.schemas.errors import invalid_subject

DEFAULT_CONTEXT = "."
GLOBAL = ""
"""The scope of settings that hold for every subject."""
EVERY_CONTEXT = ":*:"
"""The name that stands for all contexts in queries."""

_MAX_CHARACTERS = 4096
_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)
_DEFAULT = re.compile(r"\A(?::\.:)+")  # every repetition, so that `canonical` is idempotent
_TOPIC = re.compile(TOPIC_PATTERN)
_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_VALUE = "-value"


def context_of(name: str) -> str:
    """Return the context of a subject, or of a name such as `:.context:` that stands for a whole context."""
    match = _QUALIFIED.fullmatch(name)
    return match[1] if match else DEFAULT_CONTEXT


def canonical(name: str) -> str:
    """Return the canonical name of a subject, without the default context. Raises Refused (42208)."""
    if any(map(_is_control, name)):
        raise invalid_subject(ascii(name)[1:-1], "it holds a control character or half of a surrogate pair")
    if len(name) > _MAX_CHARACTERS:
        raise invalid_subject(f"{name[:40]}...", f"it is longer than {_MAX_CHARACTERS} characters")
    return _DEFAULT.sub("", name)


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000


def subject_to_register(name: str) -> str:
    """Return the canonical name of a subject to register under. Raises Refused (42208), also if it is reserved."""
    found = canonical(name)
    if not unqualified(found).strip():
        raise invalid_subject(found, "it is empty")
    if unqualified(found) in {"__GLOBAL", "__EMPTY"}:
        raise invalid_subject(found, "it is reserved")
    return found


def unqualified(name: str) -> str:
    """Return a subject's name without its context."""
    match = _QUALIFIED.fullmatch(name)
    return match[2] if match else name


def qualified(context: str, name: str) -> str:
    """Return a subject's name in a context."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def scopes(name: str) -> tuple[str, ...]:
    """Return the scopes whose settings apply to a subject, nearest first."""
    context = context_of(name)
    inherited = (GLOBAL,) if context == DEFAULT_CONTEXT else (f":{context}:", GLOBAL)
    return inherited if name in inherited else (name, *inherited)


def topic_of(subject: str) -> str | None:
    """Return the topic whose values a subject describes; None if its name is no topic and contract id with `-value`."""
    if not subject.endswith(_VALUE):
        return None
    topic = subject.removesuffix(_VALUE)
    return topic if _TOPIC.fullmatch(topic) and _IDENTIFIER.fullmatch(topic) else None
