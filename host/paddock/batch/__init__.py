"""Run many tasks with one plan, a session each, to exactly one result a task."""

from paddock.batch.local import SessionSettings, run
from paddock.batch.result import TaskResult
from paddock.batch.task_file import Shard

__all__ = ["SessionSettings", "Shard", "TaskResult", "run"]
