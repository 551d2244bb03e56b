"""Topics and the registry subjects of their values."""

from __future__ import annotations

import pytest

from tidegate.contracts.document.terms import subject_of, topic_of


@pytest.mark.parametrize("topic", ["hospital.admissions", "a-value", "-value"])
def test_a_topic_and_its_subject_name_each_other(topic: str) -> None:
    assert topic_of(subject_of(topic)) == topic


def test_a_subject_of_another_strategy_has_no_topic() -> None:
    assert topic_of("hospital.admissions-key") is None
    assert topic_of("hospital.Admission") is None
