"""One order of text on every database: by code point, as SQLite has it, whatever the database's own language is."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class ByCodePoint(FunctionElement[str]):
    """A column of text, to be ordered by. Its type is text; a null stays one."""

    inherit_cache = True
    name = "by_code_point"
    type = Text()


@compiles(ByCodePoint)
def _as_it_is(element: ByCodePoint, compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(ByCodePoint, "postgresql")
def _collated(element: ByCodePoint, compiler: SQLCompiler, **options: Any) -> str:
    return f'{compiler.process(element.clauses, **options)} COLLATE "C"'
