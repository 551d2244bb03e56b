"""Which archive of classes Java is given, and what becomes of one that was not written whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.spark_jobs.class_archive import class_archive, java_options, keep_archive
from tidegate.spark_jobs.session import _engine
from tidegate.spark_jobs.settings import SinkSettings

WRITES = "import sys; sys.stdin.read(); open(sys.argv[1], 'w').write('classes')"


def settings(folder: Path, **changes: object) -> SinkSettings:
    jars = folder / "jars"
    jars.mkdir(exist_ok=True)
    (jars / "some.jar").touch()
    fields = {"bootstrap_servers": "kafka:9092", "warehouse": folder, "spark_jars": jars, **changes}
    return SinkSettings.model_validate(fields)


def ended(code: str, file: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, file], stdin=subprocess.PIPE)


def test_without_an_archive_java_is_asked_for_none(tmp_path: Path) -> None:
    assert java_options(settings(tmp_path)) == ()
    assert _engine(settings(tmp_path))["spark.driver.extraJavaOptions"] == "-Xss8m"


def test_an_archive_that_a_run_has_written_is_used_by_the_next(tmp_path: Path) -> None:
    writing = settings(tmp_path, write_class_archive=True)
    (option, quiet) = java_options(writing)
    file = option.strip('"').removeprefix("-XX:ArchiveClassesAtExit=")
    assert not Path(file).exists()
    keep_archive(writing, ended(WRITES, file))
    archive = class_archive(tmp_path / "jars")
    assert archive.read_text() == "classes"
    assert not Path(file).exists()
    assert java_options(settings(tmp_path)) == (f'"-XX:SharedArchiveFile={archive}"', quiet)
    assert str(archive) in _engine(settings(tmp_path))["spark.driver.extraJavaOptions"]
    assert java_options(writing)[0] == option


def test_a_run_without_an_archive_leaves_the_one_before(tmp_path: Path) -> None:
    writing = settings(tmp_path, write_class_archive=True)
    class_archive(tmp_path / "jars").write_text("before")
    keep_archive(writing, ended("", ""))
    keep_archive(writing, None)
    assert class_archive(tmp_path / "jars").read_text() == "before"


def test_another_java_or_another_folder_has_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = class_archive(tmp_path / "jars")
    assert class_archive(tmp_path / "others") != first
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "another"))
    assert class_archive(tmp_path / "jars") != first


def test_jars_are_on_the_class_path_of_a_local_session_and_are_sent_to_executors(tmp_path: Path) -> None:
    jar = str(tmp_path / "jars" / "some.jar")
    local = _engine(settings(tmp_path))
    assert (local["spark.driver.extraClassPath"], "spark.jars" in local) == (jar, False)
    cluster = _engine(settings(tmp_path, spark_master="spark://master:7077"))
    assert (cluster["spark.jars"], "spark.driver.extraClassPath" in cluster) == (jar, False)
