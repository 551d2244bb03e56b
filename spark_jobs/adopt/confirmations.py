"""Confirmations of `tidegate adopt`, `archive`, `rewind`, `erase`, `replay` and `discard`, before any change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.contracts.words import counted
from tidegate.spark_jobs.progress import doing

if TYPE_CHECKING:
    from tidegate.contracts.stream.replay_preview import ReplayPreview
    from tidegate.spark_jobs.adopt.adopt import Forgotten, Look, Skip
    from tidegate.spark_jobs.adopt.archive import Archive
    from tidegate.spark_jobs.adopt.erase import EraseLook
    from tidegate.spark_jobs.adopt.rewind import RewindLook


class Confirmations:
    """Confirmations by options of the command line, or else by a prompt."""

    def __init__(self, *, is_sure: bool, is_loss_accepted: bool = False, holes: int | None = None) -> None:
        self._is_loss_accepted = is_loss_accepted
        self._holes = holes
        self._is_sure = is_sure

    def confirm_look(self, look: Look) -> None:
        """Show the ledger that would be written; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import look_text  # noqa: PLC0415 - loads Spark

        _show(look_text(look))
        holes = look.proposal.holes
        if holes and not self._is_loss_accepted:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed. To go on without them: --accept-loss"
            )
        if self._is_sure and self._is_loss_accepted and (self._holes or 0) != holes:
            raise ConflictError(
                f"{holes:,} offsets are in no output, and nothing was changed: --holes {holes} confirms it"
            )
        self._confirm(f"Write this ledger{f', and give up {holes:,} offsets' if holes else ''}?")

    def confirm_skip(self, skip: Skip) -> None:
        """Show the records that would be given up; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import skip_text  # noqa: PLC0415 - loads Spark

        _show(skip_text(skip))
        if not self._is_loss_accepted:
            raise ConflictError("nothing was changed; to go on without these records: --accept-loss")
        self._confirm("Go on without them?")

    def confirm_forgotten(self, forgotten: Forgotten) -> None:
        """Show the deleted output records; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import forgotten_text  # noqa: PLC0415 - loads Spark

        _show(forgotten_text(forgotten))
        self._confirm("Go on without knowing them?")

    def confirm_archive(self, archive: Archive) -> None:
        """Show what would be archived; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import archive_text  # noqa: PLC0415 - loads Spark

        _show(archive_text(archive))
        self._confirm("Begin again with an empty output?")

    def confirm_rewind(self, look: RewindLook) -> None:
        """Show the rows that would be deleted; raise if the user declines."""
        from tidegate.spark_jobs.adopt.report import rewind_text  # noqa: PLC0415 - loads Spark

        _show(rewind_text(look))
        self._confirm(f"Delete {look.rewind.rows:,} rows, and judge these records again?")

    def confirm_erase(self, look: EraseLook) -> None:
        """Show what would be erased; raise if the user declines, or typer.Exit if there is nothing to erase."""
        from tidegate.spark_jobs.adopt.report import erase_text  # noqa: PLC0415 - loads Spark

        _show(erase_text(look))
        if not look:
            raise typer.Exit
        records = len(look.erasure.rows), look.erasure.quarantined
        self._confirm(
            "Erase {:,} rows and {:,} refused records?".format(*records) if any(records) else "Finish it?"
        )

    def confirm_replay(self, preview: ReplayPreview, records: int) -> None:
        """Raise if the user declines a replay, or it would write nothing. The caller has shown the preview."""
        if not preview.passing:
            raise ConflictError("no record would be written, and nothing was requested")
        self._confirm(f"Replay {counted(records, 'record')}?")

    def confirm_discard(self, records: int) -> None:
        """Raise if the user declines a discard, or it would close nothing. The caller has shown the preview."""
        if not records:
            raise ConflictError("no record would be discarded, and nothing was requested")
        self._confirm(f"Accept the loss of {counted(records, 'record')}? They can no longer be replayed.")

    def _confirm(self, question: str) -> None:
        if self._is_sure:
            return
        if not sys.stdin.isatty():
            raise SettingsError("nothing was changed: there is no terminal to ask on; --yes answers for you")
        if not typer.confirm(question):
            raise ConflictError("nothing was changed")


def _show(text: str) -> None:
    """Print the text on which the user decides, after clearing the progress line."""
    doing("")
    typer.echo(text)
