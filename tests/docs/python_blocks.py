"""The code blocks of a page, run as a reader would: one after another, in one folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

PAGE = Path("docs/reference/python-api.md").read_text("utf-8")
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.admissions
version: 1.0.0
topic: hospital.admissions
schema:
  type: json-schema
  definition: {type: object, required: [age], properties: {age: {type: integer, minimum: 0}, ward: {type: string}}}
rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
"""


def run(block: str, names: dict[str, Any]) -> int:
    """Run a block; return how many expressions had the value that the comment behind them says."""
    lines = block.splitlines()
    checked = 0
    for statement in ast.parse(block).body:
        said = re.search(r"  # (.+)$", lines[(statement.end_lineno or statement.lineno) - 1])
        if isinstance(statement, ast.Expr) and said is not None:
            value = eval(compile(ast.Expression(statement.value), "page", "eval"), names)  # noqa: S307 - our own page
            assert value == ast.literal_eval(said[1]), f"{ast.unparse(statement)} is {value!r}"
            checked += 1
        else:
            exec(compile(ast.Module([statement], []), "page", "exec"), names)  # noqa: S102 - our own page
    return checked
