"""The operation that judges posted records.

Records are judged byte for byte: a record is a slice of the request body, and is never serialized again.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.errors import Problem
from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.conversions import judgement_info
from tidegate.gateway.http.dependencies import FactoryDep, media_type, read_body
from tidegate.gateway.http.models.answers import JudgementInfo
from tidegate.gateway.http.models.examples import RECORDS
from tidegate.gateway.http.native.contracts import ContractId, Version
from tidegate.gateway.http.problems import BodyTooLarge, InvalidBody, RequestError, responses

_SPACE = re.compile(r"[ \t\n\r]*")
# Only the extent of a value matters here, so numbers of any length are skipped without conversion.
_DECODER = json.JSONDecoder(parse_int=lambda _: ..., parse_float=lambda _: ..., parse_constant=lambda _: ...)
_FIRST = frozenset('{["-0123456789tfnNI')  # the first character of a value


class PostedRecord(BaseModel):
    """One record: give `value` or `value_base64`."""

    model_config = ConfigDict(extra="forbid")

    value: Any = Field(default=None, description="Any JSON value, judged as it is written here.")
    value_base64: str | None = Field(
        default=None, description="The record's bytes in base64; null is a tombstone."
    )


class RecordBatch(BaseModel):
    """Records to judge, in order."""

    model_config = ConfigDict(extra="forbid")

    records: list[PostedRecord]


def lines(content: bytes) -> tuple[bytes, ...]:
    """Split a body into records at LF only. A final LF ends the last record; it does not start another one."""
    if not content:
        return ()
    return tuple(content.removesuffix(b"\n").split(b"\n"))


def read_envelope(content: bytes) -> tuple[bytes | None, ...]:
    """Parse `{"records": [{"value": ...}, {"value_base64": ...}]}`; return the bytes of each record.

    The bytes of `value` are those from its first to its last character in the body. `value_base64: null` is a
    tombstone, None in the result. Raises RequestError for a body that is not JSON, and InvalidBody for another shape.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RequestError("the body is not UTF-8; send such records as value_base64") from error
    return _Envelope(text).records()


class _Envelope:
    """A parser of the envelope, from left to right. It uses the JSON decoder to find the end of each value."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def records(self) -> tuple[bytes | None, ...]:
        found: list[bytes | None] | None = None
        for key in self._members(""):
            if key != "records" or found is not None:
                # An unknown name may be data of a record, so the message does not repeat it.
                _refuse("/records" if key == "records" else "", "the body has one member, records")
            found = self._elements()
        if self._peek():
            raise self._malformed()
        if found is None:
            _refuse("", 'the body is {"records": [...]}')
        return tuple(found)

    def _elements(self) -> list[bytes | None]:
        self._open("[", "/records", "is an array of records")
        found: list[bytes | None] = []
        if self._accept("]"):
            return found
        while True:
            found.append(self._record(f"/records/{len(found)}"))
            if self._accept("]"):
                return found
            self._expect(",")

    def _record(self, pointer: str) -> bytes | None:
        found: list[bytes | None] = []
        for key in self._members(pointer):
            start = self._at
            value = self._value()
            if key == "value":
                found.append(self._text[start : self._at].encode("utf-8", "surrogatepass"))
            elif key == "value_base64":
                found.append(_decoded(value, f"{pointer}/{key}"))
            else:
                _refuse(pointer, "a record has one member, value or value_base64")
        if len(found) != 1:
            _refuse(pointer, "a record has one member, value or value_base64")
        return found[0]

    def _members(self, pointer: str) -> Any:
        """Yield the keys of an object, each at the start of its value. The caller must read the value."""
        self._open("{", pointer, "is an object")
        if self._accept("}"):
            return
        while True:
            if self._peek() != '"':
                raise self._malformed()
            key = self._value()
            self._expect(":")
            self._peek()
            yield key
            if self._accept("}"):
                return
            self._expect(",")

    def _value(self) -> Any:
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except RecursionError as error:
            raise RequestError("a value is nested too deep to be cut out; send it as value_base64") from error
        except ValueError as error:
            raise self._malformed() from error
        return value

    def _peek(self) -> str:
        """Skip whitespace; return the next character, or "" at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._malformed()

    def _open(self, token: str, pointer: str, sentence: str) -> None:
        if self._peek() not in _FIRST:
            raise self._malformed()
        if not self._accept(token):
            _refuse(pointer, sentence)

    def _malformed(self) -> RequestError:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return RequestError(
            "the body is not valid JSON; records that are not valid JSON are sent as value_base64",
            (Problem("", "here the body stops being JSON", line=line, column=column),),
        )


def _decoded(value: Any, pointer: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        _refuse(pointer, "is a string in base64, or null for a tombstone")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidBody("the records cannot be read", (Problem(pointer, "is no base64"),)) from error


def _refuse(pointer: str, message: str) -> NoReturn:
    raise InvalidBody("the records cannot be read", (Problem(pointer, message),))


router = APIRouter(prefix="/api/v1", tags=["judge"])

_LINES_TYPES = ("application/x-ndjson", "text/ndjson", "application/ndjson")
_Values = tuple[bytes | None, ...]


async def posted_values(request: Request, factory: FactoryDep) -> _Values:
    """Read the posted records, byte for byte (None: a tombstone), as a FastAPI dependency.

    Raises UnknownMediaType, BodyTooLarge, RequestError and InvalidBody.
    """
    found = media_type(request, ("application/json", *_LINES_TYPES))
    content = await read_body(request, factory.settings.max_judge_bytes)
    values = lines(content) if found in _LINES_TYPES else read_envelope(content)
    limit = factory.settings.max_judge_records
    if len(values) > limit:
        raise BodyTooLarge(f"{len(values)} records are more than {limit}, the limit of one request")
    return values


@router.post(
    "/contracts/{contract_id}/versions/{version}/judge",
    operation_id="judge_records",
    summary="Judge records",
    responses=responses(400, 404, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": (
                "Records to judge, byte for byte. As JSON, `value` is judged exactly as it is written in the body "
                "(spaces, digits and duplicate keys included), `value_base64` holds any bytes, and "
                "`value_base64: null` is a tombstone. As x-ndjson each line is one record; lines end at LF only, "
                "and blank lines are records too. A value that does not fit its column is a violation, as for "
                "a stream with a table."
            ),
            "content": {
                "application/json": {"schema": RecordBatch.model_json_schema(), "example": RECORDS},
                "application/x-ndjson": {
                    "schema": {"type": "string"},
                    "example": '{"admission_id": "A-1", "age": 63}\n{"admission_id": "A-2", "age": 999}\n',
                },
            },
        }
    },
)
@checked
def judge_records(
    contract_id: ContractId,
    version: Version,
    values: Annotated[_Values, Depends(posted_values)],
    factory: FactoryDep,
) -> JudgementInfo:
    """Judge records and say what is wrong with each. Nothing of them is kept, logged or repeated."""
    return judgement_info(factory.judge_service().judge(contract_id, version, values))
