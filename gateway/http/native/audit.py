"""The operation that reads the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.problems import responses
from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditedAction, chained, document

router = APIRouter(prefix="/api/v1", tags=["audit"])

_PUBLISHED = AuditedAction(
    datetime(2026, 7, 1, 12, tzinfo=UTC),
    "key:3f9c2a71b0de",
    "contract.published",
    "hospital.admissions-value",
    "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "3f5a0d6c1b0e4b8f9f6e2a7c5d4b3a291817161514131211100f0e0d0c0b0a09",
)
_ENTRY: dict[str, Any] = document(chained(_PUBLISHED, 1, NO_ENTRY))


class AuditEntryInfo(BaseModel):
    """One entry. `hash` is the SHA-256 of the other members as canonical JSON (RFC 8785), `previous` among them."""

    model_config = example(_ENTRY)

    number: int = Field(description="Counts from 1, without gaps.")
    at: str = Field(description="Instant in UTC, with six decimals: one spelling, because it is hashed.")
    who: str
    action: str
    subject: str
    before: str | None = Field(description="Hash of what was there; null when nothing was.")
    after: str | None = Field(description="Hash of what is there now; null when nothing is.")
    previous: str = Field(description="Hash of the entry before; 64 zeros before the first.")
    hash: str


class AuditList(BaseModel):
    """A part of the log, oldest first."""

    model_config = example({"entries": [_ENTRY], "head": _ENTRY["hash"]})

    entries: tuple[AuditEntryInfo, ...]
    head: str = Field(
        description="Hash of the newest entry of the whole log; note it, to see later if the end was cut off."
    )


@router.get(
    "/audit", operation_id="list_audit", summary="Read the audit log", responses=responses(403, 422, 503)
)
def list_audit(
    factory: FactoryDep,
    after: Annotated[int, Query(ge=0, lt=2**63, description="Entries numbered above this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many entries to give.")] = 100,
    subject: Annotated[str | None, Query(description="Only entries about this subject.")] = None,
) -> AuditList:
    """List who did what, oldest first. The next page begins after the last number of this one."""
    page = factory.audit().page(after, limit, subject)
    entries = tuple(AuditEntryInfo(**document(entry)) for entry in page.entries)
    return AuditList(entries=entries, head=page.head)
