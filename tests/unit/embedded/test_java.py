"""A missing or wrong Java has a clear message. The fake `java` is a script, because only its output is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.embedded.java import find_java


def install(folder: Path, version_line: str) -> Path:
    """Put a `java` into `folder`/bin that prints this to standard error, as real ones do."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("line", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15", 17),
        ('openjdk version "21" 2023-09-19', "21", 21),
        ('java version "17.0.12-ea" 2024-07-16 LTS', "17.0.12-ea", 17),
    ],
)
def test_a_fitting_java_is_found_on_the_path(tmp_path: Path, line: str, version: str, major: int) -> None:
    launcher = install(tmp_path, line)
    found = find_java({"PATH": str(launcher.parent)})
    assert (found.path, found.version, found.major) == (launcher, version, major)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    install(tmp_path / "path", 'openjdk version "17.0.1"')
    launcher = install(tmp_path / "home", 'openjdk version "21.0.2"')
    found = find_java({"PATH": str(tmp_path / "path" / "bin"), "JAVA_HOME": str(tmp_path / "home")})
    assert (found.path, found.major) == (launcher, 21)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "11.0.20" 2023-07-18', "11.0.20"),
        ('java version "1.8.0_402"', "1.8.0_402"),
        ('openjdk version "25" 2025-09-16', "25"),
    ],
)
def test_a_wrong_version_names_itself_and_what_is_needed(tmp_path: Path, line: str, version: str) -> None:
    launcher = install(tmp_path, line)
    with pytest.raises(SettingsError) as caught:
        find_java({"PATH": str(launcher.parent)})
    message = f"{launcher} (from PATH) is Java {version}; Tidegate needs Java 17 to 21. "
    assert str(caught.value).startswith(message)


def test_no_java_at_all_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        find_java({"PATH": str(tmp_path)})
    message = "no Java found: JAVA_HOME is not set and PATH has no `java`. "
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) > len(message)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})
    message = f"JAVA_HOME is {tmp_path}, but {tmp_path}/bin/java does not exist. "
    assert str(caught.value).startswith(message)


def test_a_launcher_that_fails_is_no_java(tmp_path: Path) -> None:
    launcher = install(tmp_path, "The operation could not be completed. Unable to locate a Java Runtime.")
    launcher.write_text(launcher.read_text() + "exit 1\n")
    with pytest.raises(SettingsError, match="does not run: it is not a working Java"):
        find_java({"PATH": str(launcher.parent)})
