"""Messages for wrong arguments: the argument, the given value, and the accepted values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import typer

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.suggestions import closest

_MAY_BE_EMPTY: Final = frozenset({"--null", "--prefix", "--search", "--reason"})
_PERCENT: Final = 100


def refuse_empty(arguments: Sequence[str]) -> None:
    """Raise SettingsError for an empty argument, because an empty path would mean the current folder."""
    before = "tidegate"
    for argument in arguments:
        option, is_assigned, value = argument.partition("=")
        is_empty = not argument or (option.startswith("--") and is_assigned and not value)
        name = option or before
        if is_empty and name not in _MAY_BE_EMPTY:
            where = name if is_assigned else f"the argument after {name}"
            raise SettingsError(f"{where} is empty; is a variable of the shell not set?")
        before = argument


def reword(error: typer.BadParameter) -> None:
    """Replace the message of a pydantic error in typer by the given value and the accepted values."""
    cause: Any = error.__cause__
    if error.param is None or not hasattr(cause, "errors"):
        return
    given = str(cause.errors()[0]["input"])
    choices = choices_of(error.param)
    taken = f"one of {', '.join(choices)}" if choices else _number_taken(error.param)
    if taken is None:
        return
    error.message = f"{given!r} is not {taken}{_advice(given, choices, error.param)}"


def choices_of(parameter: Any) -> tuple[str, ...]:
    """Return the values that a parameter accepts; an empty tuple if they are not enumerated."""
    annotation = _single(parameter)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(each.value) for each in annotation)
    return ()


def _single(parameter: Any) -> Any:
    """Return the type of one value of a parameter, without None and list."""
    annotation = parameter.type_descriptor.annotation
    while get_origin(annotation) in {Union, UnionType, list}:
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    return annotation


def _number_taken(parameter: Any) -> str | None:
    noun = {int: "a whole number", float: "a number"}.get(_single(parameter))
    info = parameter.type_descriptor.parameter_info
    match info.min, info.max:
        case _ if noun is None:
            return None
        case None, None:
            return noun
        case low, None:
            return f"{noun} of at least {low:,}"
        case None, high:
            return f"{noun} of at most {high:,}"
        case low, high:
            return f"{noun} from {low:,} to {high:,}"


def _advice(given: str, choices: Sequence[str], parameter: Any) -> str:
    if near := closest(given, choices):
        return f"; did you mean {near}?"
    number = given.removesuffix("%")
    if parameter.type_descriptor.parameter_info.max == 1 and number != given:
        try:
            return f"; {given} is {float(number) / _PERCENT:g}"
        except ValueError:
            pass
    return ""
