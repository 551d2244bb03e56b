"""The files that `tidegate judge` writes: accepted and refused records, unchanged, and a report."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import orjson
import pyarrow as pa

from tidegate.contracts.columns.json_rows import json_record
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.framing import Frames
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Violation
from tidegate.gateway.cli.judge_report import Totals, report_page
from tidegate.gateway.cli.judgement import JudgedBlock, Judgement
from tidegate.gateway.sources.record_files import RecordBlock

_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
"""Line ends in JSON are only white space between tokens, because strings cannot contain them."""


class JudgedFiles:
    """A writer of accepted and refused records (JSON Lines) and a report. Only the owner can read new files.

    A context manager: after an error, it removes the files, so that no incomplete result remains.
    """

    def __init__(self, accepted: Path | None, refused: Path | None, report: Path | None = None) -> None:
        """Create the files. Raises SettingsError for a file that exists, to avoid overwriting data, or cannot be written."""
        with ExitStack() as stack:
            self._accepted = _created(accepted, stack)
            self._refused = _created(refused, stack)
            self._report = _created(report, stack)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write_report(self, contract: DataContract, title: str, found: Judgement) -> None:
        """Write the report, if one was requested; `title` names the data."""
        if self._report is not None and found.findings is not None:
            totals = Totals(found.tally.dispositions, found.tally.unreadable)
            self._report.write(
                report_page(compile_plan(contract), title, totals, found.findings, datetime.now(UTC))
            )

    def write(self, judged: JudgedBlock) -> None:
        """Write accepted records, and refused ones with their verdicts. Unreadable records get an entry beside the refused ones."""
        if self._accepted is None and self._refused is None:
            return
        block = judged.block
        texts = _texts(judged.plan, block)
        for index, verdict in enumerate(judged.verdicts):
            if verdict.is_accepted and self._accepted is not None:
                self._accepted.write((texts(index) or b"null") + b"\n")
            elif not verdict.is_accepted and self._refused is not None:
                entry = judged.entry(index) | _as_member(texts(index), block.values[index])
                self._refused.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
        if self._refused is not None:
            for each in block.unreadable:
                entry = judged.unreadable_entry(each)
                self._refused.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))


def _created(path: Path | None, stack: ExitStack) -> BinaryIO | None:
    if path is None:
        return None
    if path.is_file():
        raise SettingsError(f"{path} exists; name another file, or remove it")
    try:
        # Not exclusive: the path may be a pipe or a device. The check above protects existing files.
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None

    def remove(kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        if kind is not None and path.is_file():
            path.unlink()

    stack.push(remove)  # before the file, so that the file is closed before it is removed
    return stack.enter_context(os.fdopen(file, "wb"))


def _texts(plan: EnforcementPlan, block: RecordBlock) -> Callable[[int], bytes | None]:
    """Return a function from an index to its record as one line of JSON; None for a record without a payload."""
    contract = plan.contract
    if isinstance(contract.schema_, AvroSchema):

        def decoded(index: int) -> bytes | None:
            value = block.values[index]
            record = None if value is None else plan.record_of(value, block.headers[index])
            if record is None or isinstance(record, Violation):
                return None
            return json_record(record, lambda _pointer: False)

        return decoded
    frames = Frames(contract.framing, contract.schema_.type)
    payloads = frames.open(pa.array(block.values, pa.large_binary())).payloads.to_pylist()

    def line(index: int) -> bytes | None:
        payload: bytes | None = payloads[index]
        return None if payload is None else payload.translate(_LINE_ENDS)

    return line


def _as_member(text: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Return the member `record` with the JSON of a refused record, or `base64` with bytes that orjson cannot read."""
    if value is None:
        return {"record": None}
    try:
        if text is not None:
            orjson.loads(text)
            return {"record": orjson.Fragment(text)}
    except ValueError:
        pass
    return {"base64": base64.b64encode(value).decode()}
