"""The face against a model of it in a few lines: register, delete, settings and modes in any order."""

from __future__ import annotations

import shutil
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

from gateway.app import create_app
from gateway.factory import Factory
from gateway.settings import GatewaySettings
from tests.unit.confluent.conftest import respond
from tests.unit.conftest import Client

SUBJECTS = st.sampled_from(["b/c", "t-value"])
TYPES = st.sampled_from(["int", "long", "double", "string", "boolean"])
PROMOTIONS = {("int", "long"), ("int", "double"), ("long", "double")}
LEVELS = st.sampled_from(["NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE"])
MODES = st.sampled_from(["READWRITE", "READONLY"])


class Model:
    """What the registry should know."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, tuple[str, bool]]] = {}
        self.majors: dict[int, int] = {}  # of the contract behind t-value, by the version's number
        self.ids: dict[str, int] = {}
        self.next_id = 1
        self.levels: dict[str, str] = {}
        self.modes: dict[str, str] = {}

    def alive(self, subject: str) -> list[int]:
        return sorted(n for n, (_, deleted) in self.versions.get(subject, {}).items() if not deleted)

    def everything(self, subject: str) -> list[int]:
        return sorted(self.versions.get(subject, {}))

    def compatible(self, subject: str, text: str) -> bool:
        level = self.levels.get(subject, "BACKWARD")
        numbers = self.alive(subject)[::-1]
        if subject == "t-value":  # a major version opens a compatibility group
            numbers = [number for number in numbers if self.majors[number] == self.majors[numbers[0]]]
        history = [self.versions[subject][number][0] for number in numbers]
        if level == "NONE":
            return True
        asked = history if level.endswith("TRANSITIVE") else history[:1]
        return all(fits(level, old, text) for old in asked)

    def number_major(self, number: int, text: str) -> None:
        """Note the major version of a new version of t-value: another one when it breaks the one before it."""
        level = self.levels.get("t-value", "BACKWARD").replace("NONE", "BACKWARD")
        alive = self.alive("t-value")
        stays = bool(alive) and fits(level, self.versions["t-value"][alive[-1]][0], text)
        self.majors[number] = self.majors[alive[-1]] if stays else max(self.majors.values(), default=0) + 1

    def forget_unused_ids(self) -> None:
        used = {text for versions in self.versions.values() for text, _ in versions.values()}
        self.ids = {text: number for text, number in self.ids.items() if text in used}


def fits(level: str, old: str, new: str) -> bool:
    """Whether a primitive type may follow another one under a level."""
    reads_old = old == new or (old, new) in PROMOTIONS
    read_by_old = old == new or (new, old) in PROMOTIONS
    return (reads_old or not level.startswith(("BACKWARD", "FULL"))) and (
        read_by_old or not level.startswith(("FORWARD", "FULL"))
    )


class RegistryMachine(RuleBasedStateMachine):
    """Does the same to the registry and to the model, and compares every answer."""

    template: Path
    folder: Path
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1
        path = self.folder / f"registry-{self.runs}.db"
        shutil.copy(self.template, path)
        self.factory = Factory(GatewaySettings(database_url=SecretStr(f"sqlite:///{path}")))
        self.client = Client(create_app(self.factory))
        self.model = Model()

    def teardown(self) -> None:
        self.factory.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = respond(self.client, method, path.replace("b/c", "b%2Fc"), body)
        found = answer.json()
        return answer.status_code, found["error_code"] if answer.status_code >= 400 else found

    @rule(subject=SUBJECTS, text=TYPES)
    def register(self, subject: str, text: str) -> None:
        status, answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": f'"{text}"'})
        model = self.model
        same = [number for number in model.alive(subject) if model.versions[subject][number][0] == text]
        if model.modes.get(subject) == "READONLY":
            assert (status, answer) == (422, 42205)
        elif same:
            assert (status, answer["version"], answer["id"]) == (200, same[-1], model.ids[text])
        elif not model.compatible(subject, text):
            assert (status, answer) == (409, 409)
        else:
            if text not in model.ids:
                model.ids[text] = model.next_id
                model.next_id += 1
            number = max(model.everything(subject), default=0) + 1
            if subject == "t-value":
                model.number_major(number, text)
            model.versions.setdefault(subject, {})[number] = (text, False)
            assert (status, answer["version"], answer["id"]) == (200, number, model.ids[text])

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
        elif model.modes.get(subject) == "READONLY":
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
        elif model.modes.get(subject) == "READONLY":
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

    @rule(subject=SUBJECTS, level=LEVELS)
    def set_level(self, subject: str, level: str) -> None:
        assert self.ask("PUT", f"/config/{subject}", {"compatibility": level}) == (
            200,
            {"compatibility": level},
        )
        self.model.levels[subject] = level

    @rule(subject=SUBJECTS)
    def forget_level(self, subject: str) -> None:
        answer = self.ask("DELETE", f"/config/{subject}")
        level = self.model.levels.pop(subject, None)
        assert answer == ((404, 40408) if level is None else (200, {"compatibilityLevel": level}))

    @rule(subject=SUBJECTS, mode=MODES)
    def set_mode(self, subject: str, mode: str) -> None:
        assert self.ask("PUT", f"/mode/{subject}", {"mode": mode}) == (200, {"mode": mode})
        self.model.modes[subject] = mode

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


def test_under_transitive_levels_a_version_is_compared_within_its_major_version(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    machine = type("Machine", (RegistryMachine,), {"template": migrated_sqlite, "folder": tmp_path})()
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


@pytest.mark.usefixtures("migrated_sqlite")
def test_the_face_answers_as_the_model_says(tmp_path: Path, migrated_sqlite: Path) -> None:
    machine = type("Machine", (RegistryMachine,), {"template": migrated_sqlite, "folder": tmp_path})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
