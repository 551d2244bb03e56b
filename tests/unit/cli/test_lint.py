"""`tidegate lint` as a person sees it."""

from __future__ import annotations

from pathlib import Path

from .conftest import CONTRACT, Run


def test_a_sound_contract(tidegate: Run, contract: Path) -> None:
    ran = tidegate("lint", contract)
    assert ran.stdout.decode() == f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules\n"
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_problems_are_lines_that_editors_follow(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(CONTRACT.replace("severity", "serverity").replace("on_violation", "on_violaton"))
    ran = tidegate("lint", broken, contract)
    assert ran.stdout.decode() == f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules\n"
    assert ran.stderr.decode() == (
        f"{broken}:14:72: unknown key `serverity`; did you mean `severity`?\n"
        f"{broken}:15:75: unknown key `on_violaton`; did you mean `on_violation`?\n"
        "2 problems in 2 files\n"
    )
    assert ran.returncode == 1


def test_a_missing_file_is_wrong_usage(tidegate: Run) -> None:
    ran = tidegate("lint", "nowhere.yaml")
    assert ran.returncode == 2
    assert b"nowhere.yaml" in ran.stderr


def test_an_expectation_that_costs_time_in_every_batch_is_named(tidegate: Run, contract: Path) -> None:
    kwargs = "kwargs: {column: age, min_value: 20, max_value: 80}"
    mean = f"{{id: mean-age, type: expect_column_mean_to_be_between, {kwargs}}}"
    median = f"{{id: median-age, type: expect_column_median_to_be_between, {kwargs}}}"
    contract.write_text(f"{CONTRACT}expectations:\n- {mean}\n- {median}\n")
    ran = tidegate("lint", contract)
    assert ran.stdout.decode().splitlines() == [
        f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules · 2 expectations",
        "  note: Great Expectations judges median-age, which costs time in every batch",
    ]
    assert ran.returncode == 0


def test_a_mistake_in_an_expectation_is_a_line_that_editors_follow(tidegate: Run, contract: Path) -> None:
    kwargs = "kwargs: {column: agge, max_value: 80}"
    contract.write_text(
        f"{CONTRACT}expectations:\n- {{id: mean, type: expect_column_mean_to_be_between, {kwargs}}}\n"
    )
    ran = tidegate("lint", contract)
    assert "there is no column `agge`; did you mean `age`?" in ran.stderr.decode()
    assert ran.returncode == 1


def test_the_schema_for_editors_is_the_published_one(tidegate: Run) -> None:
    ran = tidegate("schema")
    assert ran.stdout == Path("schemas/meta/tidegate-v1.schema.json").read_bytes()
