"""Build the services of one process, for HTTP and for the command line."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.gateway.access.authentication import Authenticator
from tidegate.gateway.access.denials import DenialAudit, Denials
from tidegate.gateway.access.keys import KeyService
from tidegate.gateway.access.limits import CheckTurns, RateLimit
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.access.sessions import DeskSessions
from tidegate.gateway.alerts.alert import AlertWriter
from tidegate.gateway.alerts.channels import channels_of, targets_of
from tidegate.gateway.alerts.sending import AlertSender
from tidegate.gateway.audit import AuditLog
from tidegate.gateway.clock import now
from tidegate.gateway.health import BrokerProbe, HealthCheck
from tidegate.gateway.registry.approvals import Approvals
from tidegate.gateway.registry.associations import Associations
from tidegate.gateway.registry.consumers import ConsumerService
from tidegate.gateway.registry.judging import JudgeService, PlanCache, with_writers
from tidegate.gateway.registry.lifecycle import ContractLifecycle
from tidegate.gateway.registry.publication import ContractRegistry
from tidegate.gateway.registry.registration import SchemaRegistration
from tidegate.gateway.registry.subject_contracts import adopt_contracts
from tidegate.gateway.registry.subject_deletion import SubjectDeletion
from tidegate.gateway.registry.subject_reading import SubjectReader
from tidegate.gateway.registry.subject_settings import SubjectSettings
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.access import StoredKey
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import ContractVersion
from tidegate.gateway.streams.controls import StreamControls
from tidegate.gateway.streams.marks import StreamHistory
from tidegate.gateway.streams.metrics import StreamMetrics
from tidegate.gateway.streams.problem_watch import ProblemWatch, summary_of
from tidegate.gateway.streams.problems import ProblemService
from tidegate.gateway.streams.quarantine import NoBroker, QuarantineReader
from tidegate.gateway.streams.quarantine_index.ingestion import QuarantineIngestion
from tidegate.gateway.streams.quarantine_index.reading import QuarantineIndex
from tidegate.gateway.streams.quarantine_records import RecordMasking
from tidegate.gateway.streams.reconciliations import Adoptions, Reconciliations
from tidegate.gateway.streams.record_export import RecordExports
from tidegate.gateway.streams.record_search import RecordSearch
from tidegate.gateway.streams.replay_previews import ReplayPreviews
from tidegate.gateway.streams.replays import StreamReplays
from tidegate.gateway.streams.reports import ExpectationReader, ReportService, StreamReader
from tidegate.gateway.streams.reveals import Reveals
from tidegate.gateway.streams.shadows import Shadows
from tidegate.gateway.streams.table_audits import TableAudits
from tidegate.gateway.streams.value_search import ValueSearches

T = TypeVar("T")


class Factory:
    """The objects that exist once per process (settings, database, compiled plans), and services built on them."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.database = Database(settings.database_url.get_secret_value())
        self.check_turns = CheckTurns(settings.checks_at_once, settings.checks_waiting)
        self._plans = PlanCache(settings.plan_cache_size)
        kafka = settings.kafka
        self._broker = BrokerProbe(kafka) if kafka else None
        self._quarantine = QuarantineReader(kafka) if kafka else None
        # A search by key reads up to 20 s, so it has a reader of its own: pages do not wait for it.
        self._key_reader = QuarantineReader(kafka) if kafka else None
        self._exports = RecordExports(self.database, kafka, now) if kafka else None
        self._value_searches = ValueSearches(self.database, kafka, now)
        self.authenticator = Authenticator(settings, self._find_key, now) if settings.access == "on" else None
        self.sessions = DeskSessions(self.database, now, self.authenticator) if self.authenticator else None
        self._alerts = AlertSender(
            targets_of(settings), settings.alert_interval_seconds, channels=channels_of(settings)
        )
        self._alert_writer = AlertWriter(settings.alert_page_url)
        is_indexed = kafka is not None and settings.quarantine_index == "on"
        self._ingestion = (
            QuarantineIngestion(self.database, kafka, now, self.problem_watch().notify)
            if kafka and is_indexed
            else None
        )
        limit = settings.effective_rate_limit
        self.rate_limit = RateLimit(limit) if limit else None
        self.denials = Denials()
        self.denial_audit = DenialAudit(self.database, now)
        self.allowed_hosts = (*settings.allowed_hosts, settings.host.lower())

    @property
    def report_retention(self) -> timedelta:
        """Return the retention of reports: those this much older than the newest of their stream are deleted."""
        return timedelta(days=self.settings.report_retention_days)

    def registry(self) -> ContractRegistry:
        """Build the service that publishes and finds contracts."""
        return ContractRegistry(self.database, now)

    def judge_service(self) -> JudgeService:
        """Build the service that judges posted records."""
        return JudgeService(self.registry(), self._plans, self.subjects())

    def plan(self, version: ContractVersion) -> EnforcementPlan:
        """Return the compiled plan of a published version. Raises ContractError if it no longer compiles."""
        return self._plans.plan(version)

    def reveals(self) -> Reveals:
        """Build the service that audits reveals of hidden values."""
        return Reveals(self.database, now)

    def reports(self) -> ReportService:
        """Build the service that stores batch reports and sends the alerts about them."""
        return ReportService(
            self.database,
            self.report_retention,
            now,
            lambda report: self._alerts.send(self._alert_writer.of_report(report)),
        )

    def streams(self, by: Principal = ANONYMOUS) -> StreamReader:
        """Build the service that reads the reports of the streams that a principal may see."""
        return StreamReader(self.database, now, by)

    def stream_history(self) -> StreamHistory:
        """Build the service that reads the history of streams: versions, pauses, rewinds."""
        return StreamHistory(self.database)

    def expectations(self) -> ExpectationReader:
        """Build the service that reads the results of expectations."""
        return ExpectationReader(self.database)

    def stream_controls(self) -> StreamControls:
        """Build the service that pauses and resumes streams."""
        return StreamControls(
            self.database, now, lambda event: self._alerts.send(self._alert_writer.of_event(event))
        )

    def shadows(self) -> Shadows:
        """Build the service of shadow versions, which are evaluated alongside the enforced ones."""
        return Shadows(self.database, now)

    def reconciliations(self) -> Reconciliations:
        """Build the service that requests reconciliations."""
        return Reconciliations(
            self.database,
            now,
            lambda result: self._alerts.send(self._alert_writer.of_reconciliation(result)),
        )

    def replays(self) -> StreamReplays:
        """Build the service that requests replays of refused records."""
        return StreamReplays(self.database, now)

    def replay_previews(self, by: Principal) -> ReplayPreviews:
        """Build the service that previews replays for one principal. Raises Unavailable without a broker."""
        subjects = self.subjects()
        return ReplayPreviews(
            self.database,
            self.quarantine_reader(),
            lambda version: with_writers(self.plan(version), subjects),
            by,
            now,
        )

    def adoptions(self) -> Adoptions:
        """Build the service that records adoptions: rebuilt ledgers of streams."""
        return Adoptions(self.database, now)

    def table_audits(self) -> TableAudits:
        """Build the service that stores audits of tables."""
        return TableAudits(self.database, self.report_retention, now)

    def stream_metrics(self, by: Principal = ANONYMOUS) -> StreamMetrics:
        """Build the collector of the metrics of streams that the principal may see."""
        return StreamMetrics(self.database, by)

    def quarantine(self) -> QuarantineReader | None:
        """Return the reader of refused records; None if no broker is configured."""
        return self._quarantine

    def quarantine_index(self, by: Principal = ANONYMOUS) -> QuarantineIndex:
        """Build the service that counts and finds refused records."""
        return QuarantineIndex(self.database, now, by)

    def problems(self, by: Principal = ANONYMOUS) -> ProblemService:
        """Build the service that lists problems and stores their states, assignees and comments."""
        return ProblemService(self.database, now, by)

    def problem_watch(self) -> ProblemWatch:
        """Build the service that updates states of problems automatically and sends the alerts about them."""
        return ProblemWatch(
            self.database,
            now,
            lambda news: self._alerts.send(self._alert_writer.of_problems(summary_of(news))),
        )

    def record_masking(self) -> RecordMasking:
        """Build the service that masks refused records for one request."""
        subjects = self.subjects()
        return RecordMasking(
            self.registry().version, lambda version: with_writers(self.plan(version), subjects)
        )

    def record_exports(self) -> RecordExports:
        """Return the service that exports refused records. Raises Unavailable without a broker."""
        return _with_broker(self._exports)

    def value_searches(self) -> ValueSearches:
        """Return the service that searches refused records for values."""
        return self._value_searches

    def record_search(self, by: Principal) -> RecordSearch:
        """Build the service that fetches refused records for one principal. Raises Unavailable without a broker."""
        return RecordSearch(
            self.quarantine_index(by),
            self.quarantine_reader(),
            _with_broker(self._key_reader),
            self.record_masking(),
            self.database,
            by,
        )

    def quarantine_reader(self) -> QuarantineReader:
        """Return the reader of refused records. Raises Unavailable without a broker."""
        return _with_broker(self._quarantine)

    def start_ingestion(self) -> None:
        """Start indexing the quarantine topics, if a broker is configured and the settings enable the index."""
        if self._ingestion is not None:
            self._ingestion.start()

    def audit(self) -> AuditLog:
        """Build the service that reads the audit log."""
        return AuditLog(self.database)

    def keys(self) -> KeyService:
        """Build the service that creates and revokes API keys."""
        return KeyService(self.database, now)

    def health(self) -> HealthCheck:
        """Build the health check of this process."""
        return HealthCheck(self.database, self._broker)

    def adopt_contracts(self) -> None:
        """Link contracts that an older version of Tidegate stored to their subjects. Raises Unavailable."""
        if self.database.read(lambda stores: stores.subjects.unlinked_contracts()):
            self.database.write(lambda stores: adopt_contracts(stores, now()))

    def lifecycle(self) -> ContractLifecycle:
        """Build the service that promotes, retires and deletes contract versions."""
        return ContractLifecycle(self.database, now)

    def consumers(self) -> ConsumerService:
        """Build the service of consumers and their agreements."""
        return ConsumerService(self.database, now)

    def approvals(self) -> Approvals:
        """Build the service that approves changes that weaken an enforced contract."""
        return Approvals(self.database, now)

    def subjects(self) -> SubjectReader:
        """Build the service that reads subjects and schemas."""
        return SubjectReader(self.database)

    def registration(self) -> SchemaRegistration:
        """Build the service that registers schemas under subjects."""
        return SchemaRegistration(self.database, now)

    def deletion(self) -> SubjectDeletion:
        """Build the service that deletes subjects and versions."""
        return SubjectDeletion(self.database, now)

    def subject_settings(self) -> SubjectSettings:
        """Build the service that changes compatibility settings and modes."""
        return SubjectSettings(self.database, now)

    def associations(self) -> Associations:
        """Build the service of associations between resources and subjects."""
        return Associations(self.database, now)

    def _find_key(self, key_id: str) -> StoredKey | None:
        return self.database.read(lambda stores: stores.keys.find(key_id))

    def close(self) -> None:
        """Write the pending denial counts, stop the background threads, and close every connection."""
        self.denial_audit.flush()
        if self._ingestion is not None:
            self._ingestion.close()
        self._value_searches.close()
        self._alerts.close()
        for reader in (self._quarantine, self._key_reader):
            if reader is not None:
                reader.close()
        self.database.close()


def _with_broker(service: T | None) -> T:
    if service is None:
        raise NoBroker
    return service
