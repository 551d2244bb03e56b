"""`tidegate judge --spark`: judge parts of files in Spark workers, with the same readers and judge as on one machine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.gateway.cli.judged_files import JudgedFiles
from tidegate.gateway.cli.judged_folder import JudgedFolder
from tidegate.gateway.cli.judgement import JudgedBlock, Judgement
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.workers import TaskProgress, spark_workers
from tidegate.gateway.sources.file_parts import FilePart, FileParts, file_parts, in_tasks, numbered
from tidegate.gateway.sources.open_source import SourceOptions
from tidegate.gateway.sources.record_reader import RecordReader, contract_of_files


@dataclass(frozen=True, slots=True)
class SparkRequest:
    """The files to judge, the options for reading them, and the folders for accepted and refused records."""

    data: str
    options: SourceOptions
    is_avro_json: bool
    accepted: Path | None
    refused: Path | None
    spark_master: str | None


def judge_on_spark(contract: DataContract, request: SparkRequest, found: Judgement) -> str:
    """Judge files, and add the result to `found`; return the title of the files.

    Raises SettingsError for files that cannot be read in parts, Unavailable if Spark fails, and the errors of the reader.
    """
    in_workers = spark_workers(request.spark_master)
    options = request.options
    files, parts = file_parts(request.data, options.format, tuple(options.nulls), options.default)
    parts = numbered(files, parts, in_workers)
    with ExitStack() as stack:
        accepted = stack.enter_context(JudgedFolder.created(request.accepted))
        refused = stack.enter_context(JudgedFolder.created(request.refused))
        work = _Work(
            compile_plan(contract_of_files(contract)),
            files,
            found.tally.limit,
            accepted,
            refused,
            is_avro_json=request.is_avro_json,
            has_findings=found.findings is not None,
        )
        tasks = in_tasks(parts)
        progress = TaskProgress(files.title, sum(part.size for part in parts))
        show = stack.enter_context(reading(progress))
        for task, judgement in zip(tasks, in_workers(work, list(enumerate(tasks))), strict=True):
            found.merge(judgement)
            progress.add(task)
            show(found.tally.records)
    return files.title


@dataclass(frozen=True, slots=True)
class _Work:
    """The function that a worker calls: judge the parts of one task, and write its files."""

    plan: EnforcementPlan
    files: FileParts
    show: int
    accepted: JudgedFolder | None
    refused: JudgedFolder | None
    is_avro_json: bool
    has_findings: bool

    def __call__(self, task: tuple[int, tuple[FilePart, ...]]) -> Judgement:
        """Judge the parts of a task, given as its number and parts."""
        number, parts = task
        accepted = None if self.accepted is None else self.accepted.scratch()
        refused = None if self.refused is None else self.refused.scratch()
        found = Judgement.empty(self.show, has_findings=self.has_findings)
        with JudgedFiles(accepted, refused) as written:
            for part in parts:
                self._judge(part, written, found)
        for folder, scratch in ((self.accepted, accepted), (self.refused, refused)):
            if folder is not None and scratch is not None:
                folder.keep(scratch, number)
        return found

    def _judge(self, part: FilePart, written: JudgedFiles, found: Judgement) -> None:
        with self.files.open(part) as source:
            reader = RecordReader(source, self.plan.contract, is_avro_json=self.is_avro_json)
            for block in reader.blocks():
                plan = self.plan.with_writers(reader.writers)
                judged = JudgedBlock.of(plan, block, lambda number: source.places((number,)))
                written.write(judged)
                found.add(judged)
