"""A progress bar on a terminal. It imports rich, so it is imported only for a terminal."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from omnigraph.cli.plain import amount, counted
from omnigraph.dataplane.progress import Progress as Moment


class Bar:
    """A listener that draws the progress of an operation; a context manager."""

    def __init__(self) -> None:
        """Draw on standard error, so that results can go elsewhere."""
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False, markup=False, emoji=False),
            transient=True,
        )
        self._task: TaskID | None = None
        self._is_reason_told = False

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def __call__(self, moment: Moment) -> None:
        """Show one moment."""
        # A cluster takes its time to begin, and whoever waits should know for what.
        if moment.engine == "spark" and not self._is_reason_told:
            self._is_reason_told = True
            self._progress.console.print(f"{moment.operation} on {moment.engine}: {moment.reason}")
        if self._task is None:
            self._task = self._progress.add_task(moment.stage, done="")
        done, total = _share(moment)
        self._progress.update(
            self._task,
            description=f"{moment.stage:<8}",
            completed=done,
            total=total,
            done=progress_text(moment),
        )


def _share(moment: Moment) -> tuple[float, float | None]:
    """The progress of a stage: by tasks, or by bytes where they tell more."""
    tasks = moment.tasks_done / moment.tasks if moment.tasks else 0.0
    if moment.stage == "read" and moment.bytes_total:
        return max(tasks, min(moment.bytes / moment.bytes_total, 1.0)), 1.0
    return tasks, 1.0 if moment.tasks else None


def progress_text(moment: Moment) -> str:
    """Rows, bytes, speed and violations so far, as text."""
    parts = [counted(moment.rows, "row"), amount(moment.bytes)]
    if moment.seconds > 0 and moment.bytes:
        parts.append(f"{amount(moment.bytes_per_second)}/s")
    if moment.violations:
        parts.append(counted(moment.violations, "violation"))
    return ", ".join(parts)
