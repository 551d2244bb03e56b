"""Adoptions: written down once, with who did it, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.adoption import Adoption
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.adoptions import ADOPTION
from tidegate.gateway.storage.audit_chain import content_hash
from tidegate.gateway.storage.stream_control import ADOPTIONS_KEPT

MakeContract = Callable[..., bytes]
STREAM = "hospital.admissions"
PATH = f"/api/v1/streams/{STREAM}/adoptions"
PAGE = f"/desk/streams/{STREAM}"


@pytest.fixture(autouse=True)
def published(factory: Factory, make_contract: MakeContract) -> None:
    factory.registry().publish(make_contract(), "contract.json")


def adoption(**changes: Any) -> Adoption:
    """The example."""
    return Adoption.model_validate({**ADOPTION, **changes})


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"accepted_loss": 12}, "stream.adopted"),
        ({"archived": "admissions_2025"}, "stream.archived"),
        ({"kind": "rewind", "generation": 1, "deleted": 9, "rejudged": 5}, "stream.rewound"),
        ({"kind": "erasure", "deleted": 2, "erased": 3}, "stream.erased"),
    ],
)
def test_an_adoption_is_an_entry_in_the_log_of_changes(
    factory: Factory, changes: dict[str, Any], action: str
) -> None:
    before = len(factory.audit().page(0, 100, None).entries)
    wanted = adoption(**changes)
    assert factory.adoptions().keep(STREAM, wanted)
    (entry,) = factory.audit().page(0, 100, None).entries[before:]
    assert entry.action == action
    assert (entry.who, entry.subject) == ("anonymous", f"{STREAM}-value")
    assert entry.after == content_hash(wanted.model_dump(mode="json"))
    (kept,) = factory.adoptions().all(STREAM)
    assert (kept.by, kept.adoption) == ("anonymous", wanted)


def test_an_adoption_that_is_sent_again_is_kept_once(factory: Factory) -> None:
    assert factory.adoptions().keep(STREAM, adoption())
    assert not factory.adoptions().keep(STREAM, adoption())
    assert len(factory.adoptions().all(STREAM)) == 1
    with pytest.raises(ConflictError, match="another adoption was kept"):
        factory.adoptions().keep(STREAM, adoption(written=1))


@pytest.mark.parametrize(
    ("stream", "changes", "error"),
    [
        (STREAM, {"stream": "other"}, ConflictError),
        (STREAM, {"topic": "other"}, ConflictError),
        ("other", {"stream": "other"}, NotFoundError),
    ],
)
def test_an_adoption_of_something_else_is_refused(
    factory: Factory, stream: str, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        factory.adoptions().keep(stream, adoption(**changes))


def test_the_oldest_adoptions_give_way(factory: Factory) -> None:
    for number in range(ADOPTIONS_KEPT + 2):
        factory.adoptions().keep(STREAM, adoption(id=f"{number:032x}"))
    kept = factory.adoptions().all(STREAM)
    assert len(kept) == ADOPTIONS_KEPT
    assert (kept[0].adoption.id, kept[-1].adoption.id) == (f"{ADOPTIONS_KEPT + 1:032x}", f"{2:032x}")


def test_over_http(client: Any) -> None:
    body = orjson.dumps(ADOPTION)
    assert [client.post(PATH, body).status_code for _ in range(2)] == [201, 200]
    (kept,) = client.get(PATH).json()["adoptions"]
    assert (kept["by"], kept["adoption"]) == ("anonymous", ADOPTION)
    assert client.post(PATH, orjson.dumps({**ADOPTION, "id": "x"})).status_code == 422
    assert client.post(PATH, orjson.dumps({**ADOPTION, "topic": "other"})).status_code == 409
    unknown = orjson.dumps({**ADOPTION, "stream": "unknown"})
    assert client.post("/api/v1/streams/unknown/adoptions", unknown).status_code == 404
    assert client.get("/api/v1/streams/unknown/adoptions").status_code == 404


def test_the_page_of_the_stream_shows_who_adopted_what(
    client: Any, factory: Factory, make_report: Callable[..., BatchReport]
) -> None:
    factory.reports().record(STREAM, make_report())
    assert "Adoptions" not in client.get(PAGE).text
    rebuilt = adoption(id="1" * 32, accepted_loss=0)
    skipped = adoption(id="2" * 32, partition=3, end={"0": 9, "3": 1500}, accepted_loss=1234)
    odd = adoption(id="3" * 32, partition=8, ledger="<b>", accepted_loss=1)
    forgotten = adoption(id="4" * 32, accepted_loss=0, forgotten=1500)
    for each in (rebuilt, skipped, odd, forgotten):
        factory.adoptions().keep(STREAM, each)
    page = client.get(PAGE).text
    assert "Adoptions" in page
    assert page.index("Partition 8") < page.index("Partition 3") < page.index("Ledger rebuilt")
    assert "Ledger rebuilt: 98\u2009003 written, 1\u2009836 quarantined, epoch 1012" in page
    assert "Partition 3 goes on at 1500, epoch 1012" in page
    assert "Goes on past 1\u2009500 deleted offsets of an output topic, epoch 1012" in page
    assert "anonymous" in page
    assert '<td class="right num refused">1\u2009234</td>' in page
    assert '<td class="right num">0</td>' in page


def test_a_rewind_is_kept_and_shown_with_the_adoptions(
    client: Any, factory: Factory, make_report: Callable[..., BatchReport]
) -> None:
    factory.reports().record(STREAM, make_report())
    wanted = adoption(kind="rewind", generation=2, rewound_from={"0": 5000}, deleted=7400, rejudged=200)
    assert client.post(PATH, orjson.dumps(wanted.model_dump(mode="json"))).status_code == 201
    (kept,) = client.get(PATH).json()["adoptions"]
    assert (kept["adoption"]["kind"], kept["adoption"]["rewound_from"]) == ("rewind", {"0": 5000})
    page = client.get(PAGE).text
    assert "Rewound: 7\u2009400 rows deleted, 200 refusals judged again, generation 2" in page
    assert factory.adoptions().all(STREAM)[0].adoption == wanted


def test_an_adoption_is_accepted_in_the_form_of_earlier_releases() -> None:
    told = adoption().model_dump(mode="json")
    assert told.keys() & {"kind", "generation", "rewound_from", "deleted", "rejudged"} == set()
