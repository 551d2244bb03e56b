"""Calls into the JVM behind Spark, Iceberg and Delta: classes, maps of strings, and errors."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_ERRORS = (Py4JError, PySparkException)
"""Errors of a call into the JVM; PySpark converts the common ones."""
MOST_CHARACTERS: Final = 1_000
"""Maximum length of a quoted message: some of Delta's list all versions of a table."""


class JavaClasses:
    """The Java classes below a package, as attributes; each name is looked up once.

    Py4J looks up `org`, `org.apache` and so on at each use, and Java searches all jars for a class of each such name.
    """

    def __init__(self, package: Any) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        """Return a package or a class. Python calls this only for names that are not attributes yet."""
        found = getattr(self._package, name)
        known = JavaClasses(found) if isinstance(found, JavaPackage) else found
        setattr(self, name, known)
        return known


def java_of(spark: SparkSession) -> Any:
    """Return the Java classes of a session's process."""
    return _classes(spark._jvm)  # noqa: SLF001 - Spark, Iceberg and Delta have no Python API for what is called there


@lru_cache(maxsize=4)
def _classes(jvm: Any) -> JavaClasses:
    return JavaClasses(jvm)


def strings_of(spark: SparkSession, found: Any) -> dict[str, str]:
    """Return a Java map of strings, in one call.

    In Python, iterating over a Java collection ends with a Java exception, which PySpark examines in 100 calls.
    """
    text = java_of(spark).com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found)
    values: dict[str, str] = json.loads(text)
    return values


def java_class(error: Exception) -> str:
    """Return the name of the Java class of an error, which PySpark may have wrapped."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return str(java.getClass().getName()) if java is not None else type(error).__name__


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most MOST_CHARACTERS of it; the rest is a stack trace."""
    line = str(getattr(error, "java_exception", error)).partition("\n")[0]
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..."
