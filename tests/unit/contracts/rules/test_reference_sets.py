"""Reference sets: read from files beside the contract, and published with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.document.load import dump_contract, parse_contract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: shop.orders
version: 1.0.0
topic: shop.orders
schema: {type: json-schema, definition: {type: object, properties: {code: {type: string}, n: {type: integer}}}}
rules:
  - {id: code-exists, kind: one_of, field: /code, set: codes}
reference_sets:
  codes: {description: What we sell., file: FILE}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("codes.txt", "a\n\n b \r\n"),
        ("codes.json", '["a", "b"]'),
        ("codes.yaml", "- a\n- b\n"),
    ],
)
def test_a_file_next_to_the_contract_gives_the_values(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT.replace("FILE", name))
    contract = lint(path).contract
    assert contract.reference_sets["codes"].values == ("a", "b")
    published = dump_contract(contract)
    assert b"codes." not in published
    assert parse_contract(published, name="published.json", read_schema=None).contract == contract


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("codes.json", '{"a": 1}', "10:45: `codes.json` holds no list of values"),
        ("codes.txt", "\n", "10:45: `codes.txt` holds no list of values"),
        ("other.txt", None, "10:45: cannot read `other.txt`: No such file or directory"),
        ("../x.txt", None, "10:45: `../x.txt` is outside the contract's folder; keep the schema beside the contract"),
        ("codes.json", "[1", "codes.json:1:3: "),
    ],
)  # fmt: skip
def test_a_file_without_values_is_reported_where_it_is_named(
    tmp_path: Path, name: str, content: str | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT.replace("FILE", name))
    with pytest.raises(ContractError) as caught:
        lint(path)
    assert problem in str(caught.value)


def test_a_published_document_names_no_file() -> None:
    with pytest.raises(ContractError, match="put the values themselves under `values`"):
        parse_contract(CONTRACT.replace("FILE", "codes.txt"), name="c.yaml", read_schema=None)


def test_a_value_that_its_field_never_holds_is_reported() -> None:
    text = CONTRACT.replace("file: FILE", "values: [1]")
    with pytest.raises(ContractError) as caught:
        compile_plan(parse_contract(text, name="c.yaml", read_schema=None).contract)
    assert "the field never holds this number: its type in the schema is string" in str(caught.value)
