"""The page about privacy: what it says of sentences, tokens and accepted values is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.masked_values import MaskedValues
from tidegate.gateway.access.principal import Role
from tidegate.gateway.streams.reveals import REVEAL_ACTION, REVEAL_ROLE

PAGE = Path("docs/explanation/privacy.md").read_text("utf-8")
KEY = MaskKey.of("0123456789abcdef0123456789abcdef")
DATE = {"type": "string", "format": "date"}
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}}}


def contract(**more: Any) -> DataContract:
    names = ("patient_id", "note", "name")
    properties = {
        **{name: {"type": "string"} for name in names},
        "age": {"type": "number"},
        "address": ADDRESS,
        "admission_date": DATE,
        "discharge_date": DATE,
    }
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "c",
            "version": "1.0.0",
            "topic": "c",
            "schema": {"type": "json-schema", "definition": {"properties": properties}},
            **more,
        }
    )


def test_the_sentence_on_the_page_is_the_shown_one() -> None:
    rule = {"id": "r", "kind": "ordered", "fields": ["/admission_date", "/discharge_date"]}
    plan = compile_plan(contract(rules=[{**rule, "description": "Nobody leaves before they came."}]))
    value = b'{"admission_date": "2026-10-04", "discharge_date": "2026-10-01"}'
    (told,) = Explainer.of(plan).explain(value, plan.explain(value).violations)
    block = f"```\n{told.sentence}\n  {told.description}\n  passes with {told.passes}\n```"
    assert block in PAGE
    hidden = compile_plan(contract(rules=[rule], classification={"/admission_date": "pii"}))
    (told,) = Explainer.of(hidden).explain(value, hidden.explain(value).violations)
    assert f"*{told.sentence}*" in re.sub(r"\s+", " ", PAGE)


def test_the_masks_on_the_page_are_a_contracts() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    value: Any = read_yaml("privacy.md", block).value
    plan = compile_plan(contract(**value), KEY)
    assert "note" not in plan.columns.names
    assert plan.columns.field("patient_id").type == "string"


def test_the_digits_of_the_text_on_the_page_are_openssls() -> None:
    assert "printf 'text:P-1' | openssl dgst -sha256 -hmac" in PAGE
    assert KEY.token("P-1") == f"{KEY.id}:b0508b19a4e819ff85ed1d3aa10cff443867a09966c384a5e704aa0f0115cfdb"


@pytest.mark.parametrize(("name", "was", "is_now"), [("name", r'"\u00e9"', '"é"'), ("age", "6.3e1", "63.0")])
def test_spellings_change_as_the_page_says(name: str, was: str, is_now: str) -> None:
    masked = MaskedValues(compile_plan(contract(mask={"/note": "drop"}), KEY))
    assert masked.value(f'{{"{name}": {was}}}'.encode()) == f'{{"{name}":{is_now}}}'.encode()
    assert f"`{was.strip(chr(34))}` as `{json.loads(is_now)}`" in PAGE


def test_who_may_reveal_is_who_the_page_says() -> None:
    assert (
        f"| the desk, role `{REVEAL_ROLE.word}` or `{Role.ADMIN.word}` | the same, and may reveal |" in PAGE
    )
    assert f"`{REVEAL_ACTION}`" in PAGE
