from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.deep_schemas import chained, contract_with, nested
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Disposition, Stage
from tidegate.gateway.factory import Factory
from tidegate.gateway.registry.judging import PlanCache
from tidegate.gateway.storage.sql import ContractVersion

MakeContract = Callable[..., bytes]

VALUES = (
    b'{"admission_id": "A", "age": 1}',
    b'{"admission_id": "A", "age": 999}',
    b'{"admission_id": "A", "age": 0.30000000000000001}',
    b'{"admission_id": "A", "age": 1, "age": 999}',
    b"",
    b"\xff",
    b"NaN",
    b"[" * 100_000,
    None,
)


def publish(factory: Factory, document: bytes) -> ContractVersion:
    return factory.registry().publish(document, "contract.json").version


def test_the_verdicts_are_those_of_the_one_judge(factory: Factory, make_contract: MakeContract) -> None:
    publish(factory, make_contract())
    judgement = factory.judge_service().judge("hospital.admissions", "latest", VALUES)
    plan = compile_plan(DataContract.model_validate_json(make_contract()))
    assert judgement.verdicts == tuple(plan.explain(value, typed=True) for value in VALUES)
    assert judgement.version.version == "1.2.0"
    assert judgement.verdicts[0].disposition is Disposition.ACCEPTED


def test_a_record_beyond_the_budget_of_steps_is_a_named_violation(factory: Factory) -> None:
    publish(
        factory, contract_with(chained("allOf")).model_dump_json(by_alias=True, exclude_unset=True).encode()
    )
    verdicts = factory.judge_service().judge("a.b", "latest", (b"{}", nested(40, "1"), b"{}")).verdicts
    assert [tuple(each.code for each in verdict.violations) for verdict in verdicts] == [
        (),
        ("json.too-much-work",),
        (),
    ]


def test_no_records_have_no_verdicts(factory: Factory, make_contract: MakeContract) -> None:
    publish(factory, make_contract())
    assert factory.judge_service().judge("hospital.admissions", "1.2.0", ()).verdicts == ()


def test_plans_are_kept_by_fingerprint_and_the_oldest_goes(
    factory: Factory, make_contract: MakeContract
) -> None:
    first, second, third = (publish(factory, make_contract(version=f"1.{n}.0")) for n in range(3))
    cache = PlanCache(2)
    plans = [cache.plan(version) for version in (first, second)]
    assert cache.plan(first) is plans[0]
    cache.plan(third)
    assert cache.plan(first) is plans[0]
    assert cache.plan(second) is not plans[1]


def test_threads_share_the_cache(factory: Factory, make_contract: MakeContract) -> None:
    versions = [publish(factory, make_contract(version=f"1.{n}.0")) for n in range(4)]
    cache = PlanCache(2)
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(cache.plan, versions * 8))
    assert [plan.fingerprint for plan in plans] == [version.fingerprint for version in versions * 8]


def test_posted_records_are_read_with_the_schemas_that_they_name(
    factory: Factory, make_contract: MakeContract
) -> None:
    first = publish(factory, make_contract(framing="confluent-prefix"))
    value = b"\0" + first.registry_id.to_bytes(4, "big") + b'{"admission_id": "A", "age": 1}'
    unknown = b"\0\0\1\0\0" + value[5:]
    judgement = factory.judge_service().judge("hospital.admissions", "latest", (value, unknown))
    codes = [[violation.code for violation in verdict.violations] for verdict in judgement.verdicts]
    assert codes == [[], ["frame.unknown-schema"]]


def test_what_is_posted_has_no_headers_and_is_read_with_the_contracts_schema(
    factory: Factory, make_contract: MakeContract
) -> None:
    publish(factory, make_contract(framing="confluent-header"))
    values = (b'{"admission_id": "A", "age": 1}', b'{"admission_id": "A", "age": 999}')
    judgement = factory.judge_service().judge("hospital.admissions", "latest", values)
    codes = [[violation.code for violation in verdict.violations] for verdict in judgement.verdicts]
    assert codes == [[], ["age-is-known"]]


def test_a_value_that_does_not_fit_its_column_is_refused_as_in_the_job(
    factory: Factory, make_contract: MakeContract
) -> None:
    numbers = {
        "type": "json-schema",
        "definition": {"type": "object", "properties": {"x": {"type": "number"}}},
    }
    columns = [{"name": "x", "from": "/x", "type": "int"}]
    publish(factory, make_contract(schema=numbers, columns=columns, rules=[]))
    judgement = factory.judge_service().judge("hospital.admissions", "latest", (b'{"x": 1.5}', b'{"x": 1}'))
    first, second = (
        [(each.stage, each.code) for each in verdict.violations] for verdict in judgement.verdicts
    )
    assert (first, second) == ([(Stage.COLUMN, "x")], [])
    assert judgement.explanations[0][0].sentence
