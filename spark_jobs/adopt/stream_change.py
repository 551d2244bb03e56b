"""The base class of changes that a person makes to a stream's outputs: adoption, archive, rewind and erasure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tidegate.contracts.errors import NotFoundError, StreamStopped
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.spark_jobs.adopt.log import AdoptionLog, open_registry
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.kafka.source_topic import find_source, not_its_topic
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.kind import kind_of
from tidegate.spark_jobs.sinks.recovery_scan import require_own

if TYPE_CHECKING:
    from tidegate.contracts.judge.plan import EnforcementPlan
    from tidegate.contracts.stream.ledger import Ledger
    from tidegate.spark_jobs.settings import JobSettings


class StreamChange:
    """A change of one stream, with its contract, source topic and sink. `log` records the changes in the registry."""

    @classmethod
    @contextmanager
    def opened(
        cls, settings: JobSettings, stream: str, on_step: Callable[[Any], None] = lambda _: None
    ) -> Iterator[Self]:
        """Open the resources of a change: the registry with the contract, and Spark for tables that it writes.

        `on_step` is called with each step of a change that has steps. Raises NotFoundError for a stream without a
        contract, SettingsError, Unavailable.
        """
        with open_registry(settings, stream) as (plan, log):
            yield cls(settings, plan, log, on_step)

    def __init__(
        self, settings: JobSettings, plan: EnforcementPlan, log: AdoptionLog, on_step: Callable[[Any], None]
    ) -> None:
        self._on_step = on_step
        self._settings = settings
        self._kafka = settings.kafka
        self._plan = plan
        self._log = log
        self._stream = plan.contract.id
        self._topics = Topics(settings.kafka)
        self._source = find_source(self._topics, plan)
        self._quarantine = quarantine_topic(self._source.name)
        self._sink = kind_of(settings).adoptable(settings, plan)
        self._copied = HistoryFolder(settings, self._stream)

    def _with_ledger(self, held: Ledger | None, consequence: str) -> Ledger:
        """Return `held`, the stream's ledger.

        Raises NotFoundError, with `consequence` in its message, if it is None. Raises StreamStopped if the ledger
        belongs to another stream, or counts a topic that was deleted since.
        """
        if held is None:
            raise NotFoundError(f"{self._sink.name} has no ledger of {self._stream}{consequence}")
        require_own(held, self._stream, self._sink.name)
        if held.topic_id != self._source.topic_id:
            raise StreamStopped(not_its_topic(self._source.name, held))
        return held
