"""Storage of the findings of shadow versions, by stream."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Text, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.storage.stream_control import ControlStore
from tidegate.gateway.storage.tables import Store, Table


class ShadowRow(Table):
    """The findings of one stream's shadow, as JSON."""

    __tablename__ = "stream_shadows"

    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    findings: Mapped[str] = mapped_column(Text)


class ShadowStore(Store):
    """Findings of shadows, as `stores.shadows`."""

    def find(self, stream: str) -> ShadowFindings | None:
        """Return the findings of a stream's last shadow; None before its first batch."""
        row = self._session.get(ShadowRow, stream)
        return None if row is None else ShadowFindings.model_validate_json(row.findings)

    def all(self) -> dict[str, ShadowFindings]:
        """Return the findings of the last shadow of each stream."""
        rows = self._session.scalars(select(ShadowRow))
        return {row.stream: ShadowFindings.model_validate_json(row.findings) for row in rows}

    def forget(self, stream: str) -> None:
        """Delete the findings of a stream, because another shadow was declared."""
        self._session.execute(delete(ShadowRow).where(ShadowRow.stream == stream))

    def add(self, report: BatchReport) -> None:
        """Add the shadow's part of a new report, unless another shadow is declared now.

        Call it only in a write transaction: these run one after another, so no update is lost.
        """
        declared = ControlStore(self._session).find(report.stream).shadow
        if report.shadow is None or report.shadow.version != declared:
            return
        before = self.find(report.stream)
        is_same = before is not None and before.result.version == report.shadow.version
        after = ShadowFindings(
            stream=report.stream,
            against=report.contract,
            since=min(before.since, report.committed_at) if before and is_same else report.committed_at,
            until=max(before.until, report.committed_at) if before and is_same else report.committed_at,
            batches=before.batches + 1 if before and is_same else 1,
            result=before.result.merged(report.shadow) if before and is_same else report.shadow,
        )
        self._session.merge(ShadowRow(stream=report.stream, findings=after.model_dump_json()))
        self._session.flush()
