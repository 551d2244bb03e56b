"""Requests as confluent-kafka 2.16 sends them, in one order, and the whole answer to each."""

from __future__ import annotations

from typing import Any

from tests.unit.confluent.conftest import respond

INT, LONG, STRING = ({"schema": f'"{name}"', "schemaType": "AVRO"} for name in ("int", "long", "string"))
S = "/subjects/sche%2Fma-value"
NAME = "sche/ma-value"
PAGE = "offset=0&limit=-1"
HEADERS = {"Confluent-Accept-Unknown-Properties": "true", "Confluent-Client-Version": "python/2.16.0"}
# UUIDs of the MD5 of `"int"` and `"long"`: what belongs to a schema is nothing here.
INT_GUID, LONG_GUID = "ef524ea1-b91e-7317-3d93-8ade36c1db32", "e1dd9a1e-f98b-451b-5369-0370b393966b"


def schema(name: str, guid: str) -> dict[str, Any]:
    return {"schemaType": "AVRO", "schema": f'"{name}"', "guid": guid, "ts": "TS"}


def version(number: int, name: str, guid: str) -> dict[str, Any]:
    return {"subject": NAME, "version": number, "id": number, **schema(name, guid), "deleted": False}


def refusal(status: int, code: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error_code": code, "message": message}


PAIRS: list[tuple[str, str, Any, tuple[int, Any]]] = [
    ("GET", "/associations/resources/-/t?resourceType=topic&associationType=value", None, (200, [])),
    ("GET", f"/subjects?deleted=false&deleted_only=false&{PAGE}&subjectPrefix=", None, (200, [])),
    ("GET", f"{S}/versions/latest", None, refusal(404, 40401, f"Subject '{NAME}' not found.")),
    ("POST", f"{S}/versions?normalize=False", INT, (200, version(1, "int", INT_GUID))),
    ("POST", f"{S}/versions?normalize=False", INT, (200, version(1, "int", INT_GUID))),
    ("POST", f"{S}/versions?normalize=False", LONG, (200, version(2, "long", LONG_GUID))),
    ("POST", f"{S}?normalize=False&deleted=True", INT, (200, version(1, "int", INT_GUID))),
    ("POST", f"{S}?normalize=False&deleted=True", STRING, refusal(404, 40403, "Schema not found")),
    ("GET", "/schemas/ids/1?subject=sche%2Fma-value", None, (200, schema("int", INT_GUID))),
    ("GET", f"/schemas/guids/{LONG_GUID}", None, (200, schema("long", LONG_GUID))),
    ("GET", "/schemas/ids/9?subject=sche%2Fma-value", None, refusal(404, 40403, "Schema 9 not found")),
    ("GET", "/schemas/types", None, (200, ["JSON", "AVRO"])),
    ("GET", f"/schemas/ids/1/subjects?{PAGE}", None, (200, [NAME])),
    ("GET", f"/schemas/ids/2/versions?{PAGE}", None, (200, [{"subject": NAME, "version": 2}])),
    ("GET", f"{S}/versions?deleted=false&deleted_only=false&{PAGE}", None, (200, [1, 2])),
    ("GET", f"{S}/versions/2?deleted=false", None, (200, version(2, "long", LONG_GUID))),
    ("GET", f"{S}/versions/3?deleted=false", None, refusal(404, 40402, "Version 3 not found.")),
    ("GET", f"{S}/versions/1/referencedby?{PAGE}", None, (200, [])),
    ("GET", "/config", None, (200, {"compatibilityLevel": "BACKWARD"})),
    (
        "GET",
        "/config/sche%2Fma-value",
        None,
        refusal(404, 40408, f"Subject '{NAME}' does not have subject-level compatibility configured"),
    ),
    ("PUT", "/config/sche%2Fma-value", {"compatibility": "FULL"}, (200, {"compatibility": "FULL"})),
    ("GET", "/config/sche%2Fma-value", None, (200, {"compatibilityLevel": "FULL"})),
    (
        "POST",
        f"/compatibility{S}/versions/latest?normalize=False&verbose=False",
        INT,
        (200, {"is_compatible": False}),
    ),
    (
        "POST",
        f"/compatibility{S}/versions?normalize=False&verbose=False",
        LONG,
        (200, {"is_compatible": True}),
    ),
    ("DELETE", "/config/sche%2Fma-value", None, (200, {"compatibilityLevel": "FULL"})),
    (
        "PUT",
        "/config/sche%2Fma-value",
        {"compatibility": "SOME"},
        refusal(
            422,
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            "forward_transitive, and full_transitive",
        ),
    ),
    ("PUT", "/mode/sche%2Fma-value?force=False", {"mode": "READONLY"}, (200, {"mode": "READONLY"})),
    (
        "POST",
        f"{S}/versions?normalize=False",
        {"schema": '"double"', "schemaType": "AVRO"},
        refusal(422, 42205, f"Subject {NAME} is in read-only mode"),
    ),
    ("DELETE", "/mode/sche%2Fma-value", None, (200, {"mode": "READONLY"})),
    (
        "DELETE",
        f"{S}/versions/1?permanent=true",
        None,
        refusal(
            404, 40407, f"Subject '{NAME}' Version 1 was not deleted first before being permanently deleted"
        ),
    ),
    ("DELETE", f"{S}/versions/1", None, (200, 1)),
    (
        "DELETE",
        f"{S}/versions/1",
        None,
        refusal(
            404,
            40406,
            f"Subject '{NAME}' Version 1 was soft deleted.Set permanent=true to delete permanently",
        ),
    ),
    ("DELETE", S, None, (200, [2])),
    (
        "DELETE",
        S,
        None,
        refusal(404, 40404, f"Subject '{NAME}' was soft deleted.Set permanent=true to delete permanently"),
    ),
    ("DELETE", f"{S}?permanent=true", None, (200, [1, 2])),
    ("GET", f"/contexts?{PAGE}", None, (200, ["."])),
]


def test_each_request_of_the_client_has_its_answer(client: Any) -> None:
    for method, path, body, (status, expected) in PAIRS:
        answer = respond(client, method, path, body, **HEADERS)
        found = answer.json()
        if isinstance(found, dict) and "ts" in found:
            assert isinstance(found["ts"], int)
            found["ts"] = "TS"
        assert (answer.status_code, found) == (status, expected), (method, path)
        assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
