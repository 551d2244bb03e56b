"""Masks: how protected fields are replaced in outputs. Verdicts never depend on masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from tidegate.contracts.document.fields import SchemaFields, join, suggestion, tokens
from tidegate.contracts.document.model import DataContract, Mask
from tidegate.contracts.errors import Problem, SettingsError
from tidegate.contracts.privacy.classes import ANY, PointerNode, following, step_tree
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.rules.places import ANYWHERE

_STRONGEST: Final = (Mask.DROP, Mask.REDACT, Mask.HASH)
_GONE: Final = object()


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a contract by pointer; `*` in a pointer matches any step. Falsy without masks.

    `key` creates the tokens, and is required for hashing.
    """

    by_pointer: Mapping[str, Mask]
    key: MaskKey | None = None
    root: PointerNode[Mask] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", step_tree(self.by_pointer))

    def __bool__(self) -> bool:
        return bool(self.by_pointer)

    def over(self, path: tuple[str, ...]) -> tuple[Mask, int] | None:
        """Return the mask that covers the value at a path, and the number of steps to its field; None without one."""
        steps = [self.root]
        for count, token in enumerate(path, 1):
            steps = following(steps, token)
            mask = strongest(steps)
            if mask is not None:
                return mask, count
        return None

    def is_below(self, path: tuple[str, ...]) -> bool:
        """Return whether members of the value at a path are masked."""
        return bool(self._at(path))

    def applied(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return the value at a path with masked members; the same object if none of its fields is masked.

        A scalar where the masks expect an object or array with masked members is redacted.
        """
        return self._applied(value, self._at(path))

    def token(self, value: Any) -> str:
        """Return the token for a value that is not null. Raises SettingsError without a key."""
        if self.key is None:
            _refuse_to_hash(self.by_pointer)
        return self.key.token(value)

    def _at(self, path: tuple[str, ...]) -> list[PointerNode[Mask]]:
        """Return the steps at a path that have further steps below."""
        steps = [self.root]
        for token in path:
            steps = following(steps, token)
        return [step for step in steps if step.children]

    def _applied(self, value: Any, steps: list[PointerNode[Mask]]) -> Any:
        if not steps or value is None:
            return value
        if isinstance(value, dict):
            members = {name: self._member(each, following(steps, name)) for name, each in value.items()}
            return {name: each for name, each in members.items() if each is not _GONE}
        if isinstance(value, list) and leads_into_arrays(steps):
            items = [self._member(each, following(steps, str(at))) for at, each in enumerate(value)]
            return [each for each in items if each is not _GONE]
        return None

    def _member(self, value: Any, steps: list[PointerNode[Mask]]) -> Any:
        match strongest(steps):
            case Mask.DROP:
                return _GONE
            case Mask.REDACT:
                return None
            case Mask.HASH:
                return None if value is None else self.token(value)
            case _:
                return self._applied(value, [step for step in steps if step.children])


def strongest(steps: list[PointerNode[Mask]]) -> Mask | None:
    """Return the mask that hides the most; None if none of the steps is masked."""
    found = {step.value for step in steps}
    return next((mask for mask in _STRONGEST if mask in found), None)


def leads_into_arrays(steps: list[PointerNode[Mask]]) -> bool:
    """Return whether the steps lead to elements of an array."""
    return any(name == ANY or name.isdigit() for step in steps for name in step.children)


def masks_of(contract: DataContract, key: MaskKey | None = None) -> Masks:
    """Return the masks of a contract."""
    return Masks(contract.mask, key)


def needs_key(contract: DataContract) -> bool:
    """Return whether a contract hashes a field or the record key, so that a mask key is required."""
    return contract.key_mask is Mask.HASH or Mask.HASH in contract.mask.values()


def require_key(contract: DataContract, key: MaskKey | None) -> None:
    """Raise SettingsError if a contract hashes and there is no mask key."""
    if key is None and needs_key(contract):
        _refuse_to_hash(contract.mask)


def privacy_problems(contract: DataContract, fields: SchemaFields) -> list[Problem]:
    """Return problems for classified and masked fields that the schema does not declare: nothing would hide them."""
    problems: list[Problem] = []
    for name, pointers in (("classification", contract.classification), ("mask", contract.mask)):
        for pointer in pointers:
            place = f"/{name}{join((pointer,))}"
            if ANYWHERE in tokens(pointer):
                message = (
                    f"`{ANYWHERE}` is for fields of rules only: name each place of `{pointer}` by itself"
                )
                problems.append(Problem(place, message))
            elif fields.find(pointer) is None and fields.find(pointer.replace(f"/{ANY}", "/0")) is None:
                message = f"the schema declares no field `{pointer}`{suggestion(pointer, fields)}"
                problems.append(Problem(place, message))
    return problems


def _refuse_to_hash(pointers: Mapping[str, Mask]) -> NoReturn:
    hashed = (
        ", ".join(pointer for pointer, mask in pointers.items() if mask is Mask.HASH) or "the record's key"
    )
    raise SettingsError(
        f"the contract hashes {hashed}, and there is no key for it: set TIDEGATE_MASK_KEY to at least 32 secret "
        "characters (`openssl rand -hex 32`), the same in every job whose tables are joined"
    )
