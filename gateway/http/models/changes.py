"""Request and response models about breaking changes, consumers, agreements and approvals."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.document.model import Compatibility, Consumer
from tidegate.contracts.document.terms import Identifier, Pointer
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.gateway.http.models.examples import example, request_example

_CANDIDATE = "9b0c1d2e3f405162738495a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80"
_FINDING: dict[str, Any] = {
    "severity": "breaking",
    "code": "schema.minimum-raised",
    "sentence": "`minimum` of `/age` went from 0 to 18; a record that the old schema accepts breaks it",
    "pointer": "/schema/definition/properties/age/minimum",
    "base_pointer": "/schema/definition/properties/age/minimum",
    "field": "/age",
    "outcome": "refuted",
    "direction": "backward",
    "counterexample": {"text": '{"age":0,"admission_id":""}', "avro_base64": None},
    "consumers": ["age-report"],
}
CHANGE: dict[str, Any] = {
    "contract": "hospital.admissions",
    "version": "1.3.0",
    "candidate": _CANDIDATE,
    "level": "BACKWARD",
    "is_publishable": False,
    "is_breaking": True,
    "is_new_major": False,
    "affected": ["age-report"],
    "unaffected": ["length-of-stay-report"],
    "acknowledged": [],
    "unacknowledged": ["age-report"],
    "needs_break_acknowledged": False,
    "comparisons": [{"against": "1.2.0", "suggested_version": "2.0.0", "findings": [_FINDING]}],
}
_READS: dict[str, Any] = {
    "team": "capacity planning",
    "reads": ["/admission_date", "/discharge_date"],
    "assumes": {"properties": {"age": {"maximum": 130}}},
}
_CONSUMER: dict[str, Any] = {
    "id": "length-of-stay-report",
    **_READS,
    "registered_by": "key:3f9c2a71b0de",
    "registered_at": "2026-07-01T12:00:00Z",
}
_AGREEMENT: dict[str, Any] = {"consumer": "age-report", "candidate": _CANDIDATE, "by": "Ada, of the report"}
_ACKNOWLEDGEMENT: dict[str, Any] = {
    **_AGREEMENT,
    "who": "key:3f9c2a71b0de",
    "at": "2026-07-01T12:00:00Z",
}
_PROPOSAL: dict[str, Any] = {
    "contract": "hospital.admissions",
    "version": "1.3.0",
    "base": "df9a40da8f1c2b3a4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4",
    "candidate": _CANDIDATE,
    "weakenings": [
        {
            "code": "contract.classification-lowered",
            "sentence": "`/patient_id`: class was pii and is not given any more",
            "pointer": "/classification",
            "field": "/patient_id",
        }
    ],
    "proposed_by": "key:3f9c2a71b0de",
    "proposed_at": "2026-07-01T12:00:00Z",
    "approved_by": "key:5d1e9c0a7b42",
    "approved_at": "2026-07-01T12:30:00Z",
    "next_step": "Have another person than key:3f9c2a71b0de, with the role approver, run `tidegate approve "
    f"hospital.admissions {_CANDIDATE}`, then make the same request again",
}


def _utf8(value: Any) -> Any:
    """Return text that can be encoded as UTF-8: a lone surrogate in a counterexample becomes its JSON escape."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _base64(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


Text = Annotated[str, BeforeValidator(_utf8)]


class CounterexampleInfo(BaseModel):
    """A record that one version accepts and the other refuses, judged by both."""

    model_config = ConfigDict(from_attributes=True)

    text: Text = Field(description="The record as JSON; for Avro, in Avro's JSON encoding.")
    avro_base64: Annotated[str | None, BeforeValidator(_base64)] = Field(
        validation_alias=AliasChoices("avro_base64", "encoded"),
        description="The Avro binary of the record; null for JSON Schema.",
    )


class FindingInfo(BaseModel):
    """One difference between two versions, with the affected consumers and a counterexample."""

    model_config = example(_FINDING)

    severity: FindingSeverity
    code: str
    sentence: Text
    pointer: Text = Field(description="JSON Pointer into the candidate.")
    base_pointer: Text = Field(description="JSON Pointer into the version before.")
    field: Text = Field(description="JSON Pointer of the place in a record; empty when it is about no field.")
    outcome: Outcome
    direction: Direction | None
    counterexample: CounterexampleInfo | None
    consumers: tuple[str, ...] = Field(description="The consumers that it touches.")


class ComparisonInfo(BaseModel):
    """The findings against one version, breaking ones first."""

    model_config = ConfigDict(from_attributes=True)

    against: str
    suggested_version: str = Field(description="The smallest version that the findings allow.")
    findings: tuple[FindingInfo, ...]


class ChangeInfo(BaseModel):
    """The breaking changes of a candidate, the affected consumers, and the missing acknowledgements."""

    model_config = example(CHANGE)

    contract: str
    version: str
    candidate: str = Field(description="Fingerprint of the candidate; an acknowledgement names it.")
    level: Compatibility
    is_publishable: bool = Field(description="Whether it is compatible, agreed to, or a new major version.")
    is_breaking: bool
    is_new_major: bool
    affected: tuple[str, ...] = Field(description="Consumers that a breaking finding touches.")
    unaffected: tuple[str, ...] = Field(description="The other registered consumers.")
    acknowledged: tuple[str, ...] = Field(description="Consumers that agreed to this candidate.")
    unacknowledged: tuple[str, ...] = Field(description="Consumers that have not agreed yet.")
    needs_break_acknowledged: bool = Field(
        description="It breaks, no registered consumer is affected, and the break was not acknowledged."
    )
    comparisons: tuple[ComparisonInfo, ...] = Field(
        description="The newest version first; none for a first version."
    )


class ConsumerRequest(BaseModel):
    """The team of a consumer, the fields that it reads, and its assumptions."""

    model_config = request_example(_READS)

    team: str | None = Field(default=None, description="The team that is responsible for the consumer.")
    reads: tuple[Pointer, ...] = Field(
        default=(), description="Fields that it reads, as JSON Pointers; without any, it may read all."
    )
    assumes: dict[str, Any] | bool | None = Field(
        default=None, description="A JSON Schema of its assumptions about every record."
    )

    def consumer(self, consumer_id: str) -> Consumer:
        """Return the request as a consumer with this id."""
        return Consumer(id=consumer_id, team=self.team, reads=self.reads, assumes=self.assumes)


class ConsumerInfo(BaseModel):
    """A consumer of a contract."""

    model_config = example(_CONSUMER)

    id: str
    team: str | None
    reads: tuple[str, ...]
    assumes: dict[str, Any] | bool | None
    registered_by: str | None = Field(description="Null for one that only the contract's document names.")
    registered_at: datetime | None


class ConsumerList(BaseModel):
    """The consumers of a contract, by id."""

    model_config = example({"consumers": [_CONSUMER]})

    consumers: tuple[ConsumerInfo, ...]


class AgreementRequest(BaseModel):
    """An agreement of a consumer to a change.

    Either `consumer`, or `breaking: true` for a break that affects no registered consumer; and either the `candidate`
    or, for a draft, its `version`.
    """

    model_config = request_example(_AGREEMENT)

    consumer: Identifier | None = Field(default=None, description="The consumer that agrees.")
    breaking: bool = Field(default=False, description="Agree to a break that affects no registered consumer.")
    candidate: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="Fingerprint of the candidate, as the refusal gives it.",
    )
    version: str | None = Field(default=None, description="Instead: the version of a draft.")
    by: str | None = Field(
        default=None, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="The person who agreed."
    )

    @model_validator(mode="after")
    def _names_one_of_each(self) -> Self:
        if (self.consumer is None) is not self.breaking:
            raise ValueError("give either `consumer` or `breaking: true`")
        if (self.candidate is None) is (self.version is None):
            raise ValueError("give either `candidate` or `version`")
        return self


class AcknowledgementInfo(BaseModel):
    """An agreement to one candidate."""

    model_config = example(_ACKNOWLEDGEMENT)

    consumer: str | None = Field(
        description="Null for the agreement to a break that affects no registered consumer."
    )
    candidate: str
    by: str | None = Field(
        validation_alias=AliasChoices("by", "agreed_by"), description="The person who agreed."
    )
    who: str = Field(description="The principal that recorded it.")
    at: datetime


class AcknowledgementList(BaseModel):
    """The acknowledgements, oldest first."""

    model_config = example({"acknowledgements": [_ACKNOWLEDGEMENT]})

    acknowledgements: tuple[AcknowledgementInfo, ...]


class WeakeningInfo(BaseModel):
    """One way in which a proposed contract is less strict than the enforced one."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    sentence: Text
    pointer: Text = Field(
        description="JSON Pointer into the proposed document, the nearest place that exists."
    )
    field: Text = Field(description="JSON Pointer of the place in a record; empty when it is about no field.")


class ProposalInfo(BaseModel):
    """A change that weakens the enforced contract, with its author and approver."""

    model_config = example(_PROPOSAL)

    contract: str
    version: str = Field(description="The version that would be enforced; empty when none would be left.")
    base: str = Field(description="Fingerprint of the version that is enforced.")
    candidate: str = Field(description="Fingerprint of the candidate; an approval names it.")
    weakenings: tuple[WeakeningInfo, ...]
    proposed_by: str
    proposed_at: datetime
    approved_by: str | None = Field(description="Null while it waits for an approver.")
    approved_at: datetime | None
    next_step: str = Field(description="The next step before the change takes effect.")


class ProposalList(BaseModel):
    """The proposed changes of the enforced version, oldest first."""

    model_config = example({"proposals": [_PROPOSAL]})

    proposals: tuple[ProposalInfo, ...]


class ApprovalRequest(BaseModel):
    """The change to approve."""

    model_config = request_example({"candidate": _CANDIDATE})

    candidate: str = Field(
        pattern="^[0-9a-f]{64}$", description="Fingerprint of the candidate, as the refusal gives it."
    )
