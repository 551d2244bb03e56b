"""Read files of an earlier commit from git's object store, without using the working tree.

Only plumbing commands run, so no hook, filter or program of the repository is started.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self, cast

from tidegate.contracts.document.load import LoadedContract, parse_contract
from tidegate.contracts.errors import SettingsError

_REGULAR = ("100644", "100755")


class Revision:
    """One commit of the repository that holds `folder`; use it in a `with` statement.

    `root` is the top folder of the working tree, `commit` the full id. Raises SettingsError for a folder
    outside a repository, and for an unknown commit.
    """

    def __init__(self, folder: Path, ref: str) -> None:
        self.ref = ref
        self.root = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n"))).resolve()
        self.commit = self._resolve(ref)
        self._files: dict[str, str] | None = None
        self._reader = subprocess.Popen(
            ["git", "cat-file", "--batch"], cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._pipes = cast("IO[bytes]", self._reader.stdin), cast("IO[bytes]", self._reader.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.communicate()

    @property
    def files(self) -> dict[str, str]:
        """Return the object ids of the commit's regular files, by path from the root. Links and submodules are left out."""
        if self._files is None:
            listing = _git(self.root, "ls-tree", "-r", "-z", "--full-tree", self.commit)
            entries = (entry.partition(b"\t") for entry in listing.split(b"\0") if entry)
            self._files = {
                os.fsdecode(name): meta.split()[2].decode()
                for meta, _, name in entries
                if meta.split()[0].decode() in _REGULAR
            }
        return self._files

    def read(self, path: str) -> bytes:
        """Read a file by its path from the root. Raises FileNotFoundError, or SettingsError if git lacks the object."""
        object_id = self.files.get(path)
        if object_id is None:
            raise FileNotFoundError(2, f"there is no such file in {self.ref}", path)
        stdin, stdout = self._pipes
        try:
            stdin.write(object_id.encode() + b"\n")
            stdin.flush()
            header = stdout.readline().split()
        except BrokenPipeError:  # otherwise it would be taken for a closed pipe of our own output
            header = []
        if len(header) != 3:
            raise SettingsError(f"git does not give {path} at {self.ref}; is the clone complete?")
        content = stdout.read(int(header[2]))
        stdout.read(1)  # the line end after each content
        return content

    def key(self, path: Path) -> str | None:
        """Return the path of a file from the root of the working tree; None for a file outside it."""
        # Resolve links among the folders, but not the file itself, which git stores as a link.
        absolute = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
        return absolute.relative_to(self.root).as_posix() if absolute.is_relative_to(self.root) else None

    def _resolve(self, ref: str) -> str:
        try:
            found = _git(
                self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
            )
        except SettingsError:
            raise SettingsError(
                f"git knows no commit `{ref}` in {self.root}; fetch it first (`git fetch origin {ref}`), or name "
                "another: a branch, a tag, origin/main, HEAD~1"
            ) from None
        return found.decode().strip()


def load_contract_at(revision: Revision, key: str) -> LoadedContract:
    """Load a contract and its schema file from a commit. Raises ContractError with positions, and SettingsError."""
    name = f"git:{revision.ref}:{key}"
    try:
        content = revision.read(key)
    except OSError as error:
        raise SettingsError(f"{key}: {error.strerror}") from None
    return parse_contract(content, name=name, read_schema=lambda file: revision.read(_schema_path(key, file)))


def _schema_path(contract: str, file: str) -> str:
    folder = PurePosixPath(contract).parent
    path = PurePosixPath(os.path.normpath(folder / file))
    if not path.is_relative_to(folder) or ".." in path.parts:
        raise ValueError(f"`{file}` is outside the contract's folder; keep the schema beside the contract")
    return path.as_posix()


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        # The messages of git are parsed below, so they must be in English.
        env = os.environ | {"LC_ALL": "C"}
        ran = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=False)
    except FileNotFoundError:
        if not folder.is_dir():
            raise SettingsError(f"there is no folder {folder}") from None
        raise SettingsError("git is not installed here; install it, or compare with a folder") from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        if "not a git repository" in said:
            raise SettingsError(
                f"{folder.resolve()} is in no git repository; compare with a folder or the registry instead"
            )
        raise SettingsError(f"git {arguments[0]} failed: {said or ran.returncode}")
    return ran.stdout
