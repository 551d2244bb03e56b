"""Jars are resolved by the real Ivy, here from a repository on disk, and are the locked ones or none."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.embedded.jars import JarCache, Jars, default_cache

MODULES = {"broker": ("org.example", "broker", "1.0"), "spark": ("org.example", "connector", "2.0")}

IVY = """<ivy-module version="2.0"><info organisation="test" module="jars"/>
<configurations><conf name="broker"/><conf name="spark"/></configurations>
<dependencies>
<dependency org="org.example" name="broker" rev="1.0" conf="broker->default"/>
<dependency org="org.example" name="connector" rev="2.0" conf="spark->master" transitive="false"/>
</dependencies></ivy-module>"""

SETTINGS = """<ivysettings><settings defaultResolver="mirror"/>
<resolvers><ibiblio name="mirror" m2compatible="true" root="{root}"/></resolvers></ivysettings>"""

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></project>"""

ENSURE = """
import sys
from pathlib import Path
from tidegate.gateway.embedded.jars import JarCache
steps = []
JarCache(*map(Path, sys.argv[1:])).ensure(lambda phase, *_: steps.append(phase))
print(steps.count("download"))
"""


class Mirror:
    """A Maven repository on disk with two jars, the lock and Ivy file that belong to it, and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cache"
        self.lock_file = folder / "jars.lock"
        self.ivy_file = folder / "ivy.xml"
        self.ivy_file.write_text(IVY)
        lock = ""
        for conf, (group, name, version) in MODULES.items():
            place = folder / "repository" / group.replace(".", "/") / name / version
            place.mkdir(parents=True)
            (place / f"{name}-{version}.pom").write_text(POM.format(group, name, version))
            (place / f"{name}-{version}.jar").write_bytes(conf.encode())
            lock += f"{hashlib.sha256(conf.encode()).hexdigest()}  {conf}/{name}-{version}.jar\n"
        self.lock_file.write_text(lock)
        self.settings = folder / "ivysettings.xml"
        self.serve_from((folder / "repository").as_uri())

    def serve_from(self, root: str) -> None:
        self.settings.write_text(SETTINGS.format(root=root))

    @property
    def arguments(self) -> tuple[Path, Path, Path]:
        return self.root, self.lock_file, self.ivy_file

    def cache(self) -> JarCache:
        return JarCache(*self.arguments)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    made = Mirror(tmp_path)
    monkeypatch.setenv("TIDEGATE_IVY_SETTINGS", str(made.settings))
    return made


def test_jars_are_resolved_once_and_found_then(mirror: Mirror) -> None:
    steps: list[tuple[str, int, int]] = []
    found = mirror.cache().ensure(lambda *step: steps.append(step))
    assert (found.broker_dir / "broker-1.0.jar").read_bytes() == b"broker"
    assert (found.spark_dir / "connector-2.0.jar").read_bytes() == b"spark"
    assert [step for step in steps if step[0] == "download"] == [("download", 1, 2), ("download", 2, 2)]
    assert sorted(path.name for path in mirror.root.iterdir()) == [".lock", mirror.cache().folder.name]

    steps.clear()
    assert mirror.cache().ensure(lambda *step: steps.append(step)) == found
    assert steps == [("verify", 1, 2), ("verify", 2, 2)]


def test_damaged_jars_are_named_and_resolved_again(mirror: Mirror) -> None:
    cache = mirror.cache()
    assert cache.damage() == ("broker/broker-1.0.jar: missing", "spark/connector-2.0.jar: missing")
    found = cache.ensure()
    assert cache.damage() == ()
    (found.broker_dir / "broker-1.0.jar").write_bytes(b"cut off")
    (found.broker_dir / "intruder-1.0.jar").touch()
    (found.spark_dir / "connector-2.0.jar").unlink()
    assert cache.damage() == (
        "broker/intruder-1.0.jar: not in the lock",
        "broker/broker-1.0.jar: other bytes than locked",
        "spark/connector-2.0.jar: missing",
    )
    cache.ensure()
    assert cache.damage() == ()


def test_jars_that_are_not_the_locked_ones_are_not_installed(mirror: Mirror) -> None:
    locked = mirror.lock_file.read_text()
    mirror.lock_file.write_text(locked.replace(hashlib.sha256(b"broker").hexdigest(), "0" * 64))
    with pytest.raises(SettingsError, match=r"not the locked ones: broker/broker-1\.0\.jar: other bytes"):
        mirror.cache().ensure()
    assert [path.name for path in mirror.root.iterdir()] == [".lock"]


def test_processes_at_once_resolve_once(mirror: Mirror) -> None:
    command = [sys.executable, "-c", ENSURE, *map(str, mirror.arguments)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    downloads = sorted(process.communicate(timeout=120)[0] for process in both)
    assert downloads == ["0\n", "2\n"]


def test_a_failed_download_says_what_to_try(mirror: Mirror) -> None:
    mirror.serve_from("http://127.0.0.1:9")  # the discard port: no process listens
    with pytest.raises(Unavailable) as caught:
        mirror.cache().ensure()
    message = str(caught.value)
    assert message.startswith("the jars could not be downloaded:\n")
    assert "http://127.0.0.1:9/org/example/broker/1.0/broker-1.0.pom (java.net.ConnectException" in message
    assert "set TIDEGATE_IVY_SETTINGS to its path" in message


def test_settings_that_do_not_exist_are_named(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_IVY_SETTINGS", "/no/such/ivysettings.xml")
    with pytest.raises(SettingsError) as caught:
        mirror.cache().ensure()
    assert str(caught.value) == "TIDEGATE_IVY_SETTINGS names /no/such/ivysettings.xml, which is not a file"


def test_the_installed_jars_are_the_committed_lock(jars: Jars) -> None:
    cache = default_cache()
    assert cache.jars == jars
    assert cache.damage() == ()
    assert {name.split("/")[0] for name in cache.lock} == {"broker", "spark"}
