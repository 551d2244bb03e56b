"""Actions on a stream: what each would do, whether it is possible and permitted, and the equivalent command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from tidegate.contracts.document.model import Status
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ContractError, NotFoundError, Problem
from tidegate.contracts.stream.control import StreamControl
from tidegate.gateway.access.principal import Principal, Role
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import Form
from tidegate.gateway.http.desk.diff_views import DiffRow, diff_row
from tidegate.gateway.http.desk.wording import exact, grouped, percent
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.shadows import Promotion

LONGEST_REASON = 500


class Action(StrEnum):
    """The actions that a person can take on a stream."""

    PAUSE = "pause"
    RESUME = "resume"
    ACCEPT_BATCH = "accept-batch"
    RECONCILE = "reconcile"
    SHADOW = "shadow"
    PROMOTE = "promote"
    REWIND = "rewind"


LABELS: Final[Mapping[Action, str]] = {
    Action.PAUSE: "Pause",
    Action.RESUME: "Resume",
    Action.ACCEPT_BATCH: "Accept batch",
    Action.RECONCILE: "Reconcile",
    Action.SHADOW: "Shadow a version",
    Action.PROMOTE: "Promote a draft",
    Action.REWIND: "Rewind",
}


@dataclass(frozen=True, slots=True)
class ActionLink:
    """A link to an action that is applicable now."""

    label: str
    address: str


@dataclass(frozen=True, slots=True)
class ActionView:
    """The preview of one action.

    `effects` are sentences; `facts` are (name, value) pairs of the current state. `obstacle` says why the action is not
    possible now; None if it is. `choices` are versions (for a rewind, points in time), `chosen` is the selected one.
    `asks_reason`: the form has a field for a reason. `is_command`: only the command line can do it, because it changes
    the tables. `changes` are the changes of a promotion.
    """

    stream: str
    action: Action
    title: str
    effects: tuple[str, ...]
    command: str
    may_act: bool
    facts: tuple[tuple[str, str], ...] = ()
    obstacle: str | None = None
    choices: tuple[str, ...] = ()
    chosen: str | None = None
    asks_reason: bool = False
    is_command: bool = False
    changes: tuple[DiffRow, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Stream:
    """The stream of a preview, with its control state and contract versions, and the factory for further reads."""

    factory: Factory
    name: str
    control: StreamControl
    versions: tuple[ContractVersion, ...]

    @classmethod
    def of(cls, factory: Factory, name: str) -> _Stream:
        return cls(factory, name, factory.stream_controls().control(name), factory.registry().versions(name))

    @property
    def drafts(self) -> tuple[str, ...]:
        return tuple(each.version for each in self.versions if each.status == Status.DRAFT)

    @property
    def has_unaccepted_trip(self) -> bool:
        trip = self.control.trip
        return trip is not None and self.control.accepted != trip.range


def action_links(factory: Factory, stream: str) -> tuple[ActionLink, ...]:
    """Return the actions that are applicable now; an empty tuple for a stream without a contract."""
    try:
        one = _Stream.of(factory, stream)
    except NotFoundError:
        return ()
    offered = {
        Action.PAUSE: not one.control.is_paused,
        Action.RESUME: one.control.is_paused,
        Action.ACCEPT_BATCH: one.has_unaccepted_trip,
        Action.RECONCILE: True,
        Action.SHADOW: bool(one.drafts) or one.control.shadow is not None,
        Action.PROMOTE: bool(one.drafts),
        Action.REWIND: True,
    }
    return tuple(
        ActionLink(LABELS[action], f"/desk/streams/{stream}/actions/{action}")
        for action, makes_sense in offered.items()
        if makes_sense
    )


def action_view(
    factory: Factory, principal: Principal, stream: str, action: Action, chosen: str | None
) -> ActionView:
    """Return the preview of an action. Raises NotFoundError.

    `chosen` is a version, or the target of a rewind; None if nothing is selected yet.
    """
    one = _Stream.of(factory, stream)
    may_act = principal.may(Role.APPROVER, subject_of(one.versions[0].topic))
    return _PREVIEWS[action](one, may_act, chosen)


def _pause(one: _Stream, may_act: bool, _chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    return ActionView(
        one.name,
        Action.PAUSE,
        "Pause the stream",
        (
            "The job finishes the batch in hand. From the next one on, it judges and writes nothing.",
            "Records wait in the source topic. Resume before its retention deletes them.",
            "The job and its other streams go on.",
        ),
        f'tidegate pause {one.name} --reason "WHY"',
        may_act,
        _control_facts(one.control),
        "It is paused already." if one.control.is_paused else None,
        asks_reason=True,
    )


def _resume(one: _Stream, may_act: bool, _chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    judged_again = "The batch that spent the error budget is judged again, and spends it again unless the contract has changed."
    return ActionView(
        one.name,
        Action.RESUME,
        "Resume the stream",
        (
            "The job goes on with the first record after the last written batch.",
            *([judged_again] if one.has_unaccepted_trip else []),
        ),
        f"tidegate resume {one.name}",
        may_act,
        _control_facts(one.control),
        None if one.control.is_paused else "It is not paused.",
    )


def _accept_batch(one: _Stream, may_act: bool, _chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    trip = one.control.trip
    facts: list[tuple[str, str]] = []
    if trip is not None:
        offsets = ", ".join(
            f"{partition}/{trip.start.get(partition, 0)} to {end - 1}"
            for partition, end in sorted(trip.end.items())
            if end > trip.start.get(partition, 0)
        )
        worst = ", ".join(f"{count.code} {grouped(count.records)}" for count in trip.rules[:5])
        facts = [
            ("Spent", exact(trip.at)),
            (
                "Refused",
                f"{grouped(trip.refused)} of {grouped(trip.records)}, {percent(trip.allowed)} % allowed",
            ),
            ("Mostly by", worst or "not told"),
            ("Partition/offset", offsets),
        ]
    return ActionView(
        one.name,
        Action.ACCEPT_BATCH,
        "Accept the batch that spent the error budget",
        (
            "The batch is processed without the budget: accepted records are written, refused ones are quarantined.",
            "The stream is resumed. Later batches have the budget again.",
            "A stream that ended because of its budget has to be started again.",
        ),
        f"tidegate resume {one.name} --accept-batch",
        may_act,
        tuple(facts),
        None if one.has_unaccepted_trip else "No batch waits: none has spent the budget, or it was accepted.",
    )


def _reconcile(one: _Stream, may_act: bool, _chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    seen = one.factory.reconciliations().seen(one.name)
    last = None if seen is None or seen.last is None else seen.last.result
    facts = () if last is None else (("Last", exact(last.at)),)
    is_open = seen is not None and seen.open is not None
    return ActionView(
        one.name,
        Action.RECONCILE,
        "Reconcile the stream",
        (
            "The job reads the source topic, the quarantine topic, the sink and the ledger, and compares them.",
            "Every offset must have exactly one outcome. Nothing is changed, and the stream goes on.",
            "It reads all that the topics hold: minutes for some millions of records.",
        ),
        f"tidegate reconcile {one.name}",
        may_act,
        facts,
        "One was requested already, and the job has not answered yet." if is_open else None,
    )


def _shadow(one: _Stream, may_act: bool, chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    now = one.control.shadow
    choices = (*(version for version in one.drafts if version != now), *([_NO_SHADOW] if now else []))
    chosen = chosen if chosen in choices else None
    return ActionView(
        one.name,
        Action.SHADOW,
        "Judge with another version too",
        (
            "From the next batch on, the job also judges with the chosen version, and only reports its verdicts.",
            "No record is written or refused because of it.",
            "What an earlier shadow found is forgotten.",
        ),
        f"tidegate shadow {one.name} {chosen or 'VERSION'}",
        may_act,
        (("Shadow now", now or "none"),),
        None if choices else "There is no draft; publish one with status: draft.",
        choices=choices,
        chosen=chosen,
    )


_NO_SHADOW: Final = "none"


def _promote(one: _Stream, may_act: bool, chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    chosen = chosen if chosen in one.drafts else (one.drafts[0] if len(one.drafts) == 1 else None)
    obstacle = None if one.drafts else "There is no draft; publish one with status: draft."
    facts: tuple[tuple[str, str], ...] = ()
    changes: tuple[DiffRow, ...] = ()
    if chosen is not None:
        try:
            promotion = one.factory.shadows().promotion(one.name, chosen)
        except ContractError as error:
            obstacle = f"The draft does not compile: {error.problems[0]}"
        else:
            facts, obstacle = _promotion_facts(promotion), _promotion_obstacle(promotion)
            compared = promotion.review.comparisons
            changes = tuple(diff_row(finding) for finding in compared[0].findings) if compared else ()
    return ActionView(
        one.name,
        Action.PROMOTE,
        "Enforce a draft",
        (
            "From the next batch on, records are judged by the draft.",
            "A change that makes the contract less strict needs the approval of a second person.",
            "The version that is enforced now stays active, and new records are judged by the higher one.",
        ),
        f"tidegate promote {one.name} {chosen or 'VERSION'} --yes",
        may_act,
        facts,
        obstacle,
        choices=one.drafts,
        chosen=chosen,
        changes=changes,
    )


def _promotion_facts(promotion: Promotion) -> tuple[tuple[str, str], ...]:
    review, shadow = promotion.review, promotion.shadow
    facts = [
        ("Enforced now", promotion.enforced or "nothing"),
        ("Breaking changes", str(len(review.breaking))),
    ]
    if review.affected:
        facts.append(("Consumers affected", ", ".join(review.affected)))
    if shadow is None:
        facts.append(("As a shadow", "not tried on live records"))
    else:
        found = shadow.result
        words = (
            f"{grouped(found.compared)} records compared: {grouped(found.would_refuse)} more would be refused, "
            f"{grouped(found.would_accept)} more accepted"
        )
        facts.append(("As a shadow", words))
    return tuple(facts)


def _promotion_obstacle(promotion: Promotion) -> str | None:
    review = promotion.review
    if review.missing:
        return f"Consumers have still to agree: {', '.join(review.missing)}."
    if review.needs_break_acknowledged:
        return "It breaks the enforced version, and somebody has to acknowledge that first."
    return None


def _rewind(one: _Stream, may_act: bool, chosen: str | None) -> ActionView:  # noqa: FBT001 - one of all previews
    points = tuple(
        each.at.isoformat(timespec="seconds").replace("+00:00", "Z")
        for each in reversed(one.factory.stream_history().versions(one.name))
    )
    to = shlex.quote(chosen) if chosen else "OFFSETS|TIME|SNAPSHOT"
    return ActionView(
        one.name,
        Action.REWIND,
        "Rewind the stream",
        (
            "The rows of records from the point on are deleted, in the same commit that moves the ledger back.",
            "Refusals from the point on stay in the quarantine topic, and no longer count.",
            "The next start judges these records again, so the source topic must still have them.",
            "Stop the job first. Run the command where the job runs, with the options and variables of the job.",
        ),
        f"tidegate rewind {one.name} --to {to} --dry-run",
        may_act,
        choices=points[:20],
        chosen=chosen,
        is_command=True,
    )


_PREVIEWS: Final[Mapping[Action, Callable[[_Stream, bool, str | None], ActionView]]] = {
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.ACCEPT_BATCH: _accept_batch,
    Action.RECONCILE: _reconcile,
    Action.SHADOW: _shadow,
    Action.PROMOTE: _promote,
    Action.REWIND: _rewind,
}


def _control_facts(control: StreamControl) -> tuple[tuple[str, str], ...]:
    if not control.is_paused:
        return (("State", "running"),)
    at = "" if control.at is None else f", {exact(control.at)}"
    return (
        ("State", "paused"),
        ("Reason", control.reason or "none"),
        ("By", f"{control.by or 'unknown'}{at}"),
    )


def perform(factory: Factory, principal: Principal, stream: str, action: Action, form: Form) -> None:
    """Perform the action of a submitted form. Raises InvalidBody, and the errors of the services."""
    match action:
        case Action.PAUSE:
            reason = form.text("reason")
            if reason is not None and len(reason) > LONGEST_REASON:
                raise _wrong("reason", f"has at most {LONGEST_REASON} characters")
            factory.stream_controls().pause(stream, reason, principal)
        case Action.RESUME:
            factory.stream_controls().resume(stream, accept_batch=False, by=principal)
        case Action.ACCEPT_BATCH:
            factory.stream_controls().resume(stream, accept_batch=True, by=principal)
        case Action.RECONCILE:
            factory.reconciliations().ask(stream, principal)
        case Action.SHADOW:
            version = _version_in(form)
            factory.shadows().declare(stream, None if version == _NO_SHADOW else version, principal)
        case Action.PROMOTE:
            factory.lifecycle().change_status(stream, _version_in(form), Status.ACTIVE, principal)
        case Action.REWIND:
            raise _wrong("action", "is done by the command that its page shows")
        case _:
            assert_never(action)


def _version_in(form: Form) -> str:
    version = form.text("version")
    if version is None:
        raise _wrong("version", "choose a version")
    return version


def _wrong(name: str, what: str) -> InvalidBody:
    return InvalidBody("the action cannot be done", (Problem(name, what),))
