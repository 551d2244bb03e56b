"""Which archive of classes Java is given, and what becomes of one that was not written whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from py4j.protocol import Py4JNetworkError

from tidegate.spark_jobs.class_archive import class_archive, java_options, keep_archive, writes_archive
from tidegate.spark_jobs.session import _engine
from tidegate.spark_jobs.settings import SinkSettings


def settings(folder: Path, **changes: object) -> SinkSettings:
    jars = folder / "jars"
    jars.mkdir(exist_ok=True)
    if not (jars / "some.jar").exists():  # the time of a jar is a part of its version
        (jars / "some.jar").touch()
    fields = {"bootstrap_servers": "kafka:9092", "warehouse": folder, "spark_jars": jars, **changes}
    return SinkSettings.model_validate(fields)


def written(file: Path) -> str:
    file.write_text("classes")
    return "Dynamic dump"


def test_without_an_archive_java_is_asked_for_none(tmp_path: Path) -> None:
    assert java_options(settings(tmp_path)) == ()
    assert _engine(settings(tmp_path))["spark.driver.extraJavaOptions"] == "-Xss8m"


def test_an_archive_that_a_run_has_written_is_used_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    writing = settings(tmp_path, write_class_archive=True)
    assert java_options(writing) == ()
    assert writes_archive(writing)
    options = java_options(writing)
    keep_archive(writing, written)
    archive = class_archive(tmp_path / "jars")
    assert archive.read_text() == "classes"
    assert not archive.with_suffix(".part").exists()
    assert java_options(settings(tmp_path)) == (f'"-XX:SharedArchiveFile={archive}"', options[-1])
    assert str(archive) in _engine(settings(tmp_path))["spark.driver.extraJavaOptions"]
    assert java_options(writing) == options


def test_java_writes_no_archive_by_itself(tmp_path: Path) -> None:
    """The Java process of a killed job would write it for 20 s, beside the start of the next job."""
    writing = settings(tmp_path, write_class_archive=True)
    assert writes_archive(writing)
    assert not any("AtExit" in option for option in java_options(writing))


def test_a_run_without_an_archive_leaves_the_one_before(tmp_path: Path) -> None:
    def ended(file: Path) -> str:
        file.write_text("half of it")
        raise Py4JNetworkError("Answer from Java side is empty\n at Java")

    writing = settings(tmp_path, write_class_archive=True)
    archive = class_archive(tmp_path / "jars")
    archive.write_text("before")
    archive.with_suffix(".part").write_text("half, by a process that was killed")
    for write, reason in (
        (lambda _file: "no space left", "Java answers: no space left"),
        (ended, "Answer from Java side is empty"),
    ):
        with structlog.testing.capture_logs() as events:
            keep_archive(writing, write)
        assert events[-1]["event"] == "class_archive_not_written"
        assert events[-1]["error"] == reason
    assert archive.read_text() == "before"
    assert not archive.with_suffix(".part").exists()


def test_another_java_or_another_folder_has_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = class_archive(tmp_path / "jars")
    assert class_archive(tmp_path / "others") != first
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "another"))
    assert class_archive(tmp_path / "jars") != first


def test_a_run_writes_an_archive_if_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    assert writes_archive(settings(tmp_path))
    assert not writes_archive(settings(tmp_path, write_class_archive=False))
    assert not writes_archive(settings(tmp_path, spark_master="spark://master:7077"))
    class_archive(tmp_path / "jars").write_text("classes")
    assert not writes_archive(settings(tmp_path))
    assert writes_archive(settings(tmp_path, write_class_archive=True))


@pytest.mark.parametrize(
    "option", ["-XX:SharedArchiveFile=a.jsa", "-XX:ArchiveClassesAtExit=a", "-Xshare:off"]
)
def test_no_archive_beside_one_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Xss4m {option}")
    assert not writes_archive(settings(tmp_path))


@pytest.mark.parametrize(
    "option", ["-XX:ArchiveClassesAtExit=a.jsa", "-XX:SharedArchiveFile=a.jsa", "-Xshare:off"]
)
def test_an_archive_is_not_used_beside_one_that_a_variable_names(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java would refuse to start."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", option)
    archive = class_archive(settings(tmp_path).spark_jars or tmp_path)
    archive.write_text("classes")
    assert java_options(settings(tmp_path)) == ()


def test_no_archive_where_none_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    monkeypatch.setattr(os, "access", lambda folder, mode: (Path(folder), mode) != (tmp_path, os.W_OK))
    assert not writes_archive(settings(tmp_path))


def test_after_an_upgrade_the_archive_is_written_anew_and_the_old_one_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    writing = settings(tmp_path)
    before = class_archive(tmp_path / "jars")
    before.write_text("classes of the last version")
    (tmp_path / "classes-another-installation.jsa").write_text("")
    before.with_suffix(".part").write_text("half, by a process that was killed")
    (tmp_path / "jars" / "some.jar").write_text("upgraded")
    assert writes_archive(writing)
    keep_archive(writing, written)
    left = {each.name for each in tmp_path.glob("classes-*")}
    now = class_archive(tmp_path / "jars")
    assert left == {now.name, now.with_suffix(".lock").name, "classes-another-installation.jsa"}
    assert not writes_archive(writing)


def test_archives_that_no_start_has_used_for_long_are_removed(tmp_path: Path) -> None:
    """Each new folder of Spark has an archive of its own, which its upgrade would leave for ever."""
    used, unused = (tmp_path / f"classes-{name}-1.jsa" for name in ("used", "unused"))
    for each in (used, unused):
        each.write_text("classes")
        os.utime(each, (0, 0))
    os.utime(used)
    writing = settings(tmp_path, write_class_archive=True)
    own = class_archive(tmp_path / "jars")
    own.write_text("classes")
    os.utime(own, (0, 0))
    java_options(settings(tmp_path))
    assert own.stat().st_mtime > 0
    assert writes_archive(writing)
    keep_archive(writing, written)
    assert {each.name for each in tmp_path.glob("*.jsa")} == {used.name, own.name}


def test_one_process_at_a_time_writes_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is killed again and again while it writes leaves one incomplete file, and not one for each time."""
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    settings(tmp_path)  # makes the folder of jars, whose content is a part of the name
    lock = class_archive(tmp_path / "jars").with_suffix(".lock")
    holds = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holds, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        assert not writes_archive(settings(tmp_path))
        assert not writes_archive(settings(tmp_path, write_class_archive=True))
        other.kill()
    assert writes_archive(settings(tmp_path))
    assert java_options(settings(tmp_path, write_class_archive=True))


def test_jars_are_on_the_class_path_of_a_local_session_and_are_sent_to_executors(tmp_path: Path) -> None:
    jar = str(tmp_path / "jars" / "some.jar")
    local = _engine(settings(tmp_path))
    assert (local["spark.driver.extraClassPath"], "spark.jars" in local) == (jar, False)
    cluster = _engine(settings(tmp_path, spark_master="spark://master:7077"))
    assert (cluster["spark.jars"], "spark.driver.extraClassPath" in cluster) == (jar, False)
