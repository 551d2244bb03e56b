"""The API compared with a model of it in a few lines: register, delete, settings and modes in any order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import SecretStr

from tests.marks import examples
from tests.postgresql import Postgresql
from tests.unit.confluent.conftest import respond
from tests.unit.conftest import Client
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.registry.subject_scope import LEVELS, MODES
from tidegate.gateway.settings import GatewaySettings

SUBJECTS = st.sampled_from(["b/c", "t-value"])
TYPES = st.sampled_from(["int", "long", "double", "string", "boolean"])
PROMOTIONS = {("int", "long"), ("int", "double"), ("long", "double")}
FOR_ALL = ""
SCOPES = st.sampled_from(["b/c", "t-value", FOR_ALL])
IDS = st.integers(1, 8)
Databases = Callable[[], AbstractContextManager[str]]


class Model:
    """What the registry should know."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, tuple[str, bool]]] = {}
        self.majors: dict[int, int] = {}  # of the contract behind t-value, by the version's number
        self.ids: dict[str, int] = {}
        self.given: dict[int, str] = {}  # every id that was ever given, also of permanently deleted schemas
        self.levels: dict[str, str] = {}
        self.modes: dict[str, str] = {}

    def alive(self, subject: str) -> list[int]:
        return sorted(n for n, (_, deleted) in self.versions.get(subject, {}).items() if not deleted)

    def everything(self, subject: str) -> list[int]:
        return sorted(self.versions.get(subject, {}))

    @property
    def next_id(self) -> int:
        return max(self.given, default=0) + 1

    def level(self, subject: str) -> str:
        return self.levels.get(subject) or self.levels.get(FOR_ALL) or "BACKWARD"

    def mode(self, subject: str) -> str:
        for_all = self.modes.get(FOR_ALL, "READWRITE")
        return for_all if for_all == "READONLY_OVERRIDE" else self.modes.get(subject, for_all)

    def is_read_only(self, subject: str) -> bool:
        return self.mode(subject).startswith("READONLY")

    def add(self, subject: str, text: str, schema_id: int) -> int:
        """Note a version; returns its number."""
        self.ids[text] = schema_id
        self.given[schema_id] = text
        number = max(self.everything(subject), default=0) + 1
        if subject == "t-value":
            self.number_major(number, text)
        self.versions.setdefault(subject, {})[number] = (text, False)
        return number

    def compatible(self, subject: str, text: str) -> bool:
        level = self.level(subject)
        numbers = self.alive(subject)[::-1]
        if subject == "t-value" and numbers:  # a major version opens a compatibility group
            numbers = [number for number in numbers if self.majors[number] == self.majors[numbers[0]]]
        history = [self.versions[subject][number][0] for number in numbers]
        if level == "NONE":
            return True
        asked = history if level.endswith("TRANSITIVE") else history[:1]
        return all(fits(level, old, text) for old in asked)

    def number_major(self, number: int, text: str) -> None:
        """Note the major version of a new version of t-value: another one when it breaks the one before it."""
        level = self.level("t-value").replace("NONE", "BACKWARD")
        alive = self.alive("t-value")
        stays = bool(alive) and fits(level, self.versions["t-value"][alive[-1]][0], text)
        self.majors[number] = self.majors[alive[-1]] if stays else max(self.majors.values(), default=0) + 1

    def forget_unused_ids(self) -> None:
        used = {text for versions in self.versions.values() for text, _ in versions.values()}
        self.ids = {text: number for text, number in self.ids.items() if text in used}


def fits(level: str, old: str, new: str) -> bool:
    """Return whether a primitive type may follow another one under a level."""
    reads_old = old == new or (old, new) in PROMOTIONS
    read_by_old = old == new or (new, old) in PROMOTIONS
    return (reads_old or not level.startswith(("BACKWARD", "FULL"))) and (
        read_by_old or not level.startswith(("FORWARD", "FULL"))
    )


class RegistryMachine(RuleBasedStateMachine):
    """Does the same to the registry and to the model, and compares every answer."""

    databases: Databases

    def __init__(self) -> None:
        super().__init__()
        self.database = self.databases()
        self.factory = Factory(GatewaySettings(database_url=SecretStr(self.database.__enter__())))
        self.client = Client(create_app(self.factory))
        self.model = Model()

    def teardown(self) -> None:
        self.factory.close()
        self.database.__exit__(None, None, None)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = respond(self.client, method, path.replace("b/c", "b%2Fc"), body)
        found = answer.json()
        return answer.status_code, found["error_code"] if answer.status_code >= 400 else found

    @rule(subject=SUBJECTS, text=TYPES)
    def register(self, subject: str, text: str) -> None:
        status, answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": f'"{text}"'})
        model = self.model
        same = [number for number in model.alive(subject) if model.versions[subject][number][0] == text]
        if same:  # whatever the mode
            assert (status, answer["version"], answer["id"]) == (200, same[-1], model.ids[text])
        elif model.mode(subject) != "READWRITE":
            assert (status, answer) == (422, 42205)
        elif not model.compatible(subject, text):
            assert (status, answer) == (409, 409)
        else:
            number = model.add(subject, text, model.ids.get(text, model.next_id))
            assert (status, answer["version"], answer["id"]) == (200, number, model.ids[text])

    @rule(subject=SUBJECTS, text=TYPES, schema_id=IDS)
    def import_schema(self, subject: str, text: str, schema_id: int) -> None:
        body = {"schema": f'"{text}"', "id": schema_id}
        status, answer = self.ask("POST", f"/subjects/{subject}/versions", body)
        model = self.model
        same = [number for number in model.alive(subject) if model.versions[subject][number][0] == text]
        known = model.ids.get(text)
        if same and known == schema_id:
            assert (status, answer["version"], answer["id"]) == (200, same[-1], schema_id)
        elif model.mode(subject) != "IMPORT":
            assert (status, answer) == (422, 42205)
        elif known not in {None, schema_id}:
            assert (status, answer) == (422, 42207)
        elif model.given.get(schema_id, text) != text:
            assert (status, answer) == (422, 42205)
        else:  # compared with nothing
            number = model.add(subject, text, schema_id)
            assert (status, answer["version"], answer["id"]) == (200, number, schema_id)

    @precondition(lambda self: "IMPORT" in self.model.modes.values())
    @rule(subject=SUBJECTS, text=TYPES)
    def import_with_the_next_id(self, subject: str, text: str) -> None:
        self.import_schema(subject, text, self.model.ids.get(text, self.model.next_id))

    @rule(subject=SUBJECTS, text=TYPES)
    def ask_whether_compatible(self, subject: str, text: str) -> None:
        answer = self.ask("POST", f"/compatibility/subjects/{subject}/versions", {"schema": f'"{text}"'})
        assert answer == (200, {"is_compatible": self.model.compatible(subject, text)})

    @rule(subject=SUBJECTS, text=TYPES)
    def look_up(self, subject: str, text: str) -> None:
        status, answer = self.ask("POST", f"/subjects/{subject}", {"schema": f'"{text}"'})
        alive = self.model.alive(subject)
        same = [number for number in alive if self.model.versions[subject][number][0] == text]
        if same:
            assert (status, answer["version"]) == (200, same[-1])
        else:
            assert (status, answer) == (404, 40403 if alive else 40401)

    @precondition(lambda self: self.model.versions)
    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        answer = self.ask("DELETE", f"/subjects/{subject}?permanent={permanent}")
        model = self.model
        alive, everything = model.alive(subject), model.everything(subject)
        if not everything:
            assert answer == (404, 40401)
        elif model.is_read_only(subject):
            assert answer == (422, 42205)
        elif permanent and alive:
            assert answer == (404, 40405)
        elif permanent:
            assert answer == (200, everything)
            del model.versions[subject]
            model.levels.pop(subject, None)
            model.modes.pop(subject, None)
            model.forget_unused_ids()
        elif not alive:
            assert answer == (404, 40404)
        else:
            assert answer == (200, alive)
            for number in alive:
                model.versions[subject][number] = (model.versions[subject][number][0], True)

    @precondition(lambda self: self.model.versions)
    @rule(subject=SUBJECTS)
    def delete_for_good(self, subject: str) -> None:
        self.delete_subject(subject, permanent=False)
        self.delete_subject(subject, permanent=True)

    @precondition(lambda self: self.model.versions)
    @rule(subject=SUBJECTS, number=st.integers(1, 4), permanent=st.booleans())
    def delete_version(self, subject: str, number: int, permanent: bool) -> None:
        answer = self.ask(
            "DELETE", f"/subjects/{subject}/versions/{number}?permanent={str(permanent).lower()}"
        )
        model = self.model
        versions = model.versions.get(subject, {})
        if not versions:
            assert answer == (404, 40401)
        elif model.is_read_only(subject):
            assert answer == (422, 42205)
        elif number not in versions:
            assert answer == (404, 40402)
        elif permanent and not versions[number][1]:
            assert answer == (404, 40407)
        elif not permanent and versions[number][1]:
            assert answer == (404, 40406)
        elif permanent:
            assert answer == (200, number)
            del versions[number]
            if not versions:
                del model.versions[subject]
            model.forget_unused_ids()
        else:
            assert answer == (200, number)
            versions[number] = (versions[number][0], True)

    @rule(scope=SCOPES, level=st.sampled_from(LEVELS))
    def set_level(self, scope: str, level: str) -> None:
        answer = self.ask("PUT", f"/config/{scope}".rstrip("/"), {"compatibility": level})
        if self.model.is_read_only(scope):
            assert answer == (422, 42205)
        else:
            assert answer == (200, {"compatibility": level})
            self.model.levels[scope] = level
        self.levels_hold()

    @rule(scope=SCOPES)
    def forget_level(self, scope: str) -> None:
        answer = self.ask("DELETE", f"/config/{scope}".rstrip("/"))
        if scope not in self.model.levels and scope != FOR_ALL:
            assert answer == (404, 40401)
        elif self.model.is_read_only(scope):
            assert answer == (422, 42205)
        else:
            level = self.model.levels.pop(scope, "BACKWARD")
            assert answer == (200, {"compatibilityLevel": level})
        self.levels_hold()

    def levels_hold(self) -> None:
        for subject in ("b/c", "t-value"):
            held = {"compatibilityLevel": self.model.level(subject)}
            assert self.ask("GET", f"/config/{subject}?defaultToGlobal=true") == (200, held)
            own = {"compatibilityLevel": self.model.levels.get(subject)}
            found = self.ask("GET", f"/config/{subject}")
            assert found == ((200, own) if subject in self.model.levels else (404, 40408))

    # Most of the time things may be written.
    @rule(scope=SCOPES, mode=st.sampled_from((*MODES, "READWRITE", "IMPORT")), force=st.booleans())
    def set_mode(self, scope: str, mode: str, force: bool) -> None:
        model = self.model
        answer = self.ask("PUT", f"/mode/{scope}".rstrip("/") + f"?force={force}", {"mode": mode})
        is_empty = not any(model.alive(name) for name in ("b/c", "t-value") if scope in {name, FOR_ALL})
        if mode == "IMPORT" and model.mode(scope) != "IMPORT" and not force and not is_empty:
            assert answer == (422, 42205)
        else:
            assert answer == (200, {"mode": mode})
            model.modes[scope] = mode
        self.modes_hold()

    @rule(scope=SCOPES)
    def forget_mode(self, scope: str) -> None:
        answer = self.ask("DELETE", f"/mode/{scope}".rstrip("/"))
        mode = self.model.modes.pop(scope, "READWRITE" if scope == FOR_ALL else None)
        assert answer == ((404, 40401) if mode is None else (200, {"mode": mode}))
        self.modes_hold()

    def modes_hold(self) -> None:
        for subject in ("b/c", "t-value"):
            held = {"mode": self.model.mode(subject)}
            assert self.ask("GET", f"/mode/{subject}?defaultToGlobal=true") == (200, held)
            found = self.ask("GET", f"/mode/{subject}")
            own = {"mode": self.model.modes.get(subject)}
            assert found == ((200, own) if subject in self.model.modes else (404, 40409))

    @invariant()
    def lists_agree(self) -> None:
        model = self.model
        assert self.ask("GET", "/subjects")[1] == sorted(name for name in model.versions if model.alive(name))
        assert self.ask("GET", "/subjects?deleted=true")[1] == sorted(model.versions)
        for name in model.versions:
            assert self.ask("GET", f"/subjects/{name}/versions?deleted=true")[1] == model.everything(name)

    @invariant()
    def ids_stay_what_they_were(self) -> None:
        known = {number: text for text, number in self.model.ids.items()}
        for number in range(1, self.model.next_id):
            status, answer = self.ask("GET", f"/schemas/ids/{number}")
            assert (status, answer["schema"] if status == 200 else answer) == (
                (200, f'"{known[number]}"') if number in known else (404, 40403)
            )

    @invariant()
    def what_is_enforced_is_the_contract_of_a_version_that_lives(self) -> None:
        answer = self.client.get("/api/v1/contracts/t/versions/latest")
        if self.model.alive("t-value"):
            texts = {self.model.versions["t-value"][number][0] for number in self.model.alive("t-value")}
            assert answer.json()["schema"]["definition"] in texts
        else:
            assert answer.status_code == 404


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Databases:
    """Return a migrated database for as long as it is needed, as often as asked."""
    if request.param == "postgresql":
        server: Postgresql = request.getfixturevalue("postgresql")
        return server.database
    template: Path = request.getfixturevalue("migrated_sqlite")

    def copied() -> AbstractContextManager[str]:
        path = tmp_path / f"registry-{len(list(tmp_path.iterdir()))}.db"
        shutil.copy(template, path)
        return nullcontext(f"sqlite:///{path}")

    return copied


def machine_on(databases: Databases) -> type[RegistryMachine]:
    return type("Machine", (RegistryMachine,), {"databases": staticmethod(databases)})


def test_under_transitive_levels_a_version_is_compared_within_its_major_version(databases: Databases) -> None:
    machine = machine_on(databases)()
    try:
        for subject in ("t-value", "b/c"):
            machine.set_level(subject, "NONE")
            machine.register(subject, "string")
            machine.register(subject, "int")
            machine.set_level(subject, "BACKWARD_TRANSITIVE")
            machine.register(subject, "long")
            machine.register(subject, "boolean")
        assert machine.model.alive("t-value") == [1, 2, 3]
        assert machine.model.alive("b/c") == [1, 2]
    finally:
        machine.teardown()


def test_the_api_answers_as_the_model_says(databases: Databases) -> None:
    run_state_machine_as_test(
        machine_on(databases),
        settings=settings(
            max_examples=examples(12),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
