"""The page with the list of contracts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.parameters import Words
from tidegate.gateway.http.desk.streams_views import owner_in
from tidegate.gateway.storage.sql import ContractVersion, VersionFilter

MOST_CONTRACTS = 5000
"""Maximum number of contracts that the page searches; a larger registry is searched with the API."""
ROWS = 100


class ContractsFilter(BaseModel):
    """The filters of the list, as query parameters. `q` is a part of an id, topic or owner; `start` is a row."""

    q: Words = None
    owner: Words = None
    domain: Words = None
    start: Annotated[int, Field(ge=0, le=10**6)] = 0


@dataclass(frozen=True, slots=True)
class ContractLine:
    """One contract with its current version; `owner` and `domain` are "" if the document has none."""

    version: ContractVersion
    owner: str
    domain: str


@dataclass(frozen=True, slots=True)
class ContractsView:
    """A page of the list. `total` is the number of visible contracts, `found` of those that match the filter.

    `previous` and `next` are URLs; None if there is no such page.
    """

    wanted: ContractsFilter
    rows: tuple[ContractLine, ...]
    total: int
    found: int
    owners: tuple[str, ...]
    domains: tuple[str, ...]
    is_filtered: bool
    previous: str | None
    next: str | None


def contracts_view(factory: Factory, principal: Principal, wanted: ContractsFilter) -> ContractsView:
    """Return a page of the contracts that a principal may see."""
    page = factory.registry().contracts(
        VersionFilter(prefixes=principal.prefixes), offset=0, limit=MOST_CONTRACTS
    )
    rows = [_row(version) for version in page.contracts]
    found = [row for row in rows if _passes(row, wanted)]
    shown = tuple(found[wanted.start : wanted.start + ROWS])
    after = wanted.start + ROWS
    return ContractsView(
        wanted,
        shown,
        page.total,
        len(found),
        tuple(sorted({row.owner for row in rows} - {""})),
        tuple(sorted({row.domain for row in rows} - {""})),
        is_filtered=any((wanted.q, wanted.owner, wanted.domain)),
        previous=_address(wanted, max(0, wanted.start - ROWS)) if wanted.start else None,
        next=_address(wanted, after) if after < len(found) else None,
    )


def _row(version: ContractVersion) -> ContractLine:
    return ContractLine(version, owner_in(version.document), version.domain or "")


def _passes(row: ContractLine, wanted: ContractsFilter) -> bool:
    words = f"{row.version.contract_id}\n{row.version.topic}\n{row.owner}".casefold()
    return (
        (wanted.q is None or wanted.q.casefold() in words)
        and wanted.owner in {None, row.owner}
        and wanted.domain in {None, row.domain}
    )


def _address(wanted: ContractsFilter, start: int) -> str:
    query = {**wanted.model_dump(exclude_none=True), "start": start}
    return f"/desk/contracts?{urlencode(query)}"
