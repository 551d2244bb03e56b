"""Errors of the JVM behind Spark, Iceberg and Delta."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

JAVA_ERRORS = (Py4JError, PySparkException)
"""Errors of a call into the JVM; PySpark converts the common ones."""


def java_class(error: Exception) -> str:
    """Return the name of the Java class of an error, which PySpark may have wrapped."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return str(java.getClass().getName()) if java is not None else type(error).__name__


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the rest is a stack trace."""
    return str(getattr(error, "java_exception", error)).partition("\n")[0]
