"""Find the contract documents that a check's arguments name."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.document.load import MAX_JSON_BYTES, LoadedContract, parse_contract
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.contracts.exchange.read import DBT, ODCS, SPECIFICATION
from tidegate.contracts.lint.lint import ForeignFormatError, lint
from tidegate.gateway.checks.places import shown_path

SUFFIXES = (".yaml", ".yml", ".json")

_FORMAT = re.compile(rb"""\bapiVersion["']?\s*:\s*(?:[&!]\S*\s+){0,2}["']?([^\s"',}]*)""", re.IGNORECASE)
"""The value of `apiVersion`; in YAML, an anchor and a tag may stand before it."""
_KIND = re.compile(rb"""\bkind["']?\s*:\s*["']?DataContract\b""", re.IGNORECASE)
_FOREIGN = {
    ODCS: re.compile(rb"""\bapiVersion["']?\s*:\s*["']?v?[23]\."""),
    SPECIFICATION: re.compile(rb"""\bdataContractSpecification["']?\s*:\s*["']?[0-9]"""),
    DBT: re.compile(rb"""^models[ \t]*:(?:[ \t]*(?:#[^\n]*)?\r?\n)+[ \t]*-[ \t]""", re.MULTILINE),
}
"""Patterns that identify contracts of other formats, by the name of the format."""


@dataclass(frozen=True, slots=True)
class ContractFile:
    """A contract document on this machine. `argument` is the argument that named it, a folder above it or itself."""

    path: Path
    argument: Path


@dataclass(frozen=True, slots=True)
class Selection:
    """The arguments of a check: documents, folders, and paths that do not exist."""

    files: tuple[ContractFile, ...]
    folders: tuple[Path, ...]
    missing: tuple[Path, ...]
    foreign: tuple[tuple[Path, str], ...] = ()
    """Documents in the folders that are contracts of another format, with its name. They are not checked."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The current content of a contract document: a contract that compiles, or its problems."""

    file: ContractFile
    shown: str
    loaded: LoadedContract | None
    problems: tuple[Problem, ...] = ()


def select(arguments: list[Path]) -> Selection:
    """Find the documents that the arguments name; each once, in the order of the arguments and then of the paths.

    A file argument always counts as a contract. A folder is searched recursively for YAML and JSON files that declare
    a contract; contracts of other formats are listed apart. Folders whose name begins with a dot, and links to folders,
    are skipped. Raises SettingsError for a folder or file that cannot be read.
    """
    files: dict[Path, ContractFile] = {}
    folders: list[Path] = []
    missing: list[Path] = []
    foreign: dict[Path, str] = {}
    for argument in arguments:
        if argument.is_dir():
            folders.append(argument)
            found = []
            for path, content in _documents_below(argument):
                if is_contract(content):
                    found.append(ContractFile(path, argument))
                elif (name := _foreign_format(content)) is not None:
                    foreign[path] = name
        elif argument.exists():
            _require_regular(argument)
            found = [ContractFile(argument, argument)]
        else:
            missing.append(argument)
            continue
        for file in found:
            files.setdefault(file.path.resolve(), file)
    return Selection(tuple(files.values()), tuple(folders), tuple(missing), tuple(foreign.items()))


def contracts_below(folder: Path) -> list[Path]:
    """Return the contract documents in a folder and below it, by path. Raises SettingsError for an unreadable file or folder."""
    return [path for path, content in _documents_below(folder) if is_contract(content)]


def _documents_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the YAML and JSON files in a folder and below it, by path, with their first MAX_JSON_BYTES bytes."""
    for parent, folders, names in os.walk(folder, onerror=_cannot_read):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix.lower() in SUFFIXES and path.is_file():
                yield path, _beginning(path)


def _foreign_format(content: bytes) -> str | None:
    """Return the name of the other contract format of a document; None if it has none.

    The document is not parsed, because it may be large or invalid. A schema alone does not count.
    """
    names = (name for name, sign in _FOREIGN.items() if sign.search(content))
    return next((name for name in names if name != ODCS or _KIND.search(content)), None)


def affected_contracts(changed: list[Path]) -> list[Path]:
    """Return the contracts among changed files, and the contracts that read one of them as their schema; sorted.

    A contract reads only files in its folder and below. So the folder of each changed file and the folders above it
    are searched, up to the working directory. Raises SettingsError for a folder or file that cannot be read.
    """
    found = {path for path in changed if path.suffix.lower() in SUFFIXES and is_contract(_beginning(path))}
    others = {path.resolve() for path in changed if path not in found}
    top = Path.cwd()
    folders = {
        folder
        for path in changed
        if path not in found
        for folder in path.parents
        if folder == path.parent or folder.resolve().is_relative_to(top)
    }
    for folder in folders:
        for path in _contracts_in(folder):
            if path not in found and not others.isdisjoint(_files_read_by(path)):
                found.add(path)
    return sorted(found)


def _contracts_in(folder: Path) -> list[Path]:
    try:
        paths = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file()]
    except OSError as error:
        raise _cannot_read(error) from None
    return [path for path in paths if is_contract(_beginning(path))]


def _files_read_by(contract: Path) -> set[Path]:
    """Return the resolved paths of the files that a contract names, also if missing or outside its folder."""
    named: set[Path] = set()

    def note(file: str) -> bytes:
        named.add((contract.parent / file).resolve())
        raise FileNotFoundError(2, "only the name is needed", file)

    with suppress(ContractError):  # lint reports what is wrong with the contract
        parse_contract(_beginning(contract), name=str(contract), read_schema=note)
    return named


def is_contract(content: bytes) -> bool:
    """Return whether a document declares that it is a Tidegate contract; it need not be well-formed.

    Other formats have another `apiVersion`. Without `apiVersion`, the document counts if its `kind` is DataContract.
    """
    content = _utf_8(content)
    formats = [match.group(1).lower() for match in _FORMAT.finditer(content)]
    if formats:
        return any(name.startswith((b"tidegate/", b"tidegate\\/")) for name in formats)
    return _KIND.search(content) is not None


def _utf_8(content: bytes) -> bytes:
    """Return a document in UTF-8, also if it begins with the byte order mark of UTF-16, which lint refuses."""
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16", "replace").encode(errors="replace") if is_utf_16 else content


def read_candidate(file: ContractFile) -> Candidate:
    """Read and compile a document."""
    shown = shown_path(file.path)
    try:
        return Candidate(file, shown, lint(file.path))
    except ForeignFormatError as error:
        return Candidate(file, shown, None, error.problems)
    except ContractError as error:
        problems = error.problems
    if not _mentions_format(file.path):
        # One message instead of a long list of missing and unknown keys.
        message = "this is not a contract; one begins with `apiVersion: tidegate/v1` and `kind: DataContract`"
        problems = (Problem("", message, shown, 1, 1),)
    return Candidate(file, shown, None, problems)


def _mentions_format(path: Path) -> bool:
    try:
        content = _utf_8(path.read_bytes())
    except OSError:
        return True  # lint has reported that it cannot be read
    return not content.strip() or any(word in content for word in (b"tidegate", b"DataContract"))


def _require_regular(path: Path) -> None:
    """Raise SettingsError for a pipe or a device: reading it may never end, and it cannot be read again."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise SettingsError(
            f"{path} is no regular file, but a pipe or a device: write the contract to a file"
        )


def _beginning(path: Path) -> bytes:
    _require_regular(path)
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_JSON_BYTES)
    except OSError as error:
        raise _cannot_read(error) from None


def _cannot_read(error: OSError) -> SettingsError:
    raise SettingsError(f"cannot read {error.filename}: {error.strerror}") from None
