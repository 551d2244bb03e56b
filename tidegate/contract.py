"""`Contract` and `Registry`: the Python API to judge records, tables and data frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.json_rows import json_rows
from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import refuses_null
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.verdict import Verdict
from tidegate.frames import VERDICT, VERDICT_TYPE, kind_of, rows_where

if TYPE_CHECKING:
    from tidegate.gateway.client.registry import RegistryClient

Frame = TypeVar("Frame")
"""A DataFrame of Spark (classic or Connect), pandas or polars, or a `pyarrow.Table`."""


class Contract:
    """A compiled contract version. Immutable, safe to share between threads, and picklable.

    >>> contract = Contract.parse('''
    ... apiVersion: tidegate/v1
    ... kind: DataContract
    ... id: hospital.admissions
    ... version: 1.0.0
    ... topic: hospital.admissions
    ... schema:
    ...   type: json-schema
    ...   definition: {type: object, required: [age], properties: {age: {type: integer}}}
    ... rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
    ... ''')
    >>> contract.judge({"age": 63}).is_accepted
    True
    >>> [violation.code for violation in contract.judge(b'{"age": 999}').violations]
    ['age-is-known']
    """

    def __init__(self, document: DataContract) -> None:
        """Compile a contract document. Raises ContractError with all mistakes."""
        _require(
            document,
            DataContract,
            "Contract takes a document",
            "`Contract.load(path)` and `Contract.parse(text)` make one",
        )
        self._plan: EnforcementPlan = compile_plan(document)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _rebuilt, (self.document.model_dump_json(by_alias=True, exclude_defaults=True),)

    def __repr__(self) -> str:
        return f"<Contract {self._plan.name}>"

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a contract file, YAML or JSON, with the schema file that it names.

        Raises ContractError with all mistakes of the document and their positions.
        """
        _require(
            path,
            str | Path,
            "Contract.load takes a path",
            "for a document in memory, use `Contract.parse(text)`",
        )
        return cls(lint(Path(path)).contract)

    @classmethod
    def parse(cls, text: str | bytes, *, name: str = "contract") -> Self:
        """Parse a self-contained contract document, YAML or JSON; `name` is in error messages.

        Raises ContractError with all mistakes of the document and their positions.
        """
        _require(
            text,
            str | bytes,
            "Contract.parse takes text or bytes",
            "write a dictionary with `json.dumps` first",
        )
        return cls(parse_contract(text, name=name, read_schema=None).contract)

    @classmethod
    def infer(cls, frame: object, *, id: str) -> InferredContract:  # noqa: A002 - the name in contracts
        """Propose a contract from the rows of a DataFrame of Spark, pandas or polars, or of an Arrow table.

        One row in ten is held back, at most 20,000, and judged by the proposal. Spark profiles partitions in its workers and
        merges the profiles, so it collects the held-back rows only.

        Raises SettingsError for an invalid `id`, a frame without rows, or a column type that JSON cannot represent.
        """
        from tidegate.inferred import infer_text  # noqa: PLC0415 - judging does without it

        text = infer_text(frame, id)
        return InferredContract(cls.parse(text, name=f"{id}.yaml"), text)

    @property
    def document(self) -> DataContract:
        """Return the contract document."""
        return self._plan.contract

    @property
    def id(self) -> str:
        """Return the id of the contract."""
        return self.document.id

    @property
    def version(self) -> str:
        """Return the semantic version of the contract."""
        return self.document.version

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the contract in its canonical form, in hexadecimal."""
        return self._plan.fingerprint

    def judge(self, record: bytes | str | dict[str, Any] | None) -> Verdict:
        """Judge one record, as the job does.

        `record` is the value of a Kafka record, with its frame if the contract has one; JSON as text; or a dictionary,
        which is converted to JSON. None is a tombstone. Rules that compare with now use the time of the call.

        Raises SettingsError for a list, for a dictionary that JSON cannot represent, and for a dictionary or text if
        the contract describes Avro.
        """
        if isinstance(record, list | tuple):
            raise SettingsError(
                "judge takes one record, not a list; call it for each of them, or judge "
                "`pyarrow.Table.from_pylist(records)` with `judge_table`"
            )
        if record is None or isinstance(record, bytes):
            return self._plan.explain(record, typed=True)
        self._require_json()
        # A lone surrogate has no UTF-8 encoding, so the judge refuses these bytes.
        text = record.encode(errors="surrogatepass") if isinstance(record, str) else _written(record)
        return self._plain.explain(text, typed=True)

    def judge_table(self, table: pa.Table) -> pa.Table:
        """Return the table with an additional last column `verdict` (VERDICT_TYPE).

        Each row is converted to a JSON record (`tidegate.contracts.columns.json_rows`) and judged.

        Raises SettingsError if the contract describes Avro, JSON cannot represent a column type, or the table has a
        column `verdict`.
        """
        _require(table, pa.Table, "judge_table takes a pyarrow.Table", "`judge_frame` takes DataFrames")
        if VERDICT in table.schema.names:
            raise SettingsError(f"the table has a column `{VERDICT}` already; rename it first")
        if not table.num_rows:
            return table.append_column(pa.field(VERDICT, VERDICT_TYPE), pa.chunked_array([], VERDICT_TYPE))
        verdicts = pa.array(self._verdicts(table), VERDICT_TYPE)
        return table.append_column(pa.field(VERDICT, VERDICT_TYPE), verdicts)

    def judge_frame(self, frame: Frame) -> Frame:
        """Return a DataFrame of Spark, pandas or polars, or an Arrow table, with an additional last column `verdict`.

        Spark judges in its Python workers, which need Tidegate installed; no rows are collected. Each action judges again
        unless the result is cached. Works on Spark Connect, and needs no settings of the job.

        Raises the errors of `judge_table`, and SettingsError for other types. Spark raises errors of rows with an action.
        """
        if isinstance(frame, pa.Table):
            return cast("Frame", self.judge_table(frame))
        return cast("Frame", kind_of(frame).judge(self, frame))

    def split(self, frame: Frame) -> tuple[Frame, Frame]:
        """Return the accepted rows, unchanged, and the refused rows with the column `verdict`.

        Spark judges for each of them when it is used. To judge once, cache the result of `judge_frame` and filter it.
        """
        judged = self.judge_frame(frame)
        if isinstance(judged, pa.Table):
            is_accepted = judged.column(VERDICT).combine_chunks().field("accepted")
            accepted = rows_where(judged, is_accepted).drop_columns([VERDICT])
            return cast("Frame", accepted), cast("Frame", rows_where(judged, pc.invert(is_accepted)))
        return kind_of(frame).split(judged)

    def enforce(
        self, write: Callable[[Any], object], *, refused: Callable[[Any], object]
    ) -> Callable[[Any, int], None]:
        """Return a function for `foreachBatch` that passes the accepted rows of each batch to `write`.

        It first passes the refused rows, with the column `verdict`, to `refused`. Each is called once per batch, with a
        DataFrame; the judged batch is cached meanwhile. After a failure, Spark calls the function again with the same
        rows, so both must be idempotent. For exactly-once writes, use `tidegate enforce`. On Spark Connect, both are
        pickled, and the server calls them in a separate process.
        """

        def enforce_batch(batch: Any, _batch_id: int) -> None:
            judged = self.judge_frame(batch).persist()
            try:
                accepted, bad = kind_of(batch).split(judged)
                refused(bad)
                write(accepted)
            finally:
                judged.unpersist()

        return enforce_batch

    def _verdicts(self, table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
        self._require_json()
        values = json_rows(table, self._may_be_absent)
        judged = self._plain.judge_typed(values)
        for verdict in self._plain.explain_each(values, typed=True, failed=judged.field("failed")):
            yield {
                "accepted": verdict.is_accepted,
                "disposition": verdict.disposition.name.lower(),
                "violations": [
                    {
                        "stage": each.stage,
                        "code": each.code,
                        "pointer": each.pointer,
                        "severity": each.severity,
                        "message": each.message,
                    }
                    for each in verdict.violations
                ],
            }

    @cached_property
    def _plain(self) -> EnforcementPlan:
        """Return the plan for records without frames."""
        if self.document.framing == "none":
            return self._plan
        return compile_plan(self.document.model_copy(update={"framing": "none"}))

    @cached_property
    def _may_be_absent(self) -> Callable[[str], bool]:
        return partial(refuses_null, schema_fields(self.document))

    def _require_json(self) -> None:
        if isinstance(self.document.schema_, AvroSchema):
            raise SettingsError(f"{self.id} describes Avro: give `judge` the encoded value as bytes")


@dataclass(frozen=True, slots=True)
class InferredContract:
    """A proposed contract: `contract` can judge; `text` is the file to read, correct and publish."""

    contract: Contract
    """The contract in `text`, without the doubtful rules."""
    text: str
    """A self-contained contract file in YAML. Comments give the evidence of each rule; doubtful rules are comments."""


class Registry:
    """A client of a contract registry. Use it as a context manager, or call `close`.

    It uses the credentials of the command line: the variables TIDEGATE_REGISTRY_*, or those of `tidegate login`.
    """

    def __init__(self, url: str) -> None:
        """Create a client for the registry at a URL. Sends no request. Raises SettingsError."""
        from tidegate.gateway.client.registry import RegistryClient  # noqa: PLC0415 - loads an HTTP client

        self._client: RegistryClient = RegistryClient(url)

    def contract(self, contract_id: str, version: str = "latest") -> Contract:
        """Return a version of a contract; `latest` is the highest enforced one.

        Raises NotFoundError if there is none, Unavailable if the registry does not answer, and SettingsError for
        rejected credentials.
        """
        return Contract(self._client.fetch(contract_id, version).contract)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _require(value: object, expected: Any, taken: str, advice: str) -> None:
    if not isinstance(value, expected):
        raise SettingsError(f"{taken}, not a {type(value).__name__}; {advice}")


def _rebuilt(document: str) -> Contract:
    return Contract(DataContract.model_validate_json(document))


def _written(record: dict[str, Any]) -> bytes:
    """Return a dictionary as JSON, also with values that the judge refuses, such as NaN. Raises SettingsError for other types."""
    try:
        return json.dumps(record, default=lambda value: orjson.loads(orjson.dumps(value))).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"the record cannot be written as JSON: {error}. Give its JSON as bytes or text, or judge a table"
        ) from None
