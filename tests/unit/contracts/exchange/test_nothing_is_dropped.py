"""Every key of a foreign document is used, kept or listed: whole documents of each format, one key changed at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.marks import full
from tidegate.contracts.document.fields import value_at
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.source import SourceDocument, escape
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import Imported
from tidegate.contracts.exchange.odcs import write_odcs
from tidegate.contracts.exchange.read import read_foreign

DOCUMENTS = Path(__file__).parent / "documents"
CONVERTED = ("datacontract-1.2.yaml", "datacontract-0.9.yaml", "dbt.yaml", "suite.json")
STANDARD = ("odcs-3.0.yaml", "odcs-3.1.yaml", "odcs-3.2.yaml")
FORMAT_MARKS = {("dbt.yaml", "/version")}
"""Keys that say nothing but the version of the format."""

Key = tuple[tuple[str, ...], str]
"""A key of a mapping: the tokens of the mapping, and its name."""


def read(name: str) -> Any:
    return read_yaml(name, (DOCUMENTS / name).read_text()).value


def imported(document: Any) -> Imported:
    return read_foreign(SourceDocument("document.yaml", document, {}, {}, frozenset()))


def mappings(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for name, part in node.items():
            yield from mappings(part, (*path, name))
    elif isinstance(node, list):
        for index, part in enumerate(node):
            yield from mappings(part, (*path, str(index)))


def keys(document: Any) -> Iterator[Key]:
    """Yield the keys whose values have no keys of their own."""
    for path, node in mappings(document):
        yield from ((path, name) for name, part in node.items() if not any(mappings(part)))


def is_listed(key: Key, found: Imported) -> bool:
    path, name = key
    place = "".join(f"/{escape(token)}" for token in (*path, name))
    above = {place[:end] for end, each in enumerate(place) if each == "/" and end} | {place}
    return any(each.pointer in above for each in found.left_out)


def with_change(document: Any, key: Key, *value: Any) -> Any:
    changed = copy.deepcopy(document)
    node = value_at(changed, key[0])
    node.pop(key[1], None)
    node.update(zip([key[1]], value, strict=False))
    return changed


def changes_the_contract(document: Any, found: Imported, key: Key, *value: Any) -> bool:
    try:
        return imported(with_change(document, key, *value)).document != found.document
    except ContractError:  # the format needs the key, or does not allow it
        return True


def others(value: Any) -> list[Any]:
    """Return values that a key might have instead: removing a default or what another key implies changes nothing."""
    if isinstance(value, bool):
        return [not value]
    return ["integer", "other"] if isinstance(value, str) else [[], 1]


def is_read(document: Any, found: Imported, key: Key, value: Any) -> bool:
    """Return whether another value of a key changes the contract, or is listed."""
    return changes_the_contract(document, found, key, value) or is_listed(
        key, imported(with_change(document, key, value))
    )


@pytest.mark.parametrize("name", [*CONVERTED, STANDARD[1], *full(STANDARD[0], STANDARD[2])])
def test_every_key_is_used_kept_or_listed(name: str) -> None:
    document = read(name)
    found = imported(document)
    dropped = {
        "/".join(("", *key[0], key[1]))
        for key in keys(document)
        if not is_listed(key, found)
        and not changes_the_contract(document, found, key)
        and not any(
            is_read(document, found, key, other) for other in others(value_at(document, key[0])[key[1]])
        )
    }
    assert dropped == {place for format_name, place in FORMAT_MARKS if format_name == name}


@pytest.mark.parametrize("name", CONVERTED)
def test_a_key_that_is_new_to_a_format_is_listed(name: str) -> None:
    document = read(name)
    found = imported(document)
    dropped = []
    for path, _ in mappings(document):
        key = (path, "x-new")
        changed = with_change(document, key, "new")
        if not changes_the_contract(document, found, key, "new") and not is_listed(key, imported(changed)):
            dropped.append("/".join(path))
    assert dropped == []


@pytest.mark.parametrize("name", CONVERTED)
def test_each_place_that_is_listed_is_in_the_document(name: str) -> None:
    document = read(name)
    missing = object()
    for each in imported(document).left_out:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in each.pointer.split("/")[1:]]
        assert value_at(document, tokens, missing) is not missing, each


@pytest.mark.parametrize("name", STANDARD)
def test_documents_of_each_version_of_the_standard_come_back_whole(name: str) -> None:
    document = read(name)
    text = json.dumps(imported(document).document)
    contract = parse_contract(text, name="contract.json", read_schema=None).contract
    assert write_odcs(contract) == document
