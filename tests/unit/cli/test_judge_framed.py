"""`tidegate judge` on records as a topic has them: frames, nulls, and the schemas that they name."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.judge import _judge_block
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.sources.record_files import RecordBlock, RecordForm, record_blocks

from .conftest import Run
from .test_judge import _Chunks

OLD = {"type": "record", "name": "Stay", "fields": [{"name": "age", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Stay",
    "fields": [{"name": "ward", "type": "string", "default": "?"}, {"name": "age", "type": "long"}],
}
RULE = {"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [63]}


def sized(*values: bytes | None) -> bytes:
    return b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values
    )


def in_base64(*records: tuple[bytes | None, bytes | None]) -> bytes:
    lines = [
        ("-" if value is None else base64.b64encode(value).decode())
        + (" " + base64.b64encode(header).decode() if header else "")
        for value, header in records
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def contract_of(folder: Path, **parts: Any) -> Path:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "stays",
        "version": "1.0.0",
        "topic": "stays",
        "schema": {"type": "avro", "definition": NEW},
        "framing": "confluent-prefix",
        "rules": [RULE],
    }
    path = folder / "stays.json"
    path.write_text(json.dumps(document | parts))
    return path


def registered(url: str, schema: Any) -> tuple[bytes, bytes]:
    """Register a schema; returns the prefix and the header of records that were written with it."""
    answer = httpx.post(f"{url}/subjects/stays-value/versions", json={"schema": json.dumps(schema)}).json()
    guid = answer["guid"].replace("-", "")
    return b"\0" + answer["id"].to_bytes(4, "big"), b"\x01" + bytes.fromhex(guid)


def codes(stdout: bytes) -> list[list[str]]:
    return [[each["code"] for each in answer["violations"]] for answer in answers(stdout)]


def answers(stdout: bytes) -> list[Any]:
    """Read what was printed; the server of the fixture logs to the same place."""
    return [json.loads(line) for line in stdout.splitlines() if line.startswith(b"{")]


@given(st.lists(st.binary(max_size=40) | st.none()), st.data())
def test_records_after_their_lengths_are_read_however_they_arrive(
    values: list[bytes | None], data: st.DataObject
) -> None:
    whole = sized(*values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    blocks = record_blocks(io.BufferedReader(_Chunks(chunks)), RecordForm.SIZED)
    assert [value for block in blocks for value in block.values] == values


@given(st.lists(st.tuples(st.binary() | st.none(), st.binary(min_size=1) | st.none())))
def test_records_in_base64_are_read_with_their_headers(
    records: list[tuple[bytes | None, bytes | None]],
) -> None:
    blocks = record_blocks(io.BufferedReader(_Chunks([in_base64(*records)])), RecordForm.BASE64)
    found = [pair for block in blocks for pair in zip(block.values, block.headers, strict=True)]
    assert found == records


@pytest.mark.parametrize(
    ("form", "data", "message"),
    [
        (RecordForm.SIZED, sized(b"x") + b"\xff\xff\xff\xfe", "record 2 has a length of -2 bytes"),
        (RecordForm.SIZED, b'{"age": 1}\n', "record 1 has a length of 206585"),
        (RecordForm.SIZED, sized(b"x", b"yz")[:-1], "the data ends within record 2"),
        (RecordForm.SIZED, sized(b"x") + b"\0\0", "the data ends within record 2"),
        (RecordForm.BASE64, b'eA==\n{"age": 1}\n', "line 2 is not a record in base64"),
        (RecordForm.BASE64, b"eA== ?\n", "line 1 is not a record in base64"),
    ],
)
def test_data_of_another_form_is_refused(form: RecordForm, data: bytes, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        list(record_blocks(io.BufferedReader(_Chunks([data])), form))


def test_each_record_is_read_with_the_schema_that_it_names(
    tidegate: Run, registry: str, tmp_path: Path
) -> None:
    old, old_header = registered(registry, OLD)
    new, new_header = registered(registry, NEW)
    contract = contract_of(tmp_path, tombstones="pass")
    stays = [old + b"\x02", new + b"\x02?\x02", old + b"\x7e", new + b"\x02?\x7e", b"\0\0\0\1\0\x02", None]
    expected = [[], [], ["age-is-known"], ["age-is-known"], ["frame.unknown-schema"], []]
    ran = tidegate("judge", contract, "--records", "sized", "--format=json", stdin=sized(*stays))
    assert (codes(ran.stdout), ran.returncode) == (expected, 1)
    told = answers(ran.stdout)[2]["violations"][0]["sentence"]
    assert told == "age is 63, a placeholder value"
    ran = tidegate("judge", contract, "--records", "sized", stdin=sized(*stays))
    assert "  record 3  /age  age-is-known: age is 63, a placeholder value" in ran.stdout.decode()
    contract = contract_of(tmp_path, framing="confluent-header")
    pairs = [
        (b"\x7e", old_header),
        (b"\x02?\x7e", new_header),
        (b"\x02", b"\x01" + bytes(16)),
        (b"\x02", None),
    ]
    ran = tidegate("judge", contract, "--records", "base64", "--format=json", stdin=in_base64(*pairs))
    assert codes(ran.stdout) == [
        ["age-is-known"],
        ["age-is-known"],
        ["frame.unknown-schema"],
        ["frame.missing"],
    ]


def test_a_schema_that_was_registered_after_the_first_records_is_known(registry: str, tmp_path: Path) -> None:
    """A pipe goes on while producers register schemas: what is not known is asked for again."""
    plan = compile_plan(lint(contract_of(tmp_path)).contract)
    with RegistryClient(registry) as client:
        schemas = client.schemas_of("stays")
        old, _ = registered(registry, OLD)
        first = _judge_block(plan, schemas, RecordBlock([old + b"\x02"], [None], [1]), str)
        new, _ = registered(registry, NEW)
        second = _judge_block(
            plan, schemas, RecordBlock([new + b"\x02?\x7e", old + b"\x02"], [None, None], [2, 3]), str
        )
    verdicts = [*first.verdicts, *second.verdicts]
    assert [[each.code for each in verdict.violations] for verdict in verdicts] == [
        [],
        ["age-is-known"],
        [],
    ]


def test_no_verdict_is_given_while_the_registry_does_not_answer(
    tidegate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_REGISTRY_URL", raising=False)
    contract = contract_of(tmp_path)
    data = sized(b"\0\0\0\0\1\x02?\x02")
    away = ("--registry", "http://127.0.0.1:9")
    ran = tidegate("judge", contract, "--records", "sized", *away, stdin=data)
    assert ran.stderr.startswith(b"error: no registry answers at http://127.0.0.1:9 (")
    assert (ran.returncode, ran.stdout) == (3, b"")
    # Records without frames need no registry, and without a registry no schema is looked up.
    lines = contract_of(tmp_path, schema={"type": "json-schema", "definition": True}, rules=[])
    assert tidegate("judge", lines, *away, stdin=b"{}\n").returncode == 0
    assert tidegate("judge", contract_of(tmp_path), "--records", "sized", stdin=data).returncode == 0


def test_a_server_that_is_no_registry_is_reported(tidegate: Run, registry: str, tmp_path: Path) -> None:
    ran = tidegate(
        "judge",
        contract_of(tmp_path),
        "--records",
        "sized",
        "--registry",
        f"{registry}/elsewhere",
        stdin=sized(b"\0\0\0\0\1"),
    )
    assert ran.returncode == 2
    assert b"is it a Tidegate registry?" in ran.stderr


def test_headers_do_not_come_after_lengths(tidegate: Run, tmp_path: Path) -> None:
    contract = contract_of(tmp_path, framing="confluent-header")
    ran = tidegate("judge", contract, "--records", "sized", stdin=b"")
    assert b"--records base64 has it" in ran.stderr
    assert ran.returncode == 2
