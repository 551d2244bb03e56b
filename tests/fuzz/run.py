"""Throw changed records and contract documents at the judge, and requests at the registry.

`python -m tests.fuzz.run --seconds 600`; `--only requests --inputs 300000 --seed 1` asks a number of requests.

Each input must be judged without an exception, in CPU_SECONDS of CPU time and with at most MEMORY_BYTES of additional
memory. A contract document must compile, or be refused with ContractError. A request is answered with a status below 500
in ANSWER_SECONDS. The current input is kept in a file, so that it is available after a crash. Every run prints its seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pyarrow as pa

from tests.fuzz.bounds import bound_memory, within
from tests.fuzz.mutation import mutated, mutated_document
from tests.fuzz.requests import fuzz_requests
from tests.fuzz.seeds import CONTRACTS, DOCUMENTS, RECORDS, WRITERS
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory

CPU_SECONDS: Final = 1.0
"""The limit of CPU time for one record."""
DOCUMENT_CPU_SECONDS: Final = 10.0
"""The limit of CPU time for one document; compiling is slower, and proofs are limited by steps instead of time."""
_BY_BYTES: Final = 0.3
"""The share of documents that are changed as bytes; those changed as JSON are valid contracts more often."""
_BATCH: Final = 20
"""The number of records that are judged in one array, after each was judged alone."""


def main() -> int:
    """Run until the time or the number of inputs is reached; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=int, help="instead of a time: so many inputs of each sort")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--only", choices=("records", "documents", "requests"))
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-input.bin"), help="where the input in hand is kept"
    )
    parser.add_argument(
        "--bootstrap-servers",
        help="a broker without data, whose topics requests about refused records read; else one is started for them",
    )
    arguments = parser.parse_args()
    _say(f"seed {arguments.seed}; the input in hand is kept in {arguments.keep}")
    ask = partial(_fuzz_requests, bootstrap_servers=arguments.bootstrap_servers)
    sorts = {"requests": ask, "records": fuzz_records, "documents": fuzz_documents}
    chosen = [arguments.only] if arguments.only else list(sorts)
    for sort in chosen:
        if sort != "requests":  # threads of a server reserve address space that they do not use
            bound_memory()
        until = time.monotonic() + arguments.seconds / len(chosen)
        rounds = iter(range(arguments.inputs)) if arguments.inputs else _rounds(until)
        done = sorts[sort](Random(f"{sort} {arguments.seed}"), rounds, arguments.keep)  # noqa: S311 - to be repeated
        _say(f"{done} {sort}")
    arguments.keep.unlink(missing_ok=True)
    return 0


def fuzz_records(chance: Random, rounds: Iterator[int], keep: Path) -> int:
    """Judge mutated records by random contracts; return the number of records."""
    plans = {name: _plan(name) for name in CONTRACTS}
    done = 0
    for number in rounds:
        name = chance.choice(list(plans))
        values = [mutated(chance, RECORDS[name]) for _ in range(_BATCH)]
        for value in values:
            keep.write_bytes(name.encode() + b"\n" + value)
            within(CPU_SECONDS, lambda value=value, name=name: judge_alone(plans[name], value))  # type: ignore[misc] # bound now
        within(CPU_SECONDS * _BATCH, lambda name=name, values=values: judge_together(plans[name], values))  # type: ignore[misc] # the same
        done = number + 1
    return done * _BATCH


def fuzz_documents(chance: Random, rounds: Iterator[int], keep: Path) -> int:
    """Compile mutated contract documents, and judge a record by each that compiles; return the number of documents."""
    done = 0
    for number in rounds:
        change = mutated if chance.random() < _BY_BYTES else mutated_document
        document = change(chance, DOCUMENTS)
        keep.write_bytes(document)
        plan = within(DOCUMENT_CPU_SECONDS, lambda document=document: compile_document(document))  # type: ignore[misc] # the same
        if plan is not None:
            value = mutated(chance, chance.choice(list(RECORDS.values())))
            keep.write_bytes(document + b"\n" + value)
            within(CPU_SECONDS, lambda plan=plan, value=value: judge_alone(plan, value))  # type: ignore[misc] # the same
        done = number + 1
    return done


def _fuzz_requests(chance: Random, rounds: Iterator[int], keep: Path, bootstrap_servers: str | None) -> int:
    """Send mutated requests to a registry with these brokers, or with one that is started for them."""
    if bootstrap_servers is not None:
        return fuzz_requests(chance, rounds, keep, bootstrap_servers)
    with tempfile.TemporaryDirectory(prefix="tidegate-fuzz-") as folder:
        root = Path(folder)
        run = RunDirectory(root / "run", root / "logs")
        options = BrokerOptions(preferred_port=None)
        with Broker(root / "broker", run, ensure_jars(), find_java(), options) as broker:
            return fuzz_requests(chance, rounds, keep, broker.bootstrap)


def compile_document(document: bytes) -> EnforcementPlan | None:
    """Return the plan of a document, or None if it is refused with ContractError."""
    try:
        return compile_plan(parse_contract(document, name="fuzz.yaml", read_schema=None).contract)
    except ContractError as error:
        _ = str(error)  # the message must not fail either
        return None


def judge_alone(plan: EnforcementPlan, value: bytes) -> None:
    """Judge one record by each method of a plan. Raise AssertionError if the dispositions differ."""
    verdict = plan.explain(value)
    typed = plan.explain(value, typed=True)
    (plain,) = plan.judge(pa.array([value], pa.binary())).to_pylist()
    judged = plan.judge_typed(pa.array([value], pa.large_binary()))
    assert plain["disposition"] == verdict.disposition, (plain, verdict)
    assert judged.field("disposition")[0].as_py() == typed.disposition, (judged, typed)
    assert (verdict.disposition is Disposition.ACCEPTED) == (not verdict.violations)


def judge_together(plan: EnforcementPlan, values: list[bytes]) -> None:
    """Judge records in one array. Raise AssertionError if a disposition differs from that of the record alone."""
    together = plan.judge(pa.array(values, pa.binary())).field("disposition").to_pylist()
    assert together == [plan.explain(value).disposition for value in values]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _plan(name: str) -> EnforcementPlan:
    plan = compile_plan(CONTRACTS[name])
    return plan.with_writers(WRITERS) if name == "written" else plan


def _rounds(until: float) -> Iterator[int]:
    for number in count():
        if time.monotonic() > until:
            return
        yield number


if __name__ == "__main__":
    sys.exit(main())
