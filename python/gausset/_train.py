"""Training runs."""

from __future__ import annotations

import atexit
import json
import math
import os
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from . import _gausset
from ._splats import Path, Splats, load

if TYPE_CHECKING:
    from ._events import Event
    from ._options import ResumeOptions, TrainOptions

Progress = Callable[[int, int, float], object]
"""Receives the number of finished steps, the total, and the mean loss since the last call."""

OnEvent = Callable[["Event"], object]
"""Receives each event of a training."""


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
        """The trained splats, of a stopped run those so far.

        Their axes may differ from those of the dataset: see `Splats.dataset_transform`.
        """
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


def _given(options: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, _text(value)) for name, value in options.items() if value is not None]


def train(
    data: Path,
    output: Path,
    *,
    steps: int | None = None,
    quality: Literal["fast", "default", "best"] | None = None,
    seed: int | None = 0,
    device: str = "auto",
    force: bool = False,
    report: bool = True,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[TrainOptions],
) -> Run:
    """Trains splats on the dataset `data` and writes them to the run folder `output`.

    `options` are the training options of the program with underscores, such as `max_splats=500_000`:
    `gausset.TrainOptions` has their types, `gausset.option_names()` lists them. `device` is `auto`, `cpu`, `gpu`, or a
    part of a GPU's name. A run that exists is replaced only with `force`. `report` writes `report.html`.

    Ctrl-C, or an exception of `progress` or `on_event`, saves the state and stops; the exception is raised then.
    `resume` continues. Both are called in the calling thread.
    """
    given = _given({"steps": steps, "quality": quality, "seed": seed, **options})
    return Run(_gausset.train(data, output, given, device, force, report, *_callbacks(progress, on_event)))


def resume(
    run: Run | Path,
    *,
    data: Path | None = None,
    device: str = "auto",
    report: bool = True,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[ResumeOptions],
) -> Run:
    """Continues a run that was stopped. The result is the same as without the stop.

    `data` is the dataset if it has moved. `options` may only be those that do not change the result: `gausset.ResumeOptions`.
    """
    return Run(_gausset.resume(_path(run), data, _given(options), device, report, *_callbacks(progress, on_event)))


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


class _Stopped(Exception):
    """Ends a training from its progress callback."""


class Training:
    """A training in a thread of its own, from `start`. The end of a `with` block, or of Python, stops it."""

    step: int = 0
    """Finished steps."""
    steps: int = 0
    """Steps of the whole run."""
    loss: float = math.nan
    """Mean loss of the last steps."""

    def __init__(self, output: Path, work: Callable[[Progress], Run]) -> None:
        self._output, self._work = output, work
        self._is_asked = threading.Event()
        self._result: Run | BaseException | None = None
        # A daemon, so that Python does not wait for all steps at its end.
        self._thread = threading.Thread(target=self._run, name="gausset-training", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _run(self) -> None:
        def progress(step: int, steps: int, loss: float) -> None:
            self.step, self.steps, self.loss = step, steps, loss
            if self._is_asked.is_set():
                raise _Stopped

        try:
            self._result = self._work(progress)
        except _Stopped:
            self._result = Run(self._output)
        except BaseException as error:
            self._result = error

    @property
    def running(self) -> bool:
        """Whether it still trains."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Asks it to save its state and stop, from any thread; `resume` continues."""
        self._is_asked.set()

    def wait(self, timeout: float | None = None) -> Run | None:
        """Waits for the end; returns the run, or None after `timeout` seconds. Raises what ended the training."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return None
        atexit.unregister(self._end)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _end(self) -> None:
        self.stop()
        self._thread.join()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None:
            self.wait()
        else:
            self._end()

    def __reduce__(self) -> Any:
        raise TypeError("a training that runs cannot be pickled; its `Run` can")

    def __repr__(self) -> str:
        return f"<gausset.Training: {'running' if self.running else 'ended'}, step {self.step} of {self.steps}>"


def start(
    data: Path,
    output: Path,
    *,
    steps: int | None = None,
    quality: Literal["fast", "default", "best"] | None = None,
    seed: int | None = 0,
    device: str = "auto",
    force: bool = False,
    report: bool = True,
    on_event: OnEvent | None = None,
    **options: Unpack[TrainOptions],
) -> Training:
    """Starts `train` with these options in a thread of its own, which also calls `on_event`.

        with gausset.start("photos", "scene", steps=7000) as training:
            while training.wait(1.0) is None:
                print(training.step, training.loss)
    """

    def work(progress: Progress) -> Run:
        return train(
            data,
            output,
            steps=steps,
            quality=quality,
            seed=seed,
            device=device,
            force=force,
            report=report,
            progress=progress,
            on_event=on_event,
            **options,
        )

    return Training(output, work)


def _callbacks(progress: Progress | None, on_event: OnEvent | None) -> list[Any]:
    if on_event is None:
        return [progress, None]
    # Here, because the classes of events take a while.
    from ._events import event_of

    return [progress, lambda line: on_event(event_of(line))]


def _path(run: Run | Path) -> Path:
    return run.path if isinstance(run, Run) else run
