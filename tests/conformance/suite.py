"""The official JSON-Schema-Test-Suite, as the source distribution of the package `jsonschema` carries it.

Nothing of it is kept in this project: pip fetches the archive once, checks it against the hash below before it opens
it, and it stays in the user's cache folder. It is read where it lies; nothing is unpacked.
Source: https://github.com/json-schema-org/JSON-Schema-Test-Suite (MIT), README, "Structure of a Test".
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import platformdirs

VERSION: Final = "4.26.0"
SHA256: Final = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
ARCHIVE: Final = f"jsonschema-{VERSION}.tar.gz"
FOLDER: Final = f"jsonschema-{VERSION}/json"

DRAFTS: Final = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
"""Folders of the suite, with the `$schema` that says the same."""
DEFAULT_DRAFT: Final = "draft2020-12"
"""What a schema without `$schema` is to Tidegate: the schemas of this folder are taken as they are."""


class Fraction(str):
    """A number with a fraction or an exponent, as it was written: a double may be another number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One document, as JSON text, and whether it is valid."""

    description: str
    document: str
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Group:
    """One schema and its cases. `file` is relative to the draft's folder, such as optional/format/date.json."""

    draft: str
    file: str
    description: str
    schema: Any
    cases: tuple[Case, ...]

    @property
    def formats(self) -> str:
        """Whether the suite means `format` to refuse: only where it says so."""
        return "assert" if self.file.startswith("optional/format") else "annotate"

    def __str__(self) -> str:
        return f"{self.draft}/{self.file}: {self.description}"


def fetch(cache: Path) -> Path:
    """Return the checked archive, fetched into `cache` if it is not there. Raises RuntimeError when it cannot be had."""
    archive = cache / ARCHIVE
    if archive.is_file() and _sha256(archive) == SHA256:
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=cache, ignore_cleanup_errors=True) as scratch:
        wanted = Path(scratch) / "wanted.txt"
        wanted.write_text(f"jsonschema=={VERSION} --hash=sha256:{SHA256}\n")
        # pip builds the metadata of what it downloads, that is, runs it; with hashes, not before it is checked.
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        what = ("--no-deps", "--no-binary", "jsonschema", "--require-hashes", "--requirement", str(wanted))
        done = subprocess.run([*pip, *what, "--dest", scratch], capture_output=True, text=True, check=False)
        arrived = Path(scratch) / ARCHIVE
        if done.returncode or not arrived.is_file() or _sha256(arrived) != SHA256:
            raise RuntimeError(
                f"{ARCHIVE} with the JSON-Schema-Test-Suite could not be fetched; it is needed once, and pip must "
                f"reach a package index for it: {done.stderr.strip() or 'other bytes arrived'}"
            )
        arrived.replace(archive)
    return archive


def default_cache() -> Path:
    """Return the folder of the archive, beside the jars in the user's cache folder."""
    return platformdirs.user_cache_path("tidegate") / "json-schema-test-suite"


def read_groups(archive: Path) -> tuple[Group, ...]:
    """Read every schema of the drafts in DRAFTS with its cases, in order of draft and file."""
    with tarfile.open(archive) as bundle:
        texts = {
            member.name.removeprefix(f"{FOLDER}/tests/"): _content(bundle, member)
            for member in bundle.getmembers()
            if member.isfile()
            and member.name.startswith(f"{FOLDER}/tests/")
            and member.name.endswith(".json")
        }
    return tuple(group for draft in DRAFTS for group in _of_draft(draft, texts))


def licence(archive: Path) -> str:
    """Read the licence of the suite."""
    with tarfile.open(archive) as bundle:
        return _content(bundle, bundle.getmember(f"{FOLDER}/LICENSE"))


def written(value: Any) -> str:
    """Write a value of the suite as JSON, each number as the suite has it."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {written(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


def _of_draft(draft: str, texts: dict[str, str]) -> Iterator[Group]:
    for name in sorted(name for name in texts if name.startswith(f"{draft}/")):
        for group in json.loads(texts[name], parse_float=Fraction):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema and draft != DEFAULT_DRAFT:
                schema = {"$schema": DRAFTS[draft], **schema}
            cases = tuple(
                Case(case["description"], written(case["data"]), case["valid"]) for case in group["tests"]
            )
            yield Group(draft, name.removeprefix(f"{draft}/"), group["description"], schema, cases)


def _content(bundle: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = bundle.extractfile(member)
    assert content is not None, member.name
    return content.read().decode()


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
