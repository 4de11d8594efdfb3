"""Profiles of any pipeline: spans by `with` or as decorators, and rows that add up to the wall time.

    from gausset.profile import Profiler

    with Profiler() as profiler:
        for image in images:
            with profiler.span("step"):
                with profiler.span("render"):
                    ...
    print(profiler)                          # the table
    profiler.values("step/render")           # seconds of each call
    profiler.write("profile")                # profile.json and trace.json, as those of `gausset train --profile`

`gausset profile show profile/` prints such a profile, `gausset profile diff a/ b/` compares two.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import ArgumentError
from ._splats import Path as PathLike

UNATTRIBUTED = "unattributed"

_COLUMNS = ("count", "total ms", "share", "mean ms", "± std", "min", "median", "max")


@dataclass(frozen=True)
class Row:
    """The spans of one path. `share` is of the wall time; times are in ms."""

    path: str
    """Names from the outermost span to this one, separated by `/`."""
    name: str
    depth: int
    kind: str
    """`span`, or `unattributed`: the time of the parent that no child accounts for."""
    count: int
    total_ms: float
    self_ms: float
    """Without nested spans."""
    share: float
    mean_ms: float
    std_ms: float
    min_ms: float
    median_ms: float
    max_ms: float


@dataclass
class _Span:
    path: tuple[str, ...]
    thread: int
    start: int
    end: int | None = None
    """`None` while it is open, and of a span that was open at the end of the block."""

    def duration(self, until: int) -> int:
        return (until if self.end is None else min(self.end, until)) - self.start


class Profiler:
    """Measures from `with Profiler() as profiler:` (or its creation) to the end of the block (or now).

    Spans of the thread that made it are rows that add up: those of a parent and `unattributed` to the parent, those of
    depth 0 to the wall time, to the nanosecond. Open spans count with their time so far. Spans of other threads are
    rows of their own, next to the wall time. `synchronize` is called at the begin and end of each span: for devices
    that compute while Python runs on, as `torch.cuda.synchronize`.
    """

    def __init__(self, synchronize: Callable[[], object] | None = None) -> None:
        self._synchronize = synchronize
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._threads: list[str] = []
        self._local = threading.local()
        self._thread("main")
        self._spans: list[_Span] = []
        self._end: int | None = None
        self._start = time.perf_counter_ns()

    def __enter__(self) -> Profiler:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = time.perf_counter_ns()

    def _thread(self, name: str) -> int:
        """Number of this thread: 0 is the main one, others in the order of their first span."""
        number: int | None = getattr(self._local, "thread", None)
        if number is None:
            with self._lock:
                number = self._local.thread = len(self._threads)
                self._threads.append(name)
        return number

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A span: `with profiler.span("render"):`, or `@profiler.span("render")` before a function."""
        if not name or "/" in name:
            raise ArgumentError(f"name: {name!r} (expected a name without `/`)", "argument")
        if self._end is not None:
            yield
            return
        local = self._local
        path = (*getattr(local, "path", ()), name)
        thread = self._thread(threading.current_thread().name)
        if self._synchronize is not None:
            self._synchronize()
        local.path = path
        span = _Span(path, thread, time.perf_counter_ns())
        self._spans.append(span)
        try:
            yield
            if self._synchronize is not None:
                self._synchronize()
        finally:
            if self._end is None:
                span.end = time.perf_counter_ns()
            local.path = path[:-1]

    @property
    def wall(self) -> float:
        """Measured time in seconds."""
        return self._wall() / 1e9

    def _wall(self) -> int:
        return (time.perf_counter_ns() if self._end is None else self._end) - self._start

    def values(self, path: str) -> NDArray[np.float64]:
        """Seconds of each span with this path, such as `step/render`, in the order of their ends."""
        names = tuple(path.split("/"))
        ended = sorted((s.end, s.start) for s in list(self._spans) if s.path == names and s.end is not None)
        return np.array([(end - start) / 1e9 for end, start in ended])

    def rows(self) -> list[Row]:
        """Rows of the thread that made the profiler, depth first, children in the order of their first begin."""
        return [row for row, _ in self._rows(self._wall(), True)]

    def _rows(self, wall: int, is_main: bool) -> list[tuple[Row, list[int]]]:
        """Rows of the main thread or of all others, with the time of each call."""
        until = self._start + wall
        of_path: dict[tuple[str, ...], list[_Span]] = {}
        # By begin: the parent of a span comes before it.
        for span in list(self._spans):
            if (span.thread == 0) == is_main and span.start <= until:
                of_path.setdefault(span.path, []).append(span)
        children: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for path in of_path:
            children.setdefault(path[:-1], []).append(path)
        totals = {path: sum(span.duration(until) for span in spans) for path, spans in of_path.items()}
        rows: list[tuple[Row, list[int]]] = []

        def add(path: tuple[str, ...], depth: int) -> None:
            below = children.get(path, [])
            inner = sum(totals[child] for child in below)
            total = totals[path] if path else wall
            if path:
                calls = [span.duration(until) for span in of_path[path] if span.end is not None]
                rows.append((_row(path, "span", depth - 1, calls, total, inner, wall), calls))
            for child in below:
                add(child, depth + 1)
            if (below and path) or (is_main and not path):
                rows.append((_row((*path, UNATTRIBUTED), UNATTRIBUTED, depth, [], total - inner, 0, wall), []))

        add((), 0)
        return rows

    def __str__(self) -> str:
        wall, others = self._wall(), len(self._threads) > 1
        text = _table("critical path" if others else "", [row for row, _ in self._rows(wall, True)], wall)
        if others:
            text += "\n\n" + _table("other threads", [row for row, _ in self._rows(wall, False)], None)
        return text

    def as_dict(self) -> dict[str, Any]:
        """The profile in the form of `profile.json` of the program. Rows of spans have `values_ms` besides."""
        wall = self._wall()

        def listed(is_main: bool) -> list[dict[str, Any]]:
            rows = self._rows(wall, is_main)
            return [{**asdict(row), "cpu_ms": None, "values_ms": [c / 1e6 for c in calls]} for row, calls in rows]

        return {
            "wall_ms": wall / 1e6,
            "rows": listed(True),
            "worker_threads": len(self._threads) - 1,
            "worker_rows": listed(False),
            "counters": [],
            "dropped_spans": 0,
            "median_relative_error": 0.0,
        }

    def trace(self) -> dict[str, Any]:
        """The spans in the Trace Event Format, for <https://ui.perfetto.dev> and `chrome://tracing`."""
        until = self._start + self._wall()
        names = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}}
            for thread, name in enumerate(self._threads)
        ]
        spans = [
            {
                "ph": "X",
                "cat": "span",
                "name": span.path[-1],
                "pid": 1,
                "tid": span.thread,
                "ts": (span.start - self._start) / 1e3,
                "dur": span.duration(until) / 1e3,
            }
            for span in list(self._spans)
            if span.start <= until
        ]
        return {"displayTimeUnit": "ms", "traceEvents": names + spans}

    def write(self, folder: PathLike) -> None:
        """Writes `profile.json` and `trace.json` to a folder, which is made if it is not there."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "profile.json").write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        (folder / "trace.json").write_text(json.dumps(self.trace()) + "\n")


def _row(
    path: tuple[str, ...], kind: str, depth: int, values: list[int], total: int, inner: int, wall: int
) -> Row:
    found = np.array(values or [0]) / 1e6
    return Row(
        path="/".join(path),
        name=path[-1],
        depth=depth,
        kind=kind,
        count=len(values),
        total_ms=total / 1e6,
        self_ms=(total - inner) / 1e6,
        share=total / max(wall, 1),
        mean_ms=float(found.mean()),
        std_ms=float(found.std(ddof=1)) if len(values) > 1 else 0.0,
        min_ms=float(found.min()),
        median_ms=float(np.median(found)),
        max_ms=float(found.max()),
    )


def _table(title: str, rows: list[Row], wall: int | None) -> str:
    lines: list[tuple[str, ...]] = [(title, *_COLUMNS)]
    for row in rows:
        times = (row.mean_ms, row.std_ms, row.min_ms, row.median_ms, row.max_ms)
        shown = [f"{value:.3f}" for value in times] if row.count else [""] * len(times)
        name, share = "  " * row.depth + row.name, f"{100 * row.share:.1f} %"
        lines.append((name, str(row.count or ""), f"{row.total_ms:.3f}", share, *shown))
    if wall is not None:
        lines.append(("wall", "", f"{wall / 1e6:.3f}", "100.0 %", *[""] * 5))
    widths = [max(map(len, column)) for column in zip(*lines)]
    cells = (
        [cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths))] for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in cells)
