from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.errors import ConflictError, ContractError, NotFoundError
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.sql import VersionFilter

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
EVERYTHING = VersionFilter()


def published(factory: Factory, document: bytes) -> tuple[int, int, bool]:
    publication = factory.registry().publish(document, "contract.json")
    return publication.version.registry_id, publication.version.number, publication.is_new


def test_the_same_content_again_changes_nothing(factory: Factory, make_contract: MakeContract) -> None:
    first = published(factory, make_contract())
    again = published(factory, make_contract(status="active"))  # a default, written out
    as_yaml = factory.registry().publish(
        b"# a comment\n" + make_contract().replace(b",", b", "), "contract.yaml"
    )
    assert (first, again) == ((1, 1, True), (1, 1, False))
    assert (as_yaml.version.registry_id, as_yaml.is_new) == (1, False)


def test_a_changed_document_under_a_used_version_is_refused_with_a_free_version(
    factory: Factory, make_contract: MakeContract
) -> None:
    published(factory, make_contract())
    published(factory, make_contract(version="1.4.2"))
    with pytest.raises(ConflictError) as raised:
        published(factory, make_contract(description="changed"))
    assert str(raised.value) == (
        "hospital.admissions 1.2.0 is published with another content (registry id 1), and a version never "
        "changes; give the changed document a new version, such as 1.5.0"
    )
    assert factory.registry().version("hospital.admissions", "1.2.0").registry_id == 1


def test_a_version_below_the_latest_may_follow_and_numbers_count_publications(
    factory: Factory, make_contract: MakeContract
) -> None:
    results = [published(factory, make_contract(version=version)) for version in ("2.0.0", "1.9.1")]
    assert results == [(1, 1, True), (2, 2, True)]
    versions = factory.registry().versions("hospital.admissions")
    assert [version.version for version in versions] == ["2.0.0", "1.9.1"]


def test_registry_ids_count_over_all_contracts(factory: Factory, make_contract: MakeContract) -> None:
    published(factory, make_contract())
    other = published(factory, make_contract(id="other", topic="other"))
    assert other == (2, 1, True)
    assert factory.registry().by_registry_id(2).contract_id == "other"


def test_latest_is_the_highest_version_that_is_enforced(
    factory: Factory, make_contract: MakeContract
) -> None:
    for version, status in [
        ("1.9.0", "active"),
        ("1.10.0", "deprecated"),
        ("2.0.0-rc.1", "draft"),
        ("3.0.0", "retired"),
    ]:
        published(factory, make_contract(version=version, status=status))
    assert factory.registry().version("hospital.admissions", "latest").version == "1.10.0"


def test_what_is_missing_is_named_with_what_there_is(factory: Factory, make_contract: MakeContract) -> None:
    published(factory, make_contract(status="draft"))
    registry = factory.registry()
    cases = {
        ("hospital.admissions", "9.9.9"): "hospital.admissions has no version 9.9.9; the highest is 1.2.0",
        ("hospital.admissions", "latest"): (
            "no version of hospital.admissions is active or deprecated; the highest, 1.2.0, is draft"
        ),
        ("nobody", "latest"): "no contract is published under the id nobody",
    }
    for (contract_id, version), message in cases.items():
        with pytest.raises(NotFoundError, match=f"^{message}$"):
            registry.version(contract_id, version)
    with pytest.raises(NotFoundError, match=r"^no contract is published under the id nobody$"):
        registry.versions("nobody")
    with pytest.raises(NotFoundError, match=r"^no contract version has the registry id 7$"):
        registry.by_registry_id(7)


def test_a_topic_belongs_to_one_contract(factory: Factory, make_contract: MakeContract) -> None:
    published(factory, make_contract())
    with pytest.raises(ConflictError) as taken:
        published(factory, make_contract(id="copy"))
    assert str(taken.value) == (
        "the topic hospital.admissions is governed by the contract hospital.admissions; "
        "publish a new version of hospital.admissions, or name another topic"
    )
    with pytest.raises(NotFoundError):
        factory.registry().versions("copy")


def test_a_contract_keeps_its_topic(factory: Factory, make_contract: MakeContract) -> None:
    published(factory, make_contract())
    with pytest.raises(ConflictError) as moved:
        published(factory, make_contract(version="2.0.0", topic="elsewhere"))
    assert str(moved.value) == (
        "hospital.admissions governs the topic hospital.admissions in every version; "
        "publish the contract of elsewhere under an id of its own"
    )


def test_a_contract_that_does_not_compile_is_refused_with_places(
    factory: Factory, make_contract: MakeContract
) -> None:
    rules = [{"id": "r", "kind": "forbidden", "field": "/agee", "values": [1]}]
    with pytest.raises(ContractError) as raised:
        published(factory, make_contract(rules=rules))
    (problem,) = raised.value.problems
    assert (problem.pointer, problem.file, problem.line) == ("/rules/0/field", "contract.json", 1)
    assert "/age" in problem.message
    assert factory.registry().contracts(EVERYTHING, offset=0, limit=10).total == 0


def test_a_contract_that_names_a_schema_file_is_refused(
    factory: Factory, make_contract: MakeContract
) -> None:
    with pytest.raises(ContractError) as raised:
        published(factory, make_contract(schema={"type": "json-schema", "file": "/etc/passwd"}))
    assert [problem.pointer for problem in raised.value.problems] == ["/schema/file"]


def test_the_list_shows_the_current_version_of_each_contract(
    factory: Factory, make_contract: MakeContract
) -> None:
    for name, version, status, domain in [
        ("a", "1.0.0", "active", "north"),
        ("a", "2.0.0", "draft", "south"),
        ("b", "1.0.0", "draft", "north"),
        ("b", "1.1.0", "retired", "north"),
        ("c", "1.0.0", "active", "south"),
    ]:
        published(
            factory, make_contract(id=name, topic=f"t-{name}", version=version, status=status, domain=domain)
        )
    registry = factory.registry()

    def listed(wanted: VersionFilter, offset: int = 0, limit: int = 10) -> tuple[list[str], int]:
        page = registry.contracts(wanted, offset=offset, limit=limit)
        return [f"{found.contract_id} {found.version}" for found in page.contracts], page.total

    assert listed(EVERYTHING) == (["a 1.0.0", "b 1.1.0", "c 1.0.0"], 3)
    assert listed(EVERYTHING, offset=1, limit=1) == (["b 1.1.0"], 3)
    assert listed(EVERYTHING, offset=3) == ([], 3)
    assert listed(VersionFilter(status="active")) == (["a 1.0.0", "c 1.0.0"], 2)
    assert listed(VersionFilter(status="draft")) == ([], 0)
    assert listed(VersionFilter(topic="t-b")) == (["b 1.1.0"], 1)
    assert listed(VersionFilter(domain="south")) == (["c 1.0.0"], 1)
    assert listed(VersionFilter(status="active", domain="north")) == (["a 1.0.0"], 1)


@settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(order=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_however_often_versions_are_published_each_is_kept_once(
    factory: Factory, make_contract: MakeContract, order: list[int]
) -> None:
    """One store serves all examples, so that most publications meet what earlier ones left."""
    registry = factory.registry()
    for minor in order:
        first = registry.publish(make_contract(version=f"1.{minor}.0"), "contract.json").version
        assert registry.publish(make_contract(version=f"1.{minor}.0"), "contract.json").version == first
    versions = registry.versions("hospital.admissions")
    assert sorted(version.number for version in versions) == list(range(1, len(versions) + 1))
    assert len({version.version for version in versions}) == len(versions)


def test_lists_have_one_order_on_every_database(
    factory: Factory, make_contract: MakeContract, make_report: MakeReport
) -> None:
    names = ["B", "C-1", "C.1", "C_1", "Z", "a", "b"]
    for name in reversed(names):
        factory.registry().publish(make_contract(id=name, topic=name), "c.json")
        factory.reports().record(name, make_report(1, stream=name, topic=name))
    found = factory.registry().contracts(VersionFilter(), offset=2, limit=4).contracts
    assert [one.contract_id for one in found] == names[2:6]
    assert [summary.stream for summary in factory.streams().summaries()] == names
