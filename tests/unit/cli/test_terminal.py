"""Names, messages and values are printed as they are: nothing in them is markup of the terminal."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

import tidegate.gateway
from tests.unit.cli.conftest import Run
from tidegate.gateway.cli import reading, terminal

FOREIGN = "[/a-z] [red] [a] :id:"
"""A closing tag that nothing opened, a style, a tag without a meaning, and the name of an emoji."""


@pytest.mark.parametrize("name", ["out", "err"])
def test_the_consoles_print_text_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    console: Console = getattr(terminal, name)
    table = Table.grid()
    table.add_row(FOREIGN)
    console.print(FOREIGN)
    console.print(table)
    assert [line.rstrip() for line in "".join(capsys.readouterr()).splitlines()] == [FOREIGN, FOREIGN]


def test_every_console_and_every_text_of_a_bar_is_without_markup() -> None:
    """The default of rich is markup: `[a-z]` is lost, and `[/a-z]` is an error."""
    root = Path(tidegate.gateway.__file__).parent
    made = [
        (f"{path.relative_to(root)}:{call.lineno}", ast.unparse(call))
        for path in root.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in {"Console", "TextColumn"}
    ]
    assert len(made) >= 2
    assert [call for call in made if "markup=False" not in call[1]] == []


def test_the_bar_names_a_source_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        title = FOREIGN
        size = 2

        def progress(self) -> int:
            return 1

    screen = io.StringIO()
    monkeypatch.setattr(reading, "SILENT_SECONDS", 0)
    monkeypatch.setattr(reading, "err", Console(file=screen, force_terminal=True, emoji=False, width=100))
    with reading.reading(Half()) as show:
        show(1)
    assert f"reading {FOREIGN}" in screen.getvalue()


def test_infer_names_its_files_and_the_fields_with_personal_data(tidegate: Run, tmp_path: Path) -> None:
    records, made = tmp_path / "records.jsonl", tmp_path / "[red].yaml"
    records.write_text('{"[/email]": "ann@example.org", "[bold] email": "ann@example.org"}\n' * 20)
    ran = tidegate("infer", records, "--out", made)
    assert ran.returncode == 0, ran.stderr
    shown = ran.stdout.decode()
    assert f"written: {made} and {made.with_suffix('.schema.json')}\n" in shown
    assert "personal: /[bold] email, /[~1email]\n" in shown


def test_import_names_the_file_that_it_wrote(tidegate: Run, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "stays.json", tmp_path / "[a].yaml"
    theirs.write_text('{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}')
    ran = tidegate("import", theirs, "--topic", "stays", "--out", ours)
    assert ran.returncode == 0, ran.stderr
    assert f"wrote {ours}\n" in ran.stderr.decode()


def test_judge_names_the_file_of_a_difference_from_the_reference(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    contract.write_text(
        contract.read_text().replace("ward: {type: string}", r"ward: {type: string, pattern: '^\d$'}")
    )
    for name in ("[a].jsonl", "[red].jsonl"):
        (tmp_path / name).write_text('{"age": 1, "ward": "٣"}\n')
    ran = tidegate("judge", contract, "--data", tmp_path / "*.jsonl", "--reference")
    assert ran.returncode == 1, ran.stderr
    for name in ("[a].jsonl", "[red].jsonl"):
        assert f"{name} line 1  the judge refuses by the schema" in ran.stdout.decode()


def test_lint_names_a_file_with_brackets(tidegate: Run, contract: Path) -> None:
    moved = contract.rename(contract.with_name("[a].yaml"))
    assert f"{moved}: ok · hospital.admissions" in tidegate("lint", moved).stdout.decode()
