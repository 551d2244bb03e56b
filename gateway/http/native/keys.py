"""Operations on API keys: create, list and revoke them. They need the role admin for all subjects."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Path, Response
from pydantic import AliasChoices, AwareDatetime, BaseModel, Field

from tidegate.contracts.errors import Problem, SettingsError
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example, request_example
from tidegate.gateway.http.problems import InvalidBody, responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/keys", tags=["access"])

_WANTED: dict[str, Any] = {
    "name": "admissions job",
    "grants": ["reporter:hospital.admissions"],
    "expires_at": "2030-01-01T00:00:00Z",
}
_KEY: dict[str, Any] = {
    "key_id": "3f9c2a71b0de",
    **_WANTED,
    "created_by": "key:0a1b2c3d4e5f",
    "created_at": "2026-07-01T12:00:00Z",
    "revoked_at": "2027-01-01T00:00:00Z",
}
_SECRET = "the-secret-of-this-key-shown-this-once"  # noqa: S105 - an example, not a real secret
_NEW_KEY: dict[str, Any] = {**_KEY, "secret": _SECRET, "token": f"tgk_{_KEY['key_id']}_{_SECRET}"}

KeyId = Annotated[str, Path(description="Id of the key.", examples=["3f9c2a71b0de"])]


class KeyRequest(BaseModel):
    """A key to create."""

    model_config = request_example(_WANTED)

    name: str = Field(min_length=1, max_length=200, description="What the key is for.")
    grants: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="Each `role` or `role:prefix`; roles are viewer, reporter, producer, approver and admin.",
    )
    expires_at: AwareDatetime | None = Field(
        default=None, description="Instant at which the key expires; null: never."
    )


class KeyInfo(BaseModel):
    """A key without its secret, which is not stored."""

    model_config = example(_KEY)

    key_id: str = Field(validation_alias=AliasChoices("key_id", "id"))
    name: str
    grants: tuple[str, ...]
    created_by: str
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    revoked_at: AwareDatetime | None = Field(
        description="Instant at which the key was revoked; null if it was not."
    )


class NewKeyInfo(KeyInfo):
    """A new key with its secret, which only this answer has."""

    model_config = example(_NEW_KEY)

    secret: str = Field(description="Password of basic authentication; the user is the key's id.")
    token: str = Field(description="Id and secret together, for use as a bearer token.")


class KeyList(BaseModel):
    """Every key, oldest first."""

    model_config = example({"keys": [_KEY]})

    keys: tuple[KeyInfo, ...]


@router.post(
    "",
    operation_id="create_key",
    summary="Create an API key",
    status_code=HTTPStatus.CREATED,
    responses=responses(413, 415, 422, 503),
    openapi_extra=body_of(KeyRequest),
)
def create_key(
    wanted: Annotated[KeyRequest, posted(KeyRequest, "key")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> NewKeyInfo:
    """Create a key. Only a hash of its secret is stored. If you lose the secret, create a new key."""
    try:
        grants = read_grants(wanted.grants)
        made = factory.keys().create(wanted.name, grants, principal.name, wanted.expires_at)
    except SettingsError as error:
        raise InvalidBody("the key cannot be created", (Problem("", str(error)),)) from error
    _log.info("key_created", key=made.key_id)
    response.headers["Cache-Control"] = "no-store"
    shown = KeyInfo.model_validate(factory.keys().find(made.key_id))
    return NewKeyInfo(**shown.model_dump(), secret=made.secret, token=made.token)


@router.get("", operation_id="list_keys", summary="List API keys", responses=responses(503))
def list_keys(factory: FactoryDep) -> KeyList:
    """List every key, revoked and expired ones included, without secrets."""
    return KeyList(keys=tuple(KeyInfo.model_validate(key) for key in factory.keys().all()))


@router.delete(
    "/{key_id}",
    operation_id="revoke_key",
    summary="Revoke an API key",
    responses=responses(404, 409, 422, 503),
)
def revoke_key(key_id: KeyId, factory: FactoryDep, principal: PrincipalDep) -> KeyInfo:
    """Revoke a key permanently. Every process stops accepting it within the time for which it caches keys."""
    revoked = factory.keys().revoke(key_id, principal.name)
    _log.info("key_revoked", key=key_id)
    return KeyInfo.model_validate(revoked)
