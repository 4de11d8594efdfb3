"""Training runs."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _gausset
from ._splats import Path, Splats, load

Progress = Callable[[int, int, float], object]
"""Receives the number of finished steps, the total, and the mean loss since the last call."""


class Run:
    """A run folder, finished or not."""

    path: pathlib.Path
    """The folder."""

    def __init__(self, path: Path) -> None:
        self.path = pathlib.Path(path)
        _gausset.run_summary(self.path)

    @property
    def metrics(self) -> dict[str, Any]:
        """Steps, splats, seconds and mean scores of the held-out views, as `gausset train --json` prints them."""
        metrics: dict[str, Any] = json.loads(_gausset.run_summary(self.path))
        return metrics

    @property
    def finished(self) -> bool:
        """Whether all steps are done; `resume` continues a run that is not finished."""
        return _gausset.run_state(self.path)

    def splats(self) -> Splats:
        """The trained splats. Their axes may differ from those of the dataset: see `Splats.dataset_transform`."""
        return load(_gausset.run_splats(self.path))

    def __repr__(self) -> str:
        return f"gausset.Run({str(self.path)!r})"


def _text(value: Any) -> str:
    """An option value in the syntax of config files."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (tuple, list, np.ndarray)):
        return ",".join(_text(part) for part in value)
    return str(value)


def _given(options: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, _text(value)) for name, value in options.items() if value is not None]


def train(
    data: Path,
    output: Path,
    *,
    steps: int | None = None,
    quality: str | None = None,
    seed: int | None = 0,
    device: str = "auto",
    force: bool = False,
    report: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Trains splats on the dataset `data` and writes them to the run folder `output`.

    `options` are the training options of the program with underscores, such as `max_splats=500_000`;
    `gausset.option_names()` lists them. `quality` is `fast`, `default` or `best`. `device` is `auto`, `cpu`, `gpu`, or
    a part of a GPU's name. A run that exists is replaced only with `force`. `report` writes `report.html`.

    Ctrl-C, or an exception of `progress`, saves the state and stops; the exception is raised then. `resume` continues.
    """
    given = _given({"steps": steps, "quality": quality, "seed": seed, **options})
    return Run(_gausset.train(data, output, given, device, force, report, progress))


def resume(
    run: Run | Path,
    *,
    data: Path | None = None,
    device: str = "auto",
    report: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Continues a run that was stopped. The result is the same as without the stop.

    `data` is the dataset if it has moved. `options` may only be those that do not change the result.
    """
    return Run(_gausset.resume(_path(run), data, _given(options), device, report, progress))


def evaluate(
    run: Run | Path,
    *,
    data: Path | None = None,
    split: str = "test",
    output: Path | None = None,
    lpips: Path | None = None,
    force: bool = False,
    device: str = "auto",
) -> dict[str, Any]:
    """Renders the views of a split and compares them with the photographs.

    Returns the scores as `gausset eval --json` prints them: means, and `per_image`. `run` may be a splat file; `data`
    is then required. `split` is `test` or `train`. Comparison images are written to `output`, by default `eval` in
    the run folder. `lpips` is a file with LPIPS weights.
    """
    report = _gausset.evaluate(_path(run), data, split, output, lpips, force, device)
    scores: dict[str, Any] = json.loads(report)
    return scores


def _path(run: Run | Path) -> Path:
    return run.path if isinstance(run, Run) else run
