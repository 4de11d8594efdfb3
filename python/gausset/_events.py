"""Events of a training as objects: the fields of the program's events (`crates/train/src/events.rs`, schema 1)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """What happened in a training. `event` is its name; `fields` are those that no attribute of a class has."""

    event: str
    fields: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Started(Event):
    """Everything is loaded; the first step follows."""

    step: int = 0
    steps: int = 0
    splats: int = 0
    train_images: int = 0
    test_images: int = 0
    scene_extent: float = 0.0


@dataclass(frozen=True)
class Progress(Event):
    """Steps have finished. `loss` is the mean since the last such event, `it_per_s` recent steps per second.

    In blocks, the numbers are those of a part, which the event `coarse_run` or `block` begins.
    """

    step: int = 0
    steps: int = 0
    loss: float = 0.0
    splats: int = 0
    it_per_s: float = 0.0
    memory: int | None = None
    """Resident memory in bytes."""
    seconds_left: float | None = None


@dataclass(frozen=True)
class Density(Event):
    """The set of splats has changed since the last such event."""

    step: int = 0
    splats: int = 0
    added: int = 0
    pruned: int = 0
    relocated: int = 0


@dataclass(frozen=True)
class Evaluated(Event):
    """Held-out views were rendered and scored."""

    step: int = 0
    report: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Checkpointed(Event):
    """A checkpoint was written."""

    step: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Exported(Event):
    """`splats.ply` was written."""

    step: int = 0
    path: str = ""
    splats: int = 0
    dropped: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Finished(Event):
    """All steps are done and all files written; `fields` has the scores."""

    steps: int = 0
    splats: int = 0
    seconds: float = 0.0
    psnr: float | None = None
    ssim: float | None = None


_CLASSES = {
    kind.__name__.lower(): kind for kind in (Started, Progress, Density, Evaluated, Checkpointed, Exported, Finished)
}


def event_of(line: str) -> Event:
    """The event of a line of JSON. Other events than those above are `Event`."""
    given = json.loads(line)
    given.pop("schema", None)
    name = given.pop("event")
    kind = _CLASSES.get(name, Event)
    own = {field.name for field in dataclasses.fields(kind)} - {"event", "fields"}
    known = {key: value for key, value in given.items() if key in own}
    return kind(name, {key: value for key, value in given.items() if key not in own}, **known)
