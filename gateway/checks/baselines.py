"""Sources of earlier versions: a registry, a commit, or another folder."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.load import load_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.semver import precedence
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.contracts.words import seen
from tidegate.gateway.checks.discovery import SUFFIXES, Candidate, Selection, contracts_below, is_contract
from tidegate.gateway.checks.git import Revision, load_contract_at
from tidegate.gateway.checks.history import BaseVersion, History
from tidegate.gateway.checks.places import shown_path
from tidegate.gateway.client.registry import RegistryClient


@dataclass(frozen=True, slots=True)
class BaseDocument:
    """A contract document of a base: `key` identifies it there, `shown` is its path in messages.

    `contract` is None if the document is invalid; `problem` says why.
    """

    key: str
    shown: str
    origin: str
    contract: DataContract | None
    problem: Problem | None = None

    @property
    def version(self) -> BaseVersion | None:
        """Return the document as an earlier version; None if it is invalid."""
        contract = self.contract
        if contract is None:
            return None
        return BaseVersion(
            contract.version, contract.status, fingerprint(contract), self.origin, lambda: contract
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """A contract of the base without a candidate; `moved_to` is a file outside the check with this contract, if any."""

    document: BaseDocument
    contract: DataContract
    moved_to: str | None = None


class Baseline(Protocol):
    """A source of earlier versions of contracts."""

    def history(self, candidate: Candidate) -> History:
        """Return the earlier versions of a candidate; none if it does not compile."""

    def missing(self, candidates: Iterable[Candidate]) -> tuple[Missing, ...]:
        """Return the contracts of the base that have no candidate."""


class RegistryBaseline:
    """The versions in a registry. It has contracts of other repositories too, so none counts as removed."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    def history(self, candidate: Candidate) -> History:
        """Return the published versions; their documents are fetched on demand."""
        if candidate.loaded is None:
            return History()
        contract_id = candidate.loaded.contract.id
        published = self._client.versions(contract_id)
        return History(
            tuple(
                BaseVersion(
                    found.version,
                    found.status,
                    found.fingerprint,
                    f"registry:{contract_id}@{found.version}",
                    self._loader(contract_id, found.version),
                    found.note,
                )
                for found in published
            ),
            is_published=True,
            readers=self._client.readers(contract_id) if published else (),
        )

    def missing(self, candidates: Iterable[Candidate]) -> tuple[Missing, ...]:  # noqa: ARG002 - of the protocol
        """Return an empty tuple."""
        return ()

    def _loader(self, contract_id: str, version: str) -> Callable[[], DataContract]:
        return lambda: self._client.fetch(contract_id, version).contract


class _Documents:
    """The documents of a base, by key and by contract id."""

    def __init__(self, documents: Iterable[BaseDocument]) -> None:
        self.by_key = {document.key: document for document in documents}
        self.by_id: defaultdict[str, list[BaseDocument]] = defaultdict(list)
        for document in self.by_key.values():
            if document.contract is not None:
                self.by_id[document.contract.id].append(document)

    def history(self, contract_id: str, here: BaseDocument | None) -> History:
        """Return the versions of a contract; `here` is the document in the candidate's place."""
        found = [document.version for document in self.by_id.get(contract_id, ())]
        versions = sorted(
            (version for version in found if version is not None),
            key=lambda version: precedence(version.version),
            reverse=True,
        )
        if here is None or here.contract is None:
            return History(tuple(versions), unreadable=None if versions or here is None else here.problem)
        previous = here.version if here.contract.id == contract_id else None
        return History(tuple(versions), previous)

    def missing(
        self, candidates: Iterable[Candidate], places: set[str]
    ) -> list[tuple[BaseDocument, DataContract]]:
        """Return the highest version of each contract without a candidate, except those with a document in `places`."""
        present = {candidate.loaded.contract.id for candidate in candidates if candidate.loaded is not None}
        gone = []
        for contract_id, documents in self.by_id.items():
            if contract_id in present or places & {document.key for document in documents}:
                continue
            pairs = [(one, one.contract) for one in documents if one.contract is not None]
            gone.append(max(pairs, key=lambda pair: precedence(pair[1].version)))
        return gone


class GitBaseline:
    """The contracts of a commit.

    The scope is the content of the named folders and files in that commit. A contract outside it is searched for in the
    whole commit, because its file may have been moved.
    """

    def __init__(self, revision: Revision, selection: Selection) -> None:
        self._revision = revision
        self._scope = [self._key(path) for path in (*selection.folders, *selection.missing)]
        self._require_known(selection.missing)
        places = {self._key(file.path) for file in selection.files}
        places |= {key for key in revision.files if key.endswith(SUFFIXES) and self._is_in_scope(key)}
        read = ((key, revision.read(key)) for key in sorted(places & revision.files.keys()))
        self._documents = _Documents(self._document(key) for key, content in read if is_contract(content))

    def history(self, candidate: Candidate) -> History:
        """Return the versions of the contract in scope, or else in the whole commit."""
        if candidate.loaded is None:
            return History()
        contract_id = candidate.loaded.contract.id
        here = self._documents.by_key.get(self._key(candidate.file.path))
        if contract_id in self._documents.by_id:
            return self._documents.history(contract_id, here)
        naming = (key for key, content in self._out_of_scope.items() if contract_id.encode() in content)
        return _Documents(self._document(key) for key in naming).history(contract_id, here)

    def missing(self, candidates: Iterable[Candidate]) -> tuple[Missing, ...]:
        """Return contracts that were removed from the scope, with their new place in the working tree."""
        candidates = tuple(candidates)
        broken = {self._key(one.file.path) for one in candidates if one.loaded is None}
        gone = self._documents.missing(candidates, broken)
        return tuple(Missing(document, contract, self._moved(contract.id)) for document, contract in gone)

    @cached_property
    def _out_of_scope(self) -> dict[str, bytes]:
        """Return the contract documents of the commit that are not in scope, by key."""
        keys = (key for key in self._revision.files if key.endswith(SUFFIXES))
        read = ((key, self._revision.read(key)) for key in keys if key not in self._documents.by_key)
        return {key: content for key, content in read if is_contract(content)}

    @cached_property
    def _working_tree(self) -> dict[Path, bytes]:
        """Return the contract documents of the working tree, by path."""
        return {path: path.read_bytes() for path in contracts_below(self._revision.root)}

    def _moved(self, contract_id: str) -> str | None:
        """Return the file of the working tree that has this contract; None if there is none."""
        for path, content in self._working_tree.items():
            if contract_id.encode() in content:
                try:
                    found = load_contract(path).contract.id
                except ContractError:
                    continue  # a file with mistakes has no certain id
                if found == contract_id:
                    return shown_path(os.path.relpath(path))
        return None

    def _document(self, key: str) -> BaseDocument:
        shown = shown_path(os.path.relpath(self._revision.root / key))
        origin = seen(f"git:{self._revision.ref}:{key}")
        try:
            return BaseDocument(key, shown, origin, load_contract_at(self._revision, key).contract)
        except ContractError as error:
            return BaseDocument(key, shown, origin, None, error.problems[0])

    def _key(self, path: Path) -> str:
        key = self._revision.key(path)
        if key is None:
            raise SettingsError(f"{path} lies outside the repository {self._revision.root}")
        return key

    def _is_in_scope(self, key: str) -> bool:
        return any(scope in {".", key} or key.startswith(f"{scope}/") for scope in self._scope)

    def _require_known(self, missing: Iterable[Path]) -> None:
        """Raise SettingsError for a path that the commit does not have either: it is misspelled, not deleted."""
        for path in missing:
            scope = self._key(path)
            if not any(key == scope or key.startswith(f"{scope}/") for key in self._revision.files):
                raise SettingsError(f"{path} does not exist, neither here nor in {self._revision.ref}")


class FolderBaseline:
    """The contracts of another folder, or one other file.

    If both sides are one file, they are compared whatever their ids.
    """

    def __init__(self, base: Path, selection: Selection) -> None:
        self._is_pair = base.is_file() and len(selection.files) == 1 and not selection.folders
        self._is_whole = base.is_dir() and bool(selection.folders)
        if not base.exists():
            raise SettingsError(
                f"{base} does not exist; compare with `registry`, `git:REF`, a file or a folder"
            )
        paths = [base] if base.is_file() else contracts_below(base)
        if not paths:
            raise SettingsError(f"there is no contract in {base}: nothing to compare with")
        self._documents = _Documents(_file_document(path, base) for path in paths)

    def history(self, candidate: Candidate) -> History:
        """Return the versions of the contract by its id; `here` is the file in the same place of the base."""
        if candidate.loaded is None:
            return History()
        if self._is_pair:
            (only,) = self._documents.by_key.values()
            if only.version is None:
                return History(unreadable=only.problem)
            return History((only.version,), only.version)
        here = self._documents.by_key.get(os.path.relpath(candidate.file.path, candidate.file.argument))
        return self._documents.history(candidate.loaded.contract.id, here)

    def missing(self, candidates: Iterable[Candidate]) -> tuple[Missing, ...]:
        """Return the contracts that only the base has, if both sides are folders; otherwise an empty tuple."""
        if not self._is_whole:
            return ()
        candidates = tuple(candidates)
        broken = {
            os.path.relpath(one.file.path, one.file.argument) for one in candidates if one.loaded is None
        }
        return tuple(Missing(*gone) for gone in self._documents.missing(candidates, broken))


def _file_document(path: Path, base: Path) -> BaseDocument:
    key, shown = os.path.relpath(path, base), shown_path(path)
    try:
        return BaseDocument(key, shown, shown, load_contract(path).contract)
    except ContractError as error:
        return BaseDocument(key, shown, shown, None, error.problems[0])
