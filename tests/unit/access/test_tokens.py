"""Tokens of an identity provider: signed by its key, for us, now; anything else proves nothing."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from pydantic import ValidationError

from tests.marks import examples
from tidegate.gateway.access.principal import Grant, Role
from tidegate.gateway.access.settings import AccessSettings
from tidegate.gateway.access.tokens import TokenReader, UnknownSigner, WrongToken
from tidegate.gateway.settings import GatewaySettings

NOW = 1_782_907_200
ISSUER, AUDIENCE = "https://login.example.org/", "tidegate"
SIGNER = RSAKey.generate_key(2048, auto_kid=True)
CURVE = ECKey.generate_key("P-256", auto_kid=True)
STRANGER = RSAKey.generate_key(2048, auto_kid=True)
KEYS = KeySet.import_key_set({"keys": [key.as_dict(private=False) for key in (SIGNER, CURVE)]})
GOOD = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "ana",
    "exp": NOW + 600,
    "tidegate_roles": ["producer:hospital."],
}
SETTINGS = AccessSettings(oidc_issuer=ISSUER, oidc_audience=AUDIENCE, oidc_jwks="keys.json")
READER = TokenReader(SETTINGS, lambda: datetime.fromtimestamp(NOW, UTC))


def token(
    claims: dict[str, Any] | None = None, header: dict[str, Any] | None = None, key: Any = SIGNER
) -> str:
    header = {"alg": "RS256", "kid": key.kid, **(header or {})}
    header = {name: value for name, value in header.items() if value is not None}
    claims = {name: value for name, value in {**GOOD, **(claims or {})}.items() if value is not None}
    registry = jws.JWSRegistry(
        algorithms=["none", "HS256", "RS256", "RS512", "ES256"], strict_check_header=False
    )
    return jwt.encode(header, claims, key, registry=registry, default_type=None)


def with_rsa(text: bytes) -> bytes:
    key = SIGNER.private_key
    assert key is not None
    return key.sign(text, PKCS1v15(), SHA256())


def signed(header: dict[str, Any], sign: Callable[[bytes], bytes] = with_rsa) -> str:
    """Sign any header, also one that no library would."""
    text = f"{part({'alg': 'RS256', 'kid': SIGNER.kid, **header})}.{part(GOOD)}"
    return f"{text}.{base64.urlsafe_b64encode(sign(text.encode())).rstrip(b'=').decode()}"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("header", "key"),
    [({}, SIGNER), ({"alg": "ES256"}, CURVE), ({"typ": "JWT"}, SIGNER), ({"typ": "AT+JWT"}, SIGNER)],
)
def test_a_token_of_the_issuer_says_who_asks(header: dict[str, Any], key: Any) -> None:
    principal = READER.principal(token(header=header, key=key), KEYS)
    assert (principal.name, principal.grants) == ("oidc:ana", (Grant(Role.PRODUCER, "hospital."),))


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://login.example.org"},
        {"iss": None},
        {"iss": [ISSUER]},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": None},
        {"aud": {"tidegate": 1}},
        {"exp": NOW - 31},
        {"exp": None},
        {"exp": "never"},
        {"exp": True},
        {"nbf": NOW + 31},
        {"iat": "yesterday"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\nb"},
        {"sub": "a\x00"},
        {"sub": "x" * 201},
    ],
)
def test_a_token_with_a_wrong_claim_proves_nothing(claims: dict[str, Any]) -> None:
    with pytest.raises(WrongToken):
        READER.principal(token(claims), KEYS)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 29},
        {"nbf": NOW + 29},
        {"aud": ["other", AUDIENCE]},
        {"tidegate_roles": "producer:hospital."},
    ],
)
def test_clocks_may_differ_a_little_and_audiences_may_be_several(claims: dict[str, Any]) -> None:
    assert READER.principal(token(claims), KEYS).may(Role.PRODUCER, "hospital.x-value")


def test_an_algorithm_off_the_list_proves_nothing_even_if_the_signature_is_right() -> None:
    with pytest.raises(WrongToken, match="UnsupportedAlgorithm"):
        READER.principal(token(header={"alg": "RS512"}), KEYS)


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE"])
def test_an_unsigned_token_proves_nothing(alg: str) -> None:
    for signature in ("", part("x")):
        with pytest.raises(WrongToken):
            READER.principal(f"{part({'alg': alg, 'kid': SIGNER.kid})}.{part(GOOD)}.{signature}", KEYS)


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    # The old attack: the published RSA key taken as the secret of an HMAC.
    for secret in (SIGNER.as_pem(private=False), SIGNER.as_der(private=False)):
        forged = signed({"alg": "HS256"}, lambda text, secret=secret: hmac.digest(secret, text, "sha256"))
        with pytest.raises(WrongToken, match="UnsupportedAlgorithm"):
            READER.principal(forged, KEYS)


def test_the_key_of_a_stranger_proves_nothing_whatever_it_calls_itself() -> None:
    with pytest.raises(UnknownSigner):
        READER.principal(token(key=STRANGER), KEYS)
    with pytest.raises(WrongToken, match="BadSignature"):
        READER.principal(token(header={"kid": SIGNER.kid}, key=STRANGER), KEYS)
    for brought in (
        {"jwk": STRANGER.as_dict(private=False)},
        {"jku": "https://evil.example"},
        {"x5u": "https://evil.example"},
    ):
        with pytest.raises((WrongToken, UnknownSigner)):
            READER.principal(token(header={**brought, "kid": None}, key=STRANGER), KEYS)


def test_what_is_signed_here_by_hand_is_a_good_token() -> None:
    assert READER.principal(signed({}), KEYS).name == "oidc:ana"


def test_a_changed_token_proves_nothing() -> None:
    head, _, signature = token().split(".")
    forged = f"{head}.{part({**GOOD, 'tidegate_roles': ['admin']})}.{signature}"
    with pytest.raises(WrongToken, match="BadSignature"):
        READER.principal(forged, KEYS)


@pytest.mark.parametrize("kind", ["dpop+jwt", "logout+jwt", 7])
def test_a_token_for_another_purpose_proves_nothing(kind: object) -> None:
    with pytest.raises(WrongToken):
        READER.principal(signed({"typ": kind}), KEYS)


def test_a_critical_extension_that_is_not_understood_proves_nothing() -> None:
    with pytest.raises(WrongToken):
        READER.principal(signed({"crit": ["x"], "x": 1}), KEYS)


@pytest.mark.parametrize("claim", [None, [], ["root"], {"admin": 1}, [["admin"]], "superadmin other:x", 7])
def test_without_a_role_of_ours_one_is_somebody_who_may_nothing(claim: object) -> None:
    principal = READER.principal(token({"tidegate_roles": claim}), KEYS)
    assert (principal.name, principal.grants, principal.prefixes) == ("oidc:ana", (), ())


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(st.text(max_size=60), st.tuples(*[st.binary(max_size=40)] * 3), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "typ", "zip"]), inner, max_size=4),
    max_leaves=6,
)))  # fmt: skip
def test_nothing_that_is_sent_as_a_token_crashes_its_reader(sent: Any) -> None:
    if isinstance(sent, tuple) and len(sent) == 3 and all(isinstance(one, bytes) for one in sent):
        text = ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in sent)
    elif isinstance(sent, str):
        text = sent
    else:
        text = f"{part(sent)}.{part(GOOD)}.{part('x')}"
    with pytest.raises((WrongToken, UnknownSigner)):
        READER.principal(text, KEYS)


def test_a_token_of_any_depth_and_length_does_no_harm() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 9000).rstrip(b"=").decode()
    for text in (f"{deep}.{deep}.x"[:16_384], "a" * 1_000_000, "." * 16_000):
        with pytest.raises((WrongToken, UnknownSigner)):
            READER.principal(text, KEYS)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"oidc_issuer": ISSUER}, "set TIDEGATE_OIDC_AUDIENCE and TIDEGATE_OIDC_JWKS too"),
        ({"oidc_jwks": "x"}, "set TIDEGATE_OIDC_ISSUER and TIDEGATE_OIDC_AUDIENCE too"),
        ({"oidc_algorithms": "none"}, "Input should be"),
        ({"oidc_algorithms": "RS256,HS256"}, "Input should be"),
        ({"oidc_algorithms": ""}, "at least 1"),
        ({"rate_limit": "often"}, "couldn't parse"),
        ({"access": "maybe"}, "Input should be 'on' or 'off'"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        GatewaySettings.model_validate(given)


def test_algorithms_are_read_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_OIDC_ALGORITHMS", "ES256, PS256")
    assert GatewaySettings().oidc_algorithms == ("ES256", "PS256")


class TestOverHttp:
    @pytest.fixture
    def keys_file(self, tmp_path: Path) -> Path:
        path = tmp_path / "keys.json"
        path.write_text(json.dumps({"keys": [SIGNER.as_dict(private=False)]}))
        return path

    @pytest.fixture
    def settings(self, settings: GatewaySettings, keys_file: Path) -> GatewaySettings:
        given = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_jwks": str(keys_file)}
        return settings.model_copy(update=given)

    @pytest.fixture
    def get(self, client: Any) -> Callable[..., int]:
        def ask(key: Any = SIGNER, path: str = "/subjects", **claims: Any) -> int:
            sent = token({"exp": int(time.time()) + 60, **claims}, key=key)
            answer = client.get(path, headers={"Authorization": f"Bearer {sent}"})
            found: int = answer.status_code
            return found

        return ask

    def test_a_token_opens_what_its_roles_cover(self, get: Callable[..., int]) -> None:
        assert get() == 200
        assert get(path="/api/v1/audit") == 403
        assert get(path="/api/v1/audit", tidegate_roles=["admin"]) == 200
        assert get(tidegate_roles=[]) == 403
        assert get(exp=int(time.time()) - 60) == 401
        assert get(key=STRANGER) == 401

    def test_keys_that_cannot_be_read_are_an_outage_and_no_mistake_of_the_caller(
        self, get: Callable[..., int], keys_file: Path
    ) -> None:
        keys_file.unlink()
        assert get(path="/api/v1/contracts") == 503

    def test_an_audit_entry_names_the_sub(self, client: Any, make_contract: Any, factory: Any) -> None:
        sent = token({"exp": int(time.time()) + 60})
        headers = {"Authorization": f"Bearer {sent}", "Content-Type": "application/json"}
        answer = client.request("POST", "/api/v1/contracts", content=make_contract(), headers=headers)
        assert answer.status_code == 201
        assert factory.audit().page(0, 1).entries[0].who == "oidc:ana"
