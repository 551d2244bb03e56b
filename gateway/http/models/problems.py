"""Mistakes of a request, as answers list them."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from tidegate.contracts.errors import Problem


class ProblemPlace(BaseModel):
    """One mistake and its place: a JSON Pointer, and line and column where they are known."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) into the body, or the name of a parameter.")
    message: str
    line: int | None = Field(default=None, description="Line in the posted document, from 1.")
    column: int | None = Field(default=None, description="Column in that line, from 1.")

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Show a problem."""
        return cls(pointer=problem.pointer, message=problem.message, line=problem.line, column=problem.column)
