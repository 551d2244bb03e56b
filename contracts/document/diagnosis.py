"""Convert validation errors of pydantic to sentences for the author of a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tidegate.contracts.document import terms
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.source import escape
from tidegate.contracts.suggestions import closest, did_you_mean, suggestion_budget

Path = tuple[str | int, ...]
"""Keys and list positions, from the whole document to a part of it."""


@dataclass(frozen=True, slots=True)
class FormMistake:
    """One mistake in the form of a document; `about` is the kind of the part at `path`."""

    path: Path
    message: str
    about: Literal["value", "key", "unknown key"] = "value"

    @property
    def pointer(self) -> str:
        """Return the path as a JSON Pointer (RFC 6901)."""
        return "".join(f"/{escape(str(token))}" for token in self.path)


_TAGGED = {"rules", "steps"}
"""Keys of lists whose items belong to a tagged union of models."""


@suggestion_budget()
def diagnose(
    document: dict[str, Any], error: ValidationError, root: type[BaseModel] = DataContract
) -> list[FormMistake]:
    """Return the mistakes in the form of `document`, which `root` describes, as plain sentences."""
    details: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue  # pydantic counts only the valid items; the invalid ones have errors of their own
        details.setdefault(_path(document, detail), []).append(detail)
    findings = [_finding(document, path, group, root) for path, group in details.items()]
    misspelt = {name for finding in findings for name in _misspelt(document, finding, root)}
    return [finding for finding in findings if finding.path not in misspelt]


def _path(document: Any, detail: ErrorDetails) -> Path:
    """Return the path in the document for a location of pydantic, which also contains branches of unions."""
    path: Path = ()
    value: Any = document
    tag_follows = False
    for step in detail["loc"]:
        if tag_follows:
            tag_follows = False
            continue
        if _has(value, step):
            value = value[step]
        elif detail["type"] == "missing":
            return (*path, step)
        else:
            return path
        path = (*path, step)
        tag_follows = path == ("schema",) or (len(path) == 2 and path[0] in _TAGGED)
    return path


def _has(value: Any, step: str | int) -> bool:
    return (isinstance(value, dict) and step in value) or (isinstance(value, list) and isinstance(step, int))


def _finding(
    document: dict[str, Any], path: Path, details: list[ErrorDetails], root: type[BaseModel]
) -> FormMistake:
    if all(detail["type"] in _EXPECTED for detail in details):
        return FormMistake(path, _mismatch(path, details, root))
    detail = next(detail for detail in details if detail["type"] not in _EXPECTED)
    match detail["type"]:
        case "extra_forbidden":
            known = _known_keys(document, path[:-1], root)
            return FormMistake(
                path, f"unknown key `{path[-1]}`{did_you_mean(str(path[-1]), known)}", "unknown key"
            )
        case "union_tag_invalid" | "union_tag_not_found":
            return _wrong_kind(path, detail, root)
        case "missing":
            return FormMistake(path, f"`{path[-1]}` is missing")
    sentence = _sentence(detail)
    if detail["loc"][-1] == "[key]":
        return FormMistake(path, f"the key {sentence}", "key")
    return FormMistake(path, f"{_subject(path)} {sentence}")


def _misspelt(document: Any, finding: FormMistake, root: type[BaseModel]) -> Iterator[Path]:
    """Yield the missing key that an unknown key was probably meant to be, so that one mistake has one message."""
    if finding.about == "unknown key":
        parent = finding.path[:-1]
        nearest = closest(str(finding.path[-1]), _known_keys(document, parent, root))
        if nearest is not None:
            yield (*parent, nearest)


def _known_keys(document: Any, path: Path, root: type[BaseModel]) -> list[str]:
    """Return the keys that the mapping at `path` may have and does not have yet, in the model's order."""
    part, value = _part_at(root, document, path)
    names = (field.alias or name for name, field in part.model_fields.items())
    return [name for name in names if name not in value]


def _part_at(annotation: Any, value: Any, path: Path) -> tuple[type[BaseModel], Any]:
    """Return the model and the value of the mapping at `path` below a value with this annotation."""
    if not path:
        return _model_of(annotation, value), value
    step, *rest = path
    if isinstance(step, str) and get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
    elif isinstance(step, str):
        annotation = _field(_model_of(annotation, value), step).annotation
    return _part_at(annotation, value[step], tuple(rest))


def _field(part: type[BaseModel], key: str) -> FieldInfo:
    return next(field for name, field in part.model_fields.items() if key == (field.alias or name))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _model_of(annotation: Any, value: Any) -> type[BaseModel]:
    """Return the model of a mapping; in a union, the model whose required words (`kind`, `type`, `action`) it has."""
    models = list(_models(annotation))
    return next((each for each in models if _fits(each, value)), models[0])


def _fits(part: type[BaseModel], value: dict[str, Any]) -> bool:
    return all(
        value.get(name) in get_args(field.annotation)
        for name, field in part.model_fields.items()
        if name in {"kind", "type", "action"}
        and field.is_required()
        and get_origin(field.annotation) is Literal
    )


def _wrong_kind(path: Path, detail: ErrorDetails, root: type[BaseModel]) -> FormMistake:
    key, known = _discriminator(path, detail, root)
    if detail["type"] == "union_tag_invalid":
        word = str(detail["ctx"]["tag"])
        return FormMistake((*path, key), f"unknown {key} `{word:.40}`{did_you_mean(word, known)}")
    known_keys = {name for part in _union(path, root) for name in part.model_fields}
    for name in detail["input"]:
        if name not in known_keys and closest(str(name), [key]) is not None:
            return FormMistake((*path, name), f"unknown key `{name}`; did you mean `{key}`?", "key")
    return FormMistake((*path, key), f"`{key}` is missing; use one of {', '.join(known)}")


def _discriminator(path: Path, detail: ErrorDetails, root: type[BaseModel]) -> tuple[str, list[str]]:
    """Return the key that distinguishes the models of the union at `path`, and its possible words."""
    key = str(detail["ctx"]["discriminator"]).strip("'")
    return key, [word for part in _union(path, root) for word in get_args(part.model_fields[key].annotation)]


def _union(path: Path, root: type[BaseModel]) -> list[type[BaseModel]]:
    return list(_models(_field(root, str(path[0])).annotation))


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
}

_FORMS = {
    terms.POINTER_PATTERN: "a JSON Pointer such as /address/postcode",
    terms.RULE_ID_PATTERN: "an id of lower-case letters, digits, `.`, `_` and `-`, such as age-is-known",
    terms.IDENTIFIER_PATTERN: "an id of letters, digits, `.`, `_` and `-`, such as hospital.admissions",
    terms.VERSION_PATTERN: "a semantic version such as 1.2.0",
    terms.COLUMN_PATTERN: "a name of letters, digits and `_` that begins with a letter",
    terms.BOUND_PATTERN: "a number, or in quotes a duration such as PT15M or a number that no double is",
    terms.TOPIC_PATTERN: "a topic name of letters, digits, `.`, `_` and `-`, at most 249 of them",
    terms.ZONE_PATTERN: "Z or an offset such as +02:00",
}


def _mismatch(path: Path, details: list[ErrorDetails], root: type[BaseModel]) -> str:
    found = details[0]["input"]
    kinds = list(dict.fromkeys(_EXPECTED[detail["type"]] for detail in details))
    if "a number" in kinds and "a whole number" in kinds:
        kinds.remove("a whole number")
    form = _broken_form(path, found, root) if kinds == ["text"] else None
    if form is not None:
        return f"{_subject(path)} must be {form}, not {_described(found)}"
    hint = "; put it in quotes" if kinds == ["text"] and isinstance(found, int | float) else ""
    return f"{_subject(path)} must be {' or '.join(kinds)}, not {_described(found)}{hint}"


def _broken_form(path: Path, found: Any, root: type[BaseModel]) -> str | None:
    """Return the form that a key of the contract requires, if quoting the number would not satisfy it; else None."""
    if len(path) != 1 or isinstance(found, bool) or not isinstance(found, int | float):
        return None
    patterns = [getattr(each, "pattern", None) for each in _field(root, str(path[0])).metadata]
    broken = (pattern for pattern in patterns if pattern in _FORMS and not re.search(pattern, str(found)))
    return next((_FORMS[pattern] for pattern in broken), None)


def _subject(path: Path) -> str:
    return f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"


def _described(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value!s:.40}"
        case str():
            return f"the text `{value:.40}`"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _sentence(detail: ErrorDetails) -> str:
    """Return the mistake in a value of the right type, to complete a sentence that begins with its key."""
    match detail["type"]:
        case "literal_error" | "enum":
            return _choice(detail)
        case "string_pattern_mismatch":
            return _form(detail)
        case "too_short":
            least = detail["ctx"]["min_length"]
            return f"needs at least {least} item{'s' if least > 1 else ''}"
        case "greater_than_equal":
            return f"must be at least {detail['ctx']['ge']:g}"
        case "less_than_equal":
            return f"must be at most {detail['ctx']['le']:g}"
        case _:
            return f"is wrong: {detail['msg']}"


def _choice(detail: ErrorDetails) -> str:
    known = _words(str(detail["ctx"]["expected"]))
    found = detail["input"]
    if len(known) == 1:
        return f"must be `{known[0]}`, not {_described(found)}"
    if isinstance(found, str):
        return f"cannot be `{found:.40}`{did_you_mean(found, known)}"
    return f"must be one of {', '.join(known)}, not {_described(found)}"


def _form(detail: ErrorDetails) -> str:
    pattern, found = str(detail["ctx"]["pattern"]), str(detail["input"])
    sentence = f"must be {_FORMS[pattern]}, not `{found:.80}`"
    bare = re.sub(r"^\$[./]", "", found)  # JSONPath and some tools name the root `$`
    rooted = f"/{bare}" if "/" in bare else "/" + bare.replace(".", "/")
    if pattern == terms.POINTER_PATTERN and re.search(pattern, rooted):
        sentence += f"; did you mean `{rooted}`?"
    return sentence


def _words(expected: str) -> list[str]:
    return re.findall(r"'([^']*)'", expected) or [
        expected.lower()
    ]  # the only other literal is True, which is `true` in YAML
