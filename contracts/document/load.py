"""Load contract documents from files or request bodies, with the position of every mistake; and write them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from tidegate.contracts.document.consistency import inconsistencies
from tidegate.contracts.document.diagnosis import FormMistake, diagnose
from tidegate.contracts.document.json_source import read_json
from tidegate.contracts.document.model import SCHEMA_KEY, DataContract
from tidegate.contracts.document.source import Place, SourceDocument, escape, syntax_error
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.suggestions import suggestion_budget

MAX_JSON_BYTES = 4 * 1024 * 1024
"""Maximum size of a JSON document or schema."""
MAX_YAML_BYTES = 256 * 1024
"""Maximum size of a YAML document: smaller, because YAML is slow to parse and registries parse untrusted input."""

_DEFINITION = "/schema/definition"

ReadSchema = Callable[[str], bytes]
"""Returns the content of a file that the contract names.

Raises OSError if it cannot be read, ValueError if it may not be.

The message of a ValueError is a sentence for the author.
"""


@dataclass(frozen=True, slots=True)
class LoadedContract:
    """A self-contained contract (its schema is in `definition`), with the documents that locate its parts."""

    contract: DataContract
    document: SourceDocument
    schema: SourceDocument | None = None
    warnings: tuple[Problem, ...] = ()
    """Names that may be misspelt, with their positions; set by `lint` and when a contract is published."""

    def locate(self, problem: Problem) -> Problem:
        """Return a problem with file, line and column, found by its pointer into the contract."""
        if problem.line is not None:
            return problem
        return _locate(problem, self.document, self.schema)


def load_contract(path: Path) -> LoadedContract:
    """Load a contract file (YAML or JSON) and the schema file that it names.

    `schema.file` is relative to the contract file and must be in its folder or below. Otherwise an untrusted contract
    could make CI read any file.

    Raises ContractError with every problem of the document, with positions, in document order.
    """
    return read_draft(path).finish()


def parse_contract(text: str | bytes, *, name: str, read_schema: ReadSchema | None) -> LoadedContract:
    """Parse a contract document.

    `name` is used in messages. Its suffix selects JSON (.json, .avsc) or YAML (.yaml, .yml); with any other, the first
    character of the text does. With `read_schema=None` the document must be self-contained.

    Raises ContractError with every problem of the document, with positions, in document order.
    """
    return _parse_draft(text, name, read_schema).finish()


def dump_contract(contract: DataContract) -> bytes:
    """Return a self-contained contract as a JSON document in UTF-8 that `parse_contract` reads back.

    Fields are in the order of the model. The schema keeps its author's order, because derived columns follow it.
    Default values are omitted. Two dumps mean the same if and only if their
    `tidegate.contracts.document.fingerprint.fingerprint` is equal.
    """
    document = contract.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


@dataclass(frozen=True, slots=True)
class Draft:
    """The readable part of a document, and the problems found so far.

    `contract` is None if the document is not a valid contract even without its faulty parts. `rules` maps each rule of
    `contract` to its index in the document.
    """

    document: SourceDocument
    schema: SourceDocument | None
    problems: tuple[Problem, ...]
    contract: DataContract | None
    rules: tuple[int, ...] = ()

    def locate(self, problem: Problem) -> Problem:
        """Return a problem of the draft's contract with its position; the document may have more rules."""
        match problem.pointer.split("/"):
            case ["", "rules", index, *rest] if index.isdecimal():
                pointer = "/".join(("/rules", str(self.rules[int(index)]), *rest))
                problem = Problem(pointer, problem.message)
        return _locate(problem, self.document, self.schema)

    def finish(self, more: Iterable[Problem] = ()) -> LoadedContract:
        """Return the contract. Raises ContractError with every problem of the draft and `more`, in document order."""
        problems = dict.fromkeys([*self.problems, *more])  # compiling finds the same contradictions again
        if problems or self.contract is None:
            raise ContractError(tuple(sorted(problems, key=lambda each: _order(each, self.document.name))))
        return LoadedContract(self.contract, self.document, self.schema)


def _order(problem: Problem, name: str) -> tuple[bool, int, int]:
    return (problem.file != name, problem.line or 0, problem.column or 0)


def read_draft(path: Path) -> Draft:
    """Read as much of a contract file as is valid. Raises ContractError for a file that is not a mapping."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise syntax_error(str(path), Place(1, 1), f"cannot be read: {error.strerror}") from None
    return _parse_draft(content, str(path), _schema_reader(path.parent))


@suggestion_budget()
def _parse_draft(text: str | bytes, name: str, read_schema: ReadSchema | None) -> Draft:
    document = read_source(name, text)
    if not isinstance(document.value, dict):
        raise syntax_error(
            name, Place(1, 1), "a contract is a mapping; it begins with `apiVersion: tidegate/v1`"
        )
    problems = list(document.problems)
    schema = None
    try:
        schema = _read_schema_file(document, read_schema)
        problems += schema.problems if schema else ()
    except ContractError as error:
        problems += error.problems
    value = _with_definition(document.value, schema)
    value, unread = _with_set_values(value, document, read_schema)
    problems += unread
    if isinstance(value.get(SCHEMA_KEY), str):
        value = {key: part for key, part in value.items() if key != SCHEMA_KEY}
    is_complete = not problems
    contract, findings, rules = _build(value)
    problems += [_place(finding, document, schema) for finding in findings]
    if contract is None:
        return Draft(document, schema, tuple(problems), None)
    draft = Draft(document, schema, (), contract, rules)
    # Do not report what a mapping lacks if it has an unknown key, which may be the missing key misspelt.
    unknown_in = {each.pointer.rpartition("/")[0] for each in findings if each.about == "unknown key"}
    problems += [draft.locate(each) for each in inconsistencies(contract) if each.pointer not in unknown_in]
    return replace(draft, problems=tuple(problems), contract=contract if is_complete else None)


def _build(document: dict[str, Any]) -> tuple[DataContract | None, list[FormMistake], tuple[int, ...]]:
    """Build the contract without its faulty parts, as far as `_without` can remove them.

    Return the contract (None if it is still invalid), the mistakes, and the index in the document of each rule.
    """
    rules = document.get("rules", [])
    indexes = tuple(range(len(rules))) if isinstance(rules, list) else ()
    try:
        return DataContract.model_validate_json(json.dumps(document), strict=True), [], indexes
    except ValidationError as error:
        findings = diagnose(document, error)
    sound, indexes = _without(document, findings)
    try:
        return DataContract.model_validate_json(json.dumps(sound), strict=True), findings, indexes
    except ValidationError:
        return None, findings, ()


_PLACEHOLDERS = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "unknown",
    "version": "1.0.0",
    "topic": "unknown",
}
_INDEPENDENT = {
    "status",
    "description",
    "domain",
    "team",
    "error_budget",
    "retention",
    "replay_approval",
    "consumers",
    "producer_headers",
    "compatibility",
    "undeclared",
    "on_violation",
}
"""Optional keys that no other part of a contract refers to."""


def _without(document: dict[str, Any], findings: list[FormMistake]) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the document without faulty parts that are not essential, so that other mistakes can be reported too.

    These are unknown keys, rules with any mistake, and parts that no other part refers to; faulty required keys get
    placeholders. Also return the index in the document of each remaining rule. The result is not meant for use.
    """
    sound = copy.deepcopy(document)
    wrong_rules = set()
    spared = set()
    for finding in findings:
        match finding.path:
            case ("rules", int(index), *_):
                wrong_rules.add(index)
            case (*parents, str(last)) if finding.about == "unknown key":
                part: Any = sound
                for step in parents:
                    part = part[step]
                del part[last]
            case (str(key), *_):
                spared.add(key)
            case _:
                pass
    sound = {key: part for key, part in sound.items() if key not in spared & _INDEPENDENT}
    sound |= {key: value for key, value in _PLACEHOLDERS.items() if key in spared}
    rules = sound.get("rules")
    if not isinstance(rules, list):
        return sound, ()
    indexes = tuple(index for index in range(len(rules)) if index not in wrong_rules)
    return {**sound, "rules": [rules[index] for index in indexes]}, indexes


def _place(finding: FormMistake, document: SourceDocument, schema: SourceDocument | None) -> Problem:
    if finding.about == "value":
        return _locate(Problem(finding.pointer, finding.message), document, schema)
    return document.problem(finding.pointer, finding.message, at_key=True)


def read_source(name: str, content: str | bytes) -> SourceDocument:
    """Read JSON or YAML, by the suffix of `name` or, for any other suffix, by the first character.

    Raises ContractError with the position.
    """
    text = _decode(name, content)
    suffix = PurePosixPath(name).suffix.lower()
    is_json = suffix in {".json", ".avsc"}
    if not is_json and suffix not in {".yaml", ".yml"}:
        is_json = text.lstrip()[:1] in {"{", "["}
    limit = MAX_JSON_BYTES if is_json else MAX_YAML_BYTES
    if len(text) > limit:
        raise syntax_error(name, Place(1, 1), f"larger than {limit // 1024} KiB")
    return read_json(name, text) if is_json else read_yaml(name, text)


def _decode(name: str, content: str | bytes) -> str:
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise syntax_error(name, Place(line, column), "not UTF-8; save the file in UTF-8") from None


def _read_schema_file(document: SourceDocument, read_schema: ReadSchema | None) -> SourceDocument | None:
    """Read the file that the document's schema names; None if it names none. Raises ContractError with positions."""
    part = document.value.get("schema")
    if not isinstance(part, dict):
        return None
    match part.get("file"), part.get("definition"):
        case None, None:
            message = "the schema is missing: name its `file`, or write it under `definition`"
            raise ContractError((document.problem("/schema", message),))
        case str(file), None:
            return _fetch_schema(document, file, read_schema)
        case (_, None) | (None, _):
            return None
        case _:
            message = "give the schema either by `file` or by `definition`, not by both"
            raise ContractError((document.problem("/schema/definition", message, at_key=True),))


def _fetch_schema(document: SourceDocument, file: str, read_schema: ReadSchema | None) -> SourceDocument:
    if read_schema is None:
        message = "no file is read here; put the schema itself under `definition`"
        raise ContractError((document.problem("/schema/file", message),))
    try:
        return read_source(str(PurePosixPath(document.name).parent / file), read_schema(file))
    except OSError as error:
        message = f"cannot read `{file}`: {error.strerror or error}"
    except ValueError as error:
        message = str(error)
    raise ContractError((document.problem("/schema/file", message),))


def _with_definition(document: dict[str, Any], schema: SourceDocument | None) -> dict[str, Any]:
    if schema is None:
        return document
    part = {key: value for key, value in document["schema"].items() if key != "file"}
    return {**document, "schema": {**part, "definition": schema.value}}


def _with_set_values(
    value: dict[str, Any], document: SourceDocument, read_file: ReadSchema | None
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the document with the values of reference sets that name a file, and the problems of these files."""
    sets = value.get("reference_sets")
    named = {
        name: part
        for name, part in (sets.items() if isinstance(sets, dict) else ())
        if isinstance(part, dict) and isinstance(part.get("file"), str) and "values" not in part
    }
    problems: list[Problem] = []
    read: dict[str, Any] = {}
    for name, part in named.items():
        place = f"/reference_sets/{escape(name)}/file"
        try:
            if read_file is None:
                raise ValueError("no file is read here; put the values themselves under `values`")  # noqa: TRY301 - one place for all
            values = _read_values(part["file"], read_file(part["file"]))
        except OSError as error:
            problems.append(
                document.problem(place, f"cannot read `{part['file']}`: {error.strerror or error}")
            )
        except ValueError as error:
            problems.append(document.problem(place, str(error)))
        except ContractError as error:
            problems += error.problems
        else:
            read[name] = {key: member for key, member in part.items() if key != "file"} | {"values": values}
    return (value if not read else {**value, "reference_sets": {**value["reference_sets"], **read}}), problems


def _read_values(file: str, content: bytes) -> list[Any]:
    """Read a reference set: by the file's suffix, a JSON or YAML list, else text with one value per line."""
    if PurePosixPath(file).suffix.lower() not in {".json", ".yaml", ".yml"}:
        values: Any = [line.strip() for line in _decode(file, content).splitlines() if line.strip()]
    else:
        source = read_source(file, content)
        if source.problems:
            raise ContractError(source.problems)
        values = source.value
    if not isinstance(values, list) or not values:
        raise ValueError(f"`{file}` holds no list of values")
    return values


def _schema_reader(folder: Path) -> ReadSchema:
    def read(file: str) -> bytes:
        path = (folder / file).resolve()
        if PurePosixPath(file).is_absolute() or not path.is_relative_to(folder.resolve()):
            raise ValueError(
                f"`{file}` is outside the contract's folder; keep the schema beside the contract"
            )
        return path.read_bytes()

    return read


def _locate(problem: Problem, document: SourceDocument, schema: SourceDocument | None) -> Problem:
    pointer = problem.pointer
    if schema is not None and (pointer == _DEFINITION or pointer.startswith(f"{_DEFINITION}/")):
        placed = schema.problem(pointer.removeprefix(_DEFINITION), problem.message)
        return Problem(pointer, problem.message, placed.file, placed.line, placed.column)
    return document.problem(pointer, problem.message)
