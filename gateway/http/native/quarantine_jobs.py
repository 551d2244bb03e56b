"""Operations that take minutes: downloads of refused records, and searches for values in them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.quarantine import SearchesInfo, SearchInfo, SearchRequest
from tidegate.gateway.http.native.quarantine import FilterDep
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import responses
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.record_export import MEDIA_TYPES, MOST_RECORDS, ExportFormat

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams/{stream}/quarantine", tags=["quarantine"])

SearchId = Annotated[
    str,
    Path(max_length=64, description="Id of the search.", examples=["5d1e9c0a-7b42-4c0e-9d3f-2f6f3c1d7a10"]),
]


_EXAMPLE = "position,source,at,refused_at,contract,rules,fields,sentences,key,value,hidden,size"


@router.get(
    "/export",
    operation_id="export_refused_records",
    summary="Download refused records",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The records, by partition and offset.",
            "content": {
                media_type.partition(";")[0]: {"schema": {"type": "string"}, "example": _EXAMPLE}
                for media_type in MEDIA_TYPES.values()
            },
        },
        **responses(404, 422, 429, 503),
    },
)
def export_refused_records(
    stream: StreamName,
    factory: FactoryDep,
    principal: PrincipalDep,
    record_filter: FilterDep,
    *,
    form: Annotated[
        ExportFormat, Query(alias="format", description="Format of the download.")
    ] = ExportFormat.CSV,
    limit: Annotated[int, Query(ge=1, le=MOST_RECORDS, description="How many records at most.")] = 100_000,
) -> StreamingResponse:
    """Download the refused records of a filter without what the reader may not see. The audit log has who did it."""
    exports = factory.record_exports()
    parts = exports.begin(stream, record_filter.wanted, form, limit, factory.record_masking(), principal)
    _log.info("refused_records_exported", stream=stream, format=form.value)
    name = f"{stream}.quarantine.{form.value}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, headers=headers, media_type=MEDIA_TYPES[form])


@router.post(
    "/searches",
    operation_id="search_refused_records",
    summary="Search refused records for a value",
    status_code=HTTPStatus.CREATED,
    responses=responses(403, 404, 413, 415, 422, 429, 503),
    openapi_extra=body_of(SearchRequest),
)
def search_refused_records(
    stream: StreamName,
    wanted: Annotated[SearchRequest, posted(SearchRequest, "search for a value")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> SearchInfo:
    """Begin a search for a text in keys and values. It runs in the background; the audit log has who began it."""
    chosen = QuarantineFilter(**wanted.model_dump(exclude={"value"}))
    found = factory.value_searches().begin(stream, wanted.value, chosen, principal)
    _log.info("value_search_started", stream=stream, search=found.id)
    return SearchInfo.model_validate(found)


@router.get(
    "/searches", operation_id="list_value_searches", summary="List searches", responses=responses(404, 503)
)
def list_value_searches(stream: StreamName, factory: FactoryDep) -> SearchesInfo:
    """List the searches of a stream, newest first."""
    found = factory.value_searches().all(stream)
    return SearchesInfo(searches=tuple(map(SearchInfo.model_validate, found)))


@router.get(
    "/searches/{search}",
    operation_id="get_value_search",
    summary="Show a search",
    responses=responses(404, 503),
)
def get_value_search(stream: StreamName, search: SearchId, factory: FactoryDep) -> SearchInfo:
    """Show how far a search is, and what it found."""
    return SearchInfo.model_validate(factory.value_searches().get(stream, search))


@router.delete(
    "/searches/{search}",
    operation_id="cancel_value_search",
    summary="Cancel a search",
    responses=responses(404, 503),
)
def cancel_value_search(
    stream: StreamName, search: SearchId, factory: FactoryDep, principal: PrincipalDep
) -> SearchInfo:
    """End a search after the records that it looks at now. The audit log has who did it."""
    return SearchInfo.model_validate(factory.value_searches().cancel(stream, search, principal))
