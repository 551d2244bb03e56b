"""The page about the Python API: its examples run, and it names all of the public interface."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tidegate

from .python_blocks import BLOCKS, CONTRACT, PAGE, run


def test_the_examples_run_and_have_the_values_that_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of Spark run in tests/spark/test_public_frames.py, which has a session."""
    monkeypatch.chdir(tmp_path)
    Path("contract.yaml").write_text(CONTRACT)
    ages = [999 if row % 400 == 7 else row % 97 for row in range(2_000)]
    pd.DataFrame({"age": ages}).to_parquet("admissions.parquet")
    names: dict[str, Any] = {}
    assert [run(block, names) for block in BLOCKS if "spark" not in block] == [2, 1]
    assert tidegate.Contract.load("proposed.yaml").id == "hospital.admissions"


def test_each_public_member_of_the_classes_is_named() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    words = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    members = {
        name for each in (tidegate.Contract, tidegate.Registry) for name in vars(each) if name[0] != "_"
    }
    assert members <= words, members - words
