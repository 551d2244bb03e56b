"""Replays and discards of a problem's records: the form for a fix, its preview, and the requests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, ContractError, Problem
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    LONGEST_REASON,
    ReplayAction,
    StreamReplay,
    Untouched,
    digest_of_refusals,
)
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.desk_route import Form
from tidegate.gateway.http.desk.wording import grouped
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.problems import ProblemQuery, StreamProblem
from tidegate.gateway.streams.replay_previews import ProblemPreview, ProblemSelection

LONGEST_FIX: Final = 32 * 1024
"""Maximum characters of a fix in the form; longer ones need the command line."""
_PLACE: Final = re.compile(r"[0-9]{1,9}:[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class ShownRecords:
    """The open records of a problem that a page is about, and their number.

    The form returns `before` and `digest` with the request, so that exactly these records are replayed or discarded.
    """

    before: str
    digest: str
    records: int

    @classmethod
    def of(cls, topic: str, positions: Positions) -> Self:
        """Describe positions in a quarantine topic."""
        before = ",".join(f"{p}:{bitmap.max() + 1}" for p, bitmap in positions.bitmaps().items())
        return cls(before, digest_of_refusals(topic, positions), len(positions))


@dataclass(frozen=True, slots=True)
class PreviewView:
    """The preview of a replay. `sentences` have the counts; `reasons` are (code, stage, records) of failures.

    `passing` is the number of records that would pass, `shown` describes all selected records.
    """

    sentences: tuple[str, ...]
    reasons: tuple[tuple[str, str, int], ...]
    open_questions: tuple[str, ...]
    passing: int
    shown: ShownRecords


@dataclass(frozen=True, slots=True)
class ReplayView:
    """The page that prepares a replay. `mistakes` are the errors in the fix.

    `preview` is None until it is requested, and if the fix has mistakes.
    """

    problem: StreamProblem
    fix: str
    action: ReplayAction
    accept_batches: bool
    preview: PreviewView | None
    mistakes: tuple[str, ...]
    needs_approval: bool
    may_act: bool
    command: str


@dataclass(frozen=True, slots=True)
class ReplayLine:
    """A replay or discard of the problem; `noun` names its kind, `progress` is its progress in words."""

    replay: StreamReplay
    noun: str
    progress: str
    may_approve: bool
    may_cancel: bool


def replay_view(
    factory: Factory, principal: Principal, stream: str, problem: str, form: Form | None = None
) -> ReplayView:
    """Return the page of a problem's replay; with a form, including the preview of its fix.

    Raises NotFoundError, Forbidden, Unavailable and ConflictError.
    """
    found = factory.problems(principal).get(stream, problem, ProblemQuery())
    subject = subject_of(factory.registry().versions(stream)[0].topic)
    text = _fix_text(form) if form is not None else _example(found)
    action = _action_in(form) if form is not None else ReplayAction.REPLAY
    accept_batches = form is not None and _accepts_batches(form)
    preview, needs_approval = None, False
    mistakes: tuple[str, ...] = ()
    if form is not None:
        try:
            fix = _fix(text)
        except ContractError as error:
            mistakes = tuple(str(each) for each in error.problems)
        else:
            previews = factory.replay_previews(principal)
            selection = previews.select(stream, found.id)
            found_by_it = previews.preview(
                stream, selection, fix, action=action, accept_batches=accept_batches
            )
            preview = _preview(found_by_it)
            needs_approval = principal is not ANONYMOUS and factory.replays().needs_approval(
                stream, selection.order(fix, action=action)
            )
    return ReplayView(
        found,
        text,
        action,
        accept_batches,
        preview,
        mistakes,
        needs_approval,
        principal.may(Role.APPROVER, subject),
        f"tidegate replay {stream} --problem {found.id} --fix fix.yaml --dry-run",
    )


def ask_for_replay(
    factory: Factory, principal: Principal, stream: str, problem: str, form: Form
) -> StreamReplay:
    """Request the previewed replay.

    Raises ConflictError if other records than the previewed ones would be replayed, and the errors of the services.
    """
    selection = factory.replay_previews(principal).select(stream, problem, _before(form))
    _require_same(selection, form)
    fix = _fix(_fix_text(form))
    order = selection.order(
        fix,
        action=_action_in(form),
        append_late=form.has("append_late"),
        accept_batches=_accepts_batches(form),
    )
    return factory.replays().ask(stream, order, principal)


def ask_to_discard(
    factory: Factory, principal: Principal, stream: str, problem: str, form: Form
) -> StreamReplay:
    """Request that the records that the page showed are discarded.

    Raises ConflictError if some of them are closed by now, InvalidBody, and the errors of the services.
    """
    reason = form.text("reason")
    if reason is None or len(reason) > LONGEST_REASON:
        raise _wrong("reason", f"has 1 to {LONGEST_REASON} characters")
    selection = factory.replay_previews(principal).select(stream, problem, _before(form))
    _require_same(selection, form)
    order = selection.order(None, action=ReplayAction.DISCARD, reason=reason)
    return factory.replays().ask(stream, order, principal)


def shown_records(factory: Factory, stream: str, problem: str) -> ShownRecords | None:
    """Return the open records of a problem; None if all are closed. Raises NotFoundError."""
    topic, positions = factory.replays().open_records(stream, problem)
    return ShownRecords.of(topic, positions) if positions else None


def approve_or_cancel(
    factory: Factory, principal: Principal, stream: str, replay: UUID, form: Form
) -> StreamReplay:
    """Approve or cancel a request. Raises InvalidBody, NotFoundError, Forbidden, ConflictError."""
    match form.text("decision"):
        case "approve":
            return factory.replays().approve(stream, replay, principal)
        case "cancel":
            return factory.replays().cancel(stream, replay, principal)
    raise _wrong("decision", "is approve or cancel")


def replay_rows(
    factory: Factory, principal: Principal, problem: StreamProblem, subject: str
) -> tuple[ReplayLine, ...]:
    """Return the replays and discards that include records of a problem, newest first."""
    may_act = principal.may(Role.APPROVER, subject)
    members = {problem.id, *problem.members}
    return tuple(
        ReplayLine(
            each,
            _NOUNS[each.action],
            _progress(each),
            may_act and each.state == "proposed" and (each.by != principal.name or principal is ANONYMOUS),
            may_act and not each.is_ended,
        )
        for each in factory.replays().of_problem(problem.stream, members, principal)
    )


_NOUNS: Final = {
    ReplayAction.REPLAY: "Replay",
    ReplayAction.DISCARD: "Discard",
    ReplayAction.TO_SOURCE: "Send to source",
}


def _progress(replay: StreamReplay) -> str:
    report = replay.report
    if report is None:
        waits = "the approval of another person" if replay.state == "proposed" else "the job"
        return _requested(replay) + ("" if replay.is_ended else f"; waits for {waits}")
    counts = [
        (report.written, "written"),
        (report.closed, "discarded" if replay.action is ReplayAction.DISCARD else "sent"),
        (report.refused, "refused again"),
        (report.left, "left"),
    ]
    words = ", ".join(f"{grouped(count)} {word}" for count, word in counts if count)
    return f"{words or 'nothing done yet'} of {grouped(report.records)}" + (
        f". {report.message}" if report.message else ""
    )


def _requested(replay: StreamReplay) -> str:
    terms = [
        ("behind newer ones of their key", replay.append_late),
        ("also of refused batches", replay.accept_batches),
    ]
    words = [f"{grouped(replay.records)} requested", *(term for term, is_set in terms if is_set)]
    return ", ".join(words)


def _preview(found: ProblemPreview) -> PreviewView:
    preview, total = found.preview, len(found.selection.positions)
    of = grouped(total) if found.is_whole else f"the first {grouped(found.looked)} of {grouped(total)}"
    changed = f"; the fix changes {grouped(preview.changed)}" if preview.changed else ""
    sentences = [f"{grouped(preview.passing)} of {of} records would pass{changed}."]
    if preview.failing:
        sentences.append(f"{grouped(preview.failing)} would stay refused.")
    sentences += [
        f"{grouped(count)} would be left: {_LEFT[why]}."
        for why, count in preview.untouched.items()
        if why in _LEFT
    ]
    sentences.append(f"Judged by version {found.version}, each record at the time of its first verdict.")
    return PreviewView(
        tuple(sentences),
        tuple(
            (code, stage.value, count)
            for (stage, code, _), count in sorted(preview.reasons.items(), key=lambda each: -each[1])
        ),
        _OPEN_QUESTIONS,
        preview.passing,
        ShownRecords.of(found.selection.topic, found.selection.positions),
    )


_LEFT: Final = {
    Untouched.MISSING: "the quarantine topic no longer holds them",
    Untouched.FOREIGN: "another ledger refused them, and only its job replays them",
    Untouched.OMITTED: "they were set aside without their bytes",
    Untouched.BATCH: "their whole batch was refused",
    Untouched.SENT_BACK: "they were sent to the source topic before",
}
_OPEN_QUESTIONS: Final = (
    "Whether the table has a row with the same primary key, such as a corrected record. The command below counts these records.",
    "Whether a rewind has judged a record again: the job then leaves it.",
    "Whether the sink takes them: a newer row or deletion of the same key stays, and a Kafka sink takes keyed records only behind newer ones.",
)


def _example(problem: StreamProblem) -> str:
    field = json.dumps(problem.key.field or "/field")
    return (
        "fix: my-fix\n"
        "description: Why the values are wrong.\n"
        "steps:\n"
        "  - action: map\n"
        f"    field: {field}\n"
        "    values: [{from: 999, to: null}]\n"
    )


def _fix_text(form: Form) -> str:
    text = (form.text("fix") or "").replace("\r\n", "\n")  # browsers post text areas with CRLF
    if len(text) > LONGEST_FIX:
        raise _wrong(
            "fix", f"has at most {LONGEST_FIX} characters; longer ones are for tidegate replay --fix"
        )
    return text


def _fix(text: str) -> Fix | None:
    return parse_fix(text, name="fix.yaml") if text else None


def _action_in(form: Form) -> ReplayAction:
    return ReplayAction.TO_SOURCE if form.text("action") == ReplayAction.TO_SOURCE else ReplayAction.REPLAY


def _accepts_batches(form: Form) -> bool:
    return form.has("accept_batches")


def _before(form: Form) -> dict[int, int]:
    places = (form.text("before") or "").split(",")
    if not all(_PLACE.fullmatch(each) for each in places):
        raise _wrong("before", "look at the page again")
    return {int(partition): int(offset) for partition, offset in (each.split(":") for each in places)}


def _require_same(selection: ProblemSelection, form: Form) -> None:
    if selection.digest != form.text("digest"):
        raise ConflictError(
            "other records of the problem are open now than the page showed; look at the page again"
        )


def _wrong(name: str, what: str) -> InvalidBody:
    return InvalidBody("the form cannot be used", (Problem(name, what),))
