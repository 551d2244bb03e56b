"""Every number of a refusal, with its whole message where clients may know it.

Source: Confluent Schema Registry, `Errors.java` and the exceptions beside it.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask
from tidegate.gateway.registry.schemas import errors
from tidegate.gateway.settings import GatewaySettings

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

S = "/subjects/s"
INT, LONG, STRING = ({"schema": f'"{name}"'} for name in ("int", "long", "string"))
REFERENCING = {"schema": '"h.E"', "references": [{"name": "h.E", "subject": "e", "version": 1}]}
ENUM = {"schema": '{"type":"enum","name":"E","namespace":"h","symbols":["A"]}'}
GUID = "00000000-0000-0000-0000-000000000000"


def associated(subject: str, resource: str = "r", **more: Any) -> dict[str, Any]:
    association = {"subject": subject, "associationType": "value", **more}
    names = {"resourceName": resource, "resourceNamespace": "c", "resourceId": resource}
    return {**names, "resourceType": "topic", "associations": [association]}


# Requests in their order, each refusal with its number and its message; 0 stands for a request that is granted.
# A regular expression stands for a message that is this registry's own.

REFUSALS: list[tuple[str, str, Any, int, str | re.Pattern[str]]] = [
    ("GET", f"{S}/versions", None, 40401, "Subject 's' not found."),
    ("DELETE", S, None, 40401, "Subject 's' not found."),
    ("DELETE", "/config/s", None, 40401, "Subject 's' not found."),
    ("DELETE", "/mode/s", None, 40401, "Subject 's' not found."),
    ("GET", "/config/s", None, 40408, "Subject 's' does not have subject-level compatibility configured"),
    ("GET", "/mode/s", None, 40409, "Subject 's' does not have subject-level mode configured"),
    ("POST", f"{S}/versions", INT, 0, ""),
    ("GET", f"{S}/versions/7", None, 40402, "Version 7 not found."),
    ("GET", "/schemas/ids/7", None, 40403, "Schema 7 not found"),
    ("GET", f"/schemas/guids/{GUID}", None, 40403, f"Schema {GUID} not found"),
    ("POST", S, LONG, 40403, "Schema not found"),
    (
        "POST",
        f"{S}/versions",
        STRING,
        409,
        'Schema being registered is incompatible with an earlier schema for subject "s", details: [',
    ),
    (
        "GET",
        f"{S}/versions/a",
        None,
        42202,
        (
            "The specified version 'a' is not a valid version id. Allowed values are between [1, 2^31-1] and the string "
            '"latest"'
        ),
    ),
    (
        "PUT",
        "/config",
        {"compatibility": "SOME"},
        42203,
        (
            "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            "forward_transitive, and full_transitive"
        ),
    ),
    # Clients know a message that leaves one mode out.
    (
        "PUT",
        "/mode",
        {"mode": "SOME"},
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.",
    ),
    ("PUT", "/mode/s", {"mode": "IMPORT"}, 42205, "Cannot import since found existing subjects"),
    ("POST", f"{S}/versions", {**LONG, "id": 9}, 42205, "Subject s is not in import mode"),
    ("PUT", "/mode/s", {"mode": "READONLY"}, 0, ""),
    ("POST", f"{S}/versions", LONG, 42205, "Subject s is in read-only mode"),
    ("DELETE", S, None, 42205, "Subject s is in read-only mode"),
    ("DELETE", f"{S}/versions/1", None, 42205, "Subject s is in read-only mode"),
    ("PUT", "/mode/s?force=true", {"mode": "IMPORT"}, 0, ""),
    ("POST", f"{S}/versions", LONG, 42205, "Subject s is not in read-write mode"),
    ("POST", f"{S}/versions", {**LONG, "id": 1}, 42205, "Overwrite new schema with id 1 is not permitted."),
    (
        "POST",
        f"{S}/versions",
        {**INT, "id": 9},
        42207,
        "Schema already registered with id 1 instead of input id 9",
    ),
    ("DELETE", "/mode/s", None, 0, ""),
    ("POST", "/subjects/e/versions", ENUM, 0, ""),
    ("POST", "/subjects/f/versions", REFERENCING, 0, ""),
    (
        "DELETE",
        "/subjects/e/versions/1",
        None,
        42206,
        "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=e,version=1}.",
    ),
    (
        "PUT",
        "/config/a%00",
        {"compatibility": "NONE"},
        42208,
        "The specified subject 'a\\x00' is not a valid.",
    ),
    ("POST", f"{S}/versions", {"schema": "{"}, 42201, re.compile("Invalid schema: it is not valid JSON.*")),
    (
        "POST",
        f"{S}/versions",
        {"schema": " " * 1500},
        42209,
        re.compile("the body is larger than 1000 bytes.*"),
    ),
    (
        "POST",
        f"{S}/versions",
        {**LONG, "ruleSet": {"domainRules": [{"name": "1", "type": "CEL"}]}},
        42210,
        re.compile("Invalid rule set: '1' is not a rule name.*"),
    ),
    ("POST", "/subjects/:.c:s/versions", INT, 0, ""),
    ("DELETE", "/contexts/.c", None, 42211, "The specified context '.c' is not empty."),
    ("DELETE", "/associations/resources/r", None, 40410, "Association for 'r' not found."),
    (
        "POST",
        "/associations",
        associated("nothing"),
        40907,
        "No active (non-deleted) version exists for subject 'nothing'",
    ),
    ("POST", "/associations", associated("s"), 0, ""),
    (
        "POST",
        "/associations",
        associated("e"),
        40903,
        "An association of type 'value' already exists for resource 'r'",
    ),
    (
        "POST",
        "/associations",
        associated("s", "q", lifecycle="STRONG"),
        40904,
        "An association already exists for subject 's'",
    ),
    ("PUT", "/associations", associated("s", lifecycle="STRONG", frozen=True), 0, ""),
    (
        "POST",
        "/associations",
        associated("s", "q"),
        40905,
        "A strong association already exists for subject 's'",
    ),
    (
        "PUT",
        "/associations",
        associated("s", lifecycle="WEAK"),
        40908,
        "The association of type  'value' is frozen for subject 's'",
    ),
    (
        "PUT",
        "/associations/resources/q",
        associated("s"),
        42212,
        "The association specified an invalid value for property: 'resourceId', reason: ",
    ),
    ("DELETE", "/associations/resources/r?cascadeLifecycle=true", None, 0, ""),
    ("POST", "/subjects/d/versions", INT, 0, ""),
    (
        "DELETE",
        "/subjects/d?permanent=true",
        None,
        40405,
        "Subject 'd' was not deleted first before being permanently deleted",
    ),
    (
        "DELETE",
        "/subjects/d/versions/1?permanent=true",
        None,
        40407,
        "Subject 'd' Version 1 was not deleted first before being permanently deleted",
    ),
    ("DELETE", "/subjects/d/versions/1", None, 0, ""),
    (
        "DELETE",
        "/subjects/d/versions/1",
        None,
        40406,
        "Subject 'd' Version 1 was soft deleted.Set permanent=true to delete permanently",
    ),
    (
        "DELETE",
        "/subjects/d",
        None,
        40404,
        "Subject 'd' was soft deleted.Set permanent=true to delete permanently",
    ),
]
# These go on with what is this registry's own: the records that break, who refers to it, why it is wrong.
GOES_ON = {409, 42206, 42208, 42212}


@pytest.fixture
def settings(database_url: str) -> GatewaySettings:
    """Settings under which little is too large."""
    return GatewaySettings.model_validate({"database_url": database_url, "max_document_bytes": 1000})


@only_sqlite
def test_each_refusal_has_its_number_and_its_message(ask: Ask) -> None:
    for method, path, body, code, message in REFUSALS:
        status, answer = ask(method, path, body)
        request = (method, path, body, answer)
        if code == 0:
            assert status < 300, request
            continue
        assert (str(status), answer["error_code"]) == (str(code)[:3], code), request
        if isinstance(message, re.Pattern):
            assert message.fullmatch(answer["message"]), request
        elif code in GOES_ON:
            assert answer["message"].startswith(message), request
        else:
            assert answer["message"] == message, request


def test_no_number_is_left_out() -> None:
    known = {int(found) for found in re.findall(r"\b4\d{4}\b", inspect.getsource(errors))}
    assert known == {code for _, _, _, code, _ in REFUSALS} - {0, 409}
