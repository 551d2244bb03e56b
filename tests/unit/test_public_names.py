"""The public interface is what a golden file says: programs of others call these names with these parameters."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidegate

GOLDEN = Path(__file__).with_name("public_names.txt")
MANAGER = ("__enter__", "__exit__")
WRITE = "python -m tests.unit.test_public_names > tests/unit/public_names.txt"
BROKEN = (
    "These names or signatures are gone or changed, and programs of others may call them: keep them, or take the way of\n"
    "semantic versioning (a major version from 1.0.0 on, a line under a heading *Python API* in CHANGELOG.md). Then:\n"
    f"  {WRITE}"
)
ADDED = (
    "These names or signatures are new: from the next release on they must stay. If they are meant to be public, describe\n"
    f"them in docs/reference/python-api.md and CHANGELOG.md. Then:\n  {WRITE}"
)


def described() -> str:
    """Return each public name with its members, one a line."""
    return "".join(f"{line}\n" for name in sorted(tidegate.__all__) for line in lines_of(name))


def lines_of(name: str) -> Iterator[str]:
    value = getattr(tidegate, name)
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if issubclass(value, enum.Enum):
        yield from (f"{name}.{each.name} = {each.value!r}" for each in value)
    elif any("__init__" in vars(base) for base in own(value)):
        yield f"{name}{inspect.signature(value)}"
    for member, kind in sorted(members(value).items()):
        yield f"{name}.{member}{kind}"


def members(value: type) -> dict[str, str]:
    """Return the members of a class that begin with no underscore: methods with their signature."""
    found: dict[str, str] = {}
    for base in own(value):
        for member, each in vars(base).items():
            if (member.startswith("_") and member not in MANAGER) or (
                issubclass(value, enum.Enum) and member in value.__members__
            ):
                continue
            text = kind_of(each)
            if text is not None:
                found.setdefault(member, text)
    return found


def kind_of(member: Any) -> str | None:
    match member:
        case property(fget=function) if function is not None:
            return f" -> {inspect.signature(function).return_annotation!r}"
        case classmethod() | staticmethod():
            return f"{inspect.signature(member.__func__)} [{type(member).__name__}]"
        case _ if inspect.isfunction(member):
            return str(inspect.signature(member))
        case _ if inspect.ismemberdescriptor(member):
            return " [field]"
    return None


def own(value: type) -> list[type]:
    return [base for base in value.__mro__ if base.__module__.startswith("tidegate")]


def test_public_names_and_signatures_are_those_of_the_golden_file() -> None:
    golden, now = GOLDEN.read_text("utf-8").splitlines(), described().splitlines()
    gone = [line for line in golden if line not in now]
    new = [line for line in now if line not in golden]
    assert not gone, "\n".join([BROKEN, *gone])
    assert not new, "\n".join([ADDED, *new])
    assert golden == now, f"the order has changed: {WRITE}"


if __name__ == "__main__":
    print(described(), end="")  # noqa: T201 - the golden file
