"""Infer a contract from records: profile most of them, propose rules, and judge the held-back ones by the result."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

import fastavro
import numpy as np
import orjson
import pyarrow as pa

from tidegate.contracts.collector import without_collector
from tidegate.contracts.columns.json_rows import json_cells, json_rows, require_json
from tidegate.contracts.columns.typed import column_name, derived_type
from tidegate.contracts.compiled import check_compiles, schema_fields
from tidegate.contracts.document.fields import FieldType, SchemaFields, join, refuses_null, types_of
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ContractError, mistakes_by_rule
from tidegate.contracts.formats.avro_reader import EncodedSize
from tidegate.contracts.infer.columns import Mask, Positions, ValueKind
from tidegate.contracts.infer.day_rules import day_rules
from tidegate.contracts.infer.evaluate import Evaluation, evaluate
from tidegate.contracts.infer.length_rules import length_rules, withdraw_doubtful
from tidegate.contracts.infer.number_rules import number_rules
from tidegate.contracts.infer.pairs import Path
from tidegate.contracts.infer.personal import CLASS, reason_of
from tidegate.contracts.infer.profile import EACH, FieldProfile, Profile
from tidegate.contracts.infer.proposal import Proposal, RuleList, label, words_of
from tidegate.contracts.infer.relation_rules import relation_rules
from tidegate.contracts.infer.structure import ProposedType, Structure, structure_of
from tidegate.contracts.infer.text_rules import text_rules
from tidegate.contracts.infer.unread import NO_VALUE, Unread

VALUES: Final = pa.schema([pa.field("value", pa.binary())])
"""Schema of batches of encoded records, JSON or Avro."""
_HELD_BACK: Final = 20_000
_HELD_BACK_BYTES: Final = 64 << 20
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE_IN: Final = 10
_IDENTIFIERS: Final = frozenset(
    {"id", "key", "uuid", "guid", "number", "no", "nr", "reference", "ref", "code"}
)


@dataclass(slots=True)
class Inferred:
    """A proposed contract with its evidence. `document` is its content without comments, `definition` its schema."""

    document: dict[str, Any]
    definition: Any
    structure: Structure
    rules: list[Proposal]
    personal: dict[Path, str]
    """Fields that seem to hold personal data, with the reason."""
    key: Proposal | None
    records: int
    broken: Unread
    evaluation: Evaluation

    @property
    def proposals(self) -> list[Proposal]:
        """Return all proposals: those of the schema, then the rules."""
        return [*self.structure.proposals, *self.rules]


@dataclass(slots=True)
class Inference:
    """The inference of one contract: `add` takes batches of records, and `finish` proposes the contract.

    One record in ten is held back for judging, at most `most_held`. The choice depends only on the position, so that
    runs are reproducible. `avro_schema` is the schema of Avro records; None for JSON or rows of a table.
    """

    avro_schema: Any = None
    most_held: int = _HELD_BACK
    profile: Profile = field(default_factory=Profile)
    broken: Unread = field(default_factory=Unread)
    _held: list[tuple[Positions, pa.RecordBatch, bool]] = field(default_factory=list)
    _threshold: np.uint64 = field(default_factory=lambda: np.uint64(0xFFFFFFFFFFFFFFFF // _ONE_IN))
    _untyped: bool = False

    @property
    def records(self) -> int:
        """Return the number of readable records that were added."""
        return self.profile.records + sum(len(positions) for positions, _, _ in self._held)

    def add(self, batch: pa.RecordBatch, positions: Positions, *, untyped: bool = False) -> None:
        """Add records: a column `value` of bytes (the schema VALUES), or the rows of a table.

        `positions` identify the records, such as line numbers. `untyped` means that the columns are texts from a file
        without types, such as CSV.

        Raises SettingsError for a column type that JSON cannot express.
        """
        if batch.schema != VALUES:
            require_json(batch.schema)
        self._untyped |= untyped
        if untyped and batch.num_columns > 1:
            batch, positions = self._with_a_value(batch, positions)
        hashes = _hashes(positions)
        is_held = hashes <= self._threshold
        if is_held.any():
            self._hold(batch.filter(pa.array(is_held)), positions[is_held], untyped=untyped)
        self._profile(batch.filter(pa.array(~is_held)), positions[~is_held], untyped=untyped)
        while self._is_full():
            self._release()

    def _with_a_value(self, batch: pa.RecordBatch, positions: Positions) -> tuple[pa.RecordBatch, Positions]:
        """Return the rows that have a value, and record the others as unreadable.

        Spreadsheets often end with rows of empty cells. As records they would make every field optional.
        """
        is_empty = np.logical_and.reduce(
            [column.is_null().to_numpy(zero_copy_only=False) for column in batch.columns]
        )
        if not is_empty.any():
            return batch, positions
        for position in positions[is_empty].tolist():
            self.broken.add_row(position, NO_VALUE, "")
        return batch.filter(pa.array(~is_empty)), positions[~is_empty]

    def merge(self, other: Inference) -> None:
        """Add the records of another inference for the same source; `other` must not be used again."""
        self.profile.merge(other.profile)
        self.broken.merge(other.broken)
        self._untyped |= other._untyped
        self._held += other._held
        self._threshold = min(self._threshold, other._threshold)
        self._release_others()
        while self._is_full():
            self._release()

    def _hold(self, batch: pa.RecordBatch, positions: Positions, *, untyped: bool) -> None:
        """Hold records back, except those that cannot be read."""
        if batch.schema == VALUES:
            _, is_read = self._decoded(batch, positions)
            batch, positions = batch.filter(pa.array(is_read)), positions[is_read]
        self._held.append((positions, batch, untyped))

    def _is_full(self) -> bool:
        number = sum(len(positions) for positions, _, _ in self._held)
        return number > 1 and (
            number > self.most_held or sum(batch.nbytes for _, batch, _ in self._held) > _HELD_BACK_BYTES
        )

    def _release(self) -> None:
        """Halve the share of records that are held back, and profile the others."""
        self._threshold = self._threshold >> np.uint64(1)
        self._release_others()

    def _release_others(self) -> None:
        """Profile the records that are no longer held back."""
        held, self._held = self._held, []
        for positions, batch, untyped in held:
            stays = _hashes(positions) <= self._threshold
            if stays.any():
                self._held.append((positions[stays], batch.filter(pa.array(stays)), untyped))
            self._profile(batch.filter(pa.array(~stays)), positions[~stays], untyped=untyped)

    def _profile(self, batch: pa.RecordBatch, positions: Positions, *, untyped: bool) -> None:
        if batch.schema != VALUES:
            self.profile.add_table(batch, positions, untyped=untyped)
            return
        with without_collector():
            rows, is_read = self._decoded(batch, positions)
            self.profile.add_rows(rows, positions[is_read])

    def _decoded(self, batch: pa.RecordBatch, positions: Positions) -> tuple[list[dict[str, Any]], Mask]:
        """Return the decoded records, and a mask of those that can be read; record the others as unreadable."""
        rows: list[dict[str, Any]] = []
        is_read = np.ones(len(positions), bool)
        size = None if self.avro_schema is None else _size_of(orjson.dumps(self.avro_schema))
        for index, value in enumerate(batch.column(0).to_pylist()):
            row = self._record(value, size)
            if isinstance(row, dict):
                rows.append(row)
            else:
                is_read[index] = False
                self.broken.add_value(value, int(positions[index]), is_avro=self.avro_schema is not None)
        return rows, is_read

    def _record(self, value: bytes | None, size: EncodedSize | None) -> Any:
        """Return the decoded record; None if it cannot be read."""
        try:
            if value is None:
                return None
            if size is not None:
                size.end(value)
                return fastavro.schemaless_reader(io.BytesIO(value), self.avro_schema, None)
            return orjson.loads(value)
        except (ValueError, EOFError, IndexError, OverflowError, RecursionError):
            return None

    def finish(self, name: str) -> Inferred:
        """Return the proposed contract with the id `name`."""
        if not self.records:
            self._held, held = [], self._held
            for positions, batch, untyped in held:
                self._profile(batch, positions, untyped=untyped)
        structure = structure_of(self.profile.root, words_title(name))
        rules = RuleList()
        fields = {each.path: each for each in self.profile.fields()}
        personal = {path: why for path, each in fields.items() if (why := reason_of(each)) is not None}
        if self.avro_schema is None:
            structure.proposals += _finite_numbers(fields.values())
        for path, each in fields.items():
            self._field_rules(each, structure.types.get(path), rules, is_personal=path in personal)
        relation_rules(self.profile, fields, structure.types, personal, rules)
        order = list(fields)
        if self.avro_schema is None:  # an Avro schema cannot limit lengths
            length_rules(fields, structure, rules)
        rules.rules.sort(key=lambda each: order.index(each.path))
        usable = [each for each in rules.rules if all(step == EACH or step for step in each.path)]
        key = self._key(structure)
        document = partial(self._document, name, structure, usable, personal, key)
        evaluation = self._evaluate(_compiling(document, usable), [*structure.proposals, *usable])
        withdraw_doubtful(structure)
        return Inferred(
            document(),
            self._definition(structure),
            structure,
            usable,
            personal,
            key,
            self.records,
            self.broken,
            evaluation,
        )

    def _field_rules(
        self, each: FieldProfile, kind: ProposedType | None, rules: RuleList, *, is_personal: bool
    ) -> None:
        if kind is None:
            return
        if kind.is_only(ValueKind.INTEGER, ValueKind.NUMBER):
            number_rules(each, rules, is_personal=is_personal)
        elif kind.is_only(ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.LOCAL_TIMESTAMP) or (
            kind.is_only(ValueKind.STRING) and each.texts.days.count
        ):
            day_rules(each, rules, day_format=kind.format, is_personal=is_personal)
        elif kind.is_only(ValueKind.STRING):
            text_rules(each, rules, is_personal=is_personal)

    def _key(self, structure: Structure) -> Proposal | None:
        """Return a proposal for the field that identifies records best; None if no field nearly does."""
        candidates = []
        for name, each in self.profile.root.fields.items():
            kind = structure.types.get(each.path)
            is_key = (
                kind is not None
                and kind.is_only(ValueKind.INTEGER, ValueKind.STRING)
                and len(kind.kinds) == 1
            )
            if (
                not is_key
                or each.keys.is_off
                or each.keys.seen < 100
                or (each.texts.formats.keys() - {"uuid"} and each.texts.count)
            ):
                continue
            if each.keys.repeated > 0.001 * each.keys.seen or words_of((name,))[-1] not in _IDENTIFIERS:
                continue
            candidates.append(each)
        if not candidates:
            return None
        best = min(candidates, key=lambda each: each.keys.repeated)
        return Proposal(
            "primary_key",
            best.path,
            f"{label(best.path)} is different in every record",
            best.keys.seen,
            best.keys.repeated,
            tuple(best.keys.first_repeated),
            doubt="some values are repeated" if best.keys.repeated else None,
        )

    def _definition(self, structure: Structure) -> Any:
        return structure.definition if self.avro_schema is None else self.avro_schema

    def _document(
        self,
        name: str,
        structure: Structure,
        rules: list[Proposal],
        personal: dict[Path, str],
        key: Proposal | None,
    ) -> dict[str, Any]:
        document: dict[str, Any] = {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": name,
            "version": "0.1.0",
            "topic": name,
            "schema": {
                "type": "json-schema" if self.avro_schema is None else "avro",
                "definition": self._definition(structure),
            },
        }
        if columns := self._columns(structure):
            document["columns"] = columns
        if key is not None and key.is_enforced:
            names = {each["from"]: each["name"] for each in columns}
            document["primary_key"] = [names.get(key.pointer, column_name(key.path[0]))]
        document["rules"] = [each.rule for each in rules if each.is_enforced]
        classified = {
            each.pointer: CLASS
            for path in personal
            for each in [Proposal("", path, "", 0)]
            if EACH not in path[-1:]
        }
        if classified:
            document["classification"] = classified
        return document

    def _columns(self, structure: Structure) -> list[dict[str, str]]:
        """Return explicit columns if the derived ones would have equal names or not hold all values; else none."""
        if self.avro_schema is not None:
            return []
        root = self.profile.root.fields.values()
        special = {each.path[0]: kind for each in root if (kind := _special_type(each)) is not None}
        names = [column_name(each.path[0]).lower() for each in root]
        if not special and len(set(names)) == len(names):
            return []
        schema = {"type": "json-schema", "definition": structure.definition}
        head = {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "x",
            "version": "0.1.0",
            "topic": "x",
        }
        fields = schema_fields(DataContract.model_validate({**head, "schema": schema}))
        columns = []
        taken: set[str] = set()
        for each in root:
            name, number = column_name(each.path[0]), 1
            while name.lower() in taken:
                number += 1
                name = f"{column_name(each.path[0])}_{number}"
            taken.add(name.lower())
            found = fields.find(each_pointer := join(each.path)) or FieldType()
            kind = special.get(each.path[0]) or derived_type(found, formats_hold=True)
            columns.append({"name": name, "from": each_pointer, "type": kind})
        return columns

    def _evaluate(self, document: dict[str, Any], proposals: list[Proposal]) -> Evaluation:
        """Judge the held-back records by the proposed contract."""
        contract = DataContract.model_validate(document)
        fields = schema_fields(contract)
        values = [_values(batch, fields, untyped=untyped) for _, batch, untyped in self._held]
        positions = (
            np.concatenate([each for each, _, _ in self._held]) if self._held else np.empty(0, np.int64)
        )
        return evaluate(contract, values, positions, proposals, self.profile.records)


def _finite_numbers(fields: Iterable[FieldProfile]) -> Iterator[Proposal]:
    """Yield a proposal for each field of a table with NaN or an infinity, which makes a record invalid JSON."""
    for each in fields:
        found = each.numbers.not_finite
        if found.count:
            because = f"{label(each.path)} is a finite number, since JSON has no other"
            yield Proposal(
                "json.not-finite", each.path, because, each.values, found.count, tuple(found.first)
            )


def _values(batch: pa.RecordBatch, fields: SchemaFields, *, untyped: bool) -> pa.Array:
    """Return records as an array of binary or large_binary; rows of a table become JSON."""
    if batch.schema == VALUES:
        return batch.column(0)
    may_be_absent = partial(refuses_null, fields)
    if untyped:
        return json_cells(batch, partial(types_of, fields), may_be_absent)
    return json_rows(batch, may_be_absent)


def _special_type(field: FieldProfile) -> str | None:
    """Return a column type for a field whose derived type cannot hold all values; None if it can."""
    if field.has_nanoseconds:
        return "string"
    low, high = field.numbers.counts.edges()
    is_large = (
        ValueKind.INTEGER in field.kinds and bool(low) and (high[0][0] >= 2**63 or low[0][0] < -(2**63))
    )
    return "json" if is_large else None


def words_title(name: str) -> str:
    """Return a title for the schema of a contract: the words in the last part of its id."""
    words = words_of((name.rsplit(".", 1)[-1],))
    return " ".join(words).capitalize()


@lru_cache(maxsize=8)
def _size_of(schema: bytes) -> EncodedSize:
    return EncodedSize(orjson.loads(schema))


def _hashes(positions: Positions) -> Any:
    with np.errstate(over="ignore"):
        mixed = (positions.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return mixed ^ (mixed >> np.uint64(32))


def _compiling(document: Callable[[], dict[str, Any]], rules: list[Proposal]) -> dict[str, Any]:
    """Return the document without the rules that do not compile; these become doubtful.

    `document` builds it from the enforced ones among `rules`. Raises ContractError for a mistake elsewhere.
    """
    while True:
        built = document()
        try:
            check_compiles(DataContract.model_validate(built))
        except ContractError as error:
            enforced = [each for each in rules if each.is_enforced]
            wrong = mistakes_by_rule(error)
            if not wrong:
                raise
            for index, message in wrong.items():
                enforced[index].doubt = f"it does not suit the schema: {message}"
        else:
            return built
