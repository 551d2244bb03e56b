"""Breadth-first search of all states of a protocol: the first violation found has a shortest trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """A state machine: the first state, the next states of a state, and the violations."""

    def first(self) -> State: ...

    def following(self, state: State) -> Iterator[tuple[str, State]]: ...

    def violation(self, state: State) -> str | None: ...


@dataclass(frozen=True)
class Found:
    """The result of a search; `trace` is empty if there is no violation."""

    states: int
    violation: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = "\n".join(f"{number:3} {step}" for number, step in enumerate(self.trace, start=1))
        return f"{self.violation or 'nothing is violated'} ({self.states} states)\n{steps}"


def search(model: Model[State], *, most_states: int = 2_000_000) -> Found:
    """Search all reachable states, nearest first, up to the first violation. Raise AssertionError above `most_states`."""
    first = model.first()
    came_from: dict[State, tuple[str, State] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        if violation := model.violation(state):
            return Found(len(came_from), violation, _trace(state, came_from))
        for step, following in model.following(state):
            if following not in came_from:
                came_from[following] = step, state
                waiting.append(following)
        assert len(came_from) <= most_states, "the model has grown beyond what is searched in a minute"
    return Found(len(came_from))


def _trace(state: State, came_from: dict[State, tuple[str, State] | None]) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        step, state = before
        steps.append(step)
    return tuple(reversed(steps))
