"""Judging of posted records with the plan that the streaming job uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Verdict
from tidegate.gateway.registry.publication import ContractRegistry
from tidegate.gateway.registry.schemas.entities import AVRO, JSON
from tidegate.gateway.registry.subject_reading import ListedSubjects, SubjectReader
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.storage.subjects import Deleted, StoredSchema

_TYPES: Final[dict[str, Any]] = {AVRO: "avro", JSON: "json-schema"}


def with_writers(plan: EnforcementPlan, subjects: SubjectReader) -> EnforcementPlan:
    """Return a plan with the schemas that its records may name: all of its topic's subject, deleted ones too."""
    return plan.with_writers(_writers(plan.contract.topic, subjects)) if plan.needs_writers else plan


def _writers(topic: str, subjects: SubjectReader) -> WriterSchemas:
    subject = subject_of(topic)
    listed = subjects.listed(ListedSubjects(subject, Deleted.SHOWN), latest_only=False)
    schemas = (version.schema for version in listed if version.subject == subject)
    return WriterSchemas(tuple(_writer(schema, subjects) for schema in schemas), is_current=True)


def _writer(schema: StoredSchema, subjects: SubjectReader) -> WriterSchema:
    text = subjects.resolved_text(schema) if subjects.references(schema) else schema.text
    return WriterSchema(schema.id, UUID(schema.guid), _TYPES.get(schema.schema_type), text)


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """The verdicts on some records in their order, explanations, and the version that judged them.

    `explanations` has the explanations of each record's violations, without values of classified fields.
    """

    version: ContractVersion
    verdicts: tuple[Verdict, ...]
    explanations: tuple[tuple[Explanation, ...], ...]


class PlanCache:
    """A thread-safe cache of the last used plans, by document.

    Two threads may compile the same plan at the same time, with the same result.
    """

    def __init__(self, size: int) -> None:
        self._compiled = lru_cache(maxsize=size)(_compile)

    def plan(self, version: ContractVersion) -> EnforcementPlan:
        """Return the compiled plan of a published version."""
        return self._compiled(version.document)


def _compile(document: bytes) -> EnforcementPlan:
    return compile_plan(DataContract.model_validate_json(document))


class JudgeService:
    """A service that judges posted records by a published version, and stores nothing."""

    def __init__(self, registry: ContractRegistry, plans: PlanCache, subjects: SubjectReader) -> None:
        self._registry = registry
        self._plans = plans
        self._subjects = subjects

    def judge(self, contract_id: str, version: str, values: tuple[bytes | None, ...]) -> JudgedRecords:
        """Judge record values byte for byte (None: a tombstone). Raises NotFoundError."""
        found = self._registry.version(contract_id, version)
        plan = self._plans.plan(found)
        if plan.contract.framing != "confluent-header":  # posted records have no headers
            plan = with_writers(plan, self._subjects)
        given = pa.array(values, type=pa.large_binary())
        judged = plan.judge_typed(given)
        verdicts = tuple(plan.explain_each(given, typed=True, failed=judged.field("failed")))
        explainer = Explainer.of(plan)
        explanations = (
            explainer.explain(value, verdict.violations)
            for value, verdict in zip(values, verdicts, strict=True)
        )
        return JudgedRecords(found, verdicts, tuple(explanations))
