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
from ._errors import whole
from ._render import Camera, Colour, Rendering, colour, render
from ._splats import Path, Splats, load

if TYPE_CHECKING:
    from ._events import Event
    from ._options import ResumeOptions, TrainOptions

Progress = Callable[[int, int, float], object]
"""Receives the number of finished steps, the total, and the mean loss since the last call."""

OnEvent = Callable[["Event"], object]
"""Receives each event of a training."""


class Run:
    """A run folder, finished or not, or one with a run in its `run`."""

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

    Ctrl-C, or an exception of `progress` or `on_event`, saves the state and stops; the exception is raised then, with
    what prevented the saving as its cause. `resume` continues. Both are called in the calling thread.
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
    max_resolution: int | None = None,
    output: Path | None = None,
    lpips: Path | None = None,
    force: bool = False,
    device: str = "auto",
) -> dict[str, Any]:
    """Renders the views of a split and compares them with the photographs.

    Returns the scores as `gausset eval --json` prints them: means, and `per_image`. `run` may be a splat file; `data`
    is then required. `split` is `test` or `train`. A run is evaluated at the size it was trained at, a file with images of
    at most `max_resolution` px (0 = as stored; default 1600). Comparison images are written to `output`, by default
    `eval` in the run folder. `lpips` is a file with LPIPS weights.
    """
    if max_resolution is not None:
        max_resolution = whole("max_resolution", max_resolution, 0, 2**32 - 1)
    report = _gausset.evaluate(_path(run), data, split, max_resolution, output, lpips, force, device)
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
        # The working folder may change.
        self._output, self._work = os.path.abspath(output), work
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
            try:
                self._result = self._work(progress)
            except _Stopped as stopped:
                self._result = stopped.__cause__ or Run(self._output)
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


class Trainer:
    """A training that advances by calls, for loops and notebooks of one's own. The result is that of `train`.

        with gausset.Trainer("photos", "scene", steps=7000) as trainer:
            while trainer.advance(500):
                print(trainer.step, trainer.loss)
                preview = trainer.render(camera)
        print(trainer.run.metrics)

    The arguments are those of `train`; the time between calls counts for a time budget alone. The end of a `with` block
    saves the state and ends a run that has steps left; `Trainer.resume` or `resume` continues it. Without a block, `stop`
    does. Ctrl-C in `advance` does, too, and an exception of `on_event`. A lost device raises `DeviceError`: `Trainer.resume`
    continues from the last checkpoint. A call from another thread or from `on_event` waits for the one that runs.
    """

    loss: float = math.nan
    """Mean loss of the last steps, reported every 10 steps or so."""

    def __init__(
        self,
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
    ) -> None:
        given = _given({"steps": steps, "quality": quality, "seed": seed, **options})
        self._on_event = _callbacks(None, on_event)[1]
        self._trainer = _gausset.Trainer.start(data, output, given, device, force, report, self._on_event)
        self._path = output

    @classmethod
    def resume(
        cls,
        run: Run | Path,
        *,
        data: Path | None = None,
        device: str = "auto",
        report: bool = True,
        on_event: OnEvent | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Trainer:
        """Opens a run that was stopped; the arguments are those of `gausset.resume`."""
        trainer = cls.__new__(cls)
        trainer._on_event = _callbacks(None, on_event)[1]
        trainer._path = _path(run)
        trainer._trainer = _gausset.Trainer.resume(
            trainer._path, data, _given(options), device, report, trainer._on_event
        )
        return trainer

    @property
    def step(self) -> int:
        """Finished steps."""
        return self._trainer.step

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self._trainer.steps

    def _progress(self, step: int, steps: int, loss: float) -> None:
        self.loss = loss

    def advance(self, steps: int = 1) -> bool:
        """Does steps; returns whether some are left. After the last one, evaluates the run and writes its result."""
        return self._trainer.advance(whole("steps", steps, 1, 2**63 - 1), self._progress, self._on_event)

    def render(self, camera: Camera, background: Colour = (0.0, 0.0, 0.0)) -> Rendering:
        """Renders a view of the splats so far, on the device that trains.

        `camera` is in the axes of `splats()`; `camera.transformed(trainer.splats().dataset_transform)` is one of the
        dataset. A learnt sky is added to the colour. After the end of the run, this is a render of `splats()` on the CPU.
        """
        images = self._trainer.render(camera._intrinsics, camera.world_to_camera.tolist(), colour(background))
        return render(self.splats(), camera, background) if images is None else Rendering(*images)

    def splats(self) -> Splats:
        """The splats so far. They are written to the run folder, and read."""
        self._trainer.export(self._on_event)
        return self.run.splats()

    def save(self) -> None:
        """Writes a checkpoint to the run folder."""
        self._trainer.save(self._on_event)

    def stop(self) -> Run:
        """Saves the state and ends the run, from any thread."""
        self._trainer.end(self._progress, self._on_event)
        return self.run

    @property
    def run(self) -> Run:
        """The run folder."""
        return Run(self._path)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __reduce__(self) -> Any:
        raise TypeError("a training cannot be pickled; its `run` can")

    def __repr__(self) -> str:
        return f"<gausset.Trainer: step {self.step} of {self.steps}>"


def _callbacks(progress: Progress | None, on_event: OnEvent | None) -> list[Any]:
    if on_event is None:
        return [progress, None]
    # Here, because the classes of events take a while.
    from ._events import event_of

    return [progress, lambda line: on_event(event_of(line))]


def _path(run: Run | Path) -> Path:
    return run.path if isinstance(run, Run) else run
