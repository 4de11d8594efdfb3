"""Datasets: images with cameras, and points."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _gausset
from ._errors import whole
from ._render import Camera
from ._splats import Path


class Dataset:
    """Images with cameras and points, as training reads them.

    `path` is a folder with a COLMAP model, `transforms.json`, or the cameras of another program. Only headers are read;
    `image` decodes. Images are undistorted, upright, and at most `max_resolution` px long (0 = as stored). Every
    `test_every`-th image is held out, unless the dataset has a list of its own.
    """

    names: list[str]
    """Names of the images, sorted."""
    cameras: list[Camera]
    """The camera of each image, in the axes of the dataset."""
    points: NDArray[np.float64]
    """Positions (n, 3) of the reconstruction's points, scene units."""
    colors: NDArray[np.uint8]
    """RGB (n, 3) of the points."""
    train: NDArray[np.intp]
    """Indices of the training images."""
    test: NDArray[np.intp]
    """Indices of the held-out images."""

    def __init__(
        self,
        path: Path,
        *,
        images: Path | None = None,
        masks: Path | None = None,
        sparse: Path | None = None,
        max_resolution: int = 1600,
        test_every: int = 8,
        allow_outside: bool = False,
    ) -> None:
        max_resolution = whole("max_resolution", max_resolution, 0, 2**32 - 1)
        test_every = whole("test_every", test_every, 0, 2**32 - 1)
        self._arguments = (path, images, masks, sparse, max_resolution, test_every, allow_outside)
        self._open()

    def _open(self) -> None:
        self._dataset = _gausset.Dataset(*self._arguments)
        self.names = self._dataset.names
        self.cameras = [Camera(*intrinsics, np.array(rows)) for intrinsics, rows in self._dataset.cameras]
        self.points, self.colors = self._dataset.points
        self.train = np.array(self._dataset.train, dtype=np.intp)
        self.test = np.array(self._dataset.test, dtype=np.intp)

    def __getstate__(self) -> tuple[Any, ...]:
        """Path and options: a copy opens the dataset again."""
        return self._arguments

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._arguments = state
        self._open()

    @property
    def kind(self) -> str:
        """Format of the source: `colmap`, `nerfstudio`, …"""
        return self._dataset.kind

    @property
    def scene_extent(self) -> float:
        """Size of the scene, scene units."""
        return self._dataset.scene_extent

    @property
    def offset(self) -> NDArray[np.float64]:
        """What was subtracted (3,) from the coordinates of the source; 0 unless they are far from the origin."""
        return np.array(self._dataset.offset)

    def __len__(self) -> int:
        return len(self.names)

    # Its parts are lists and arrays.
    __iter__ = None

    def _index(self, index: int) -> int:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        return index % len(self)

    def image(self, index: int) -> NDArray[np.uint8]:
        """The image of `cameras[index]`: RGB (h, w, 3), or RGBA (h, w, 4) with straight alpha if it has alpha."""
        rgb, alpha, _ = self._dataset.image(self._index(index))
        return rgb if alpha is None else np.dstack([rgb, alpha])

    def mask(self, index: int) -> NDArray[np.bool_] | None:
        """Which pixels (h, w) of an image count; `None` = all."""
        mask = self._dataset.image(self._index(index))[2]
        return None if mask is None else mask != 0

    def __repr__(self) -> str:
        return f"<gausset.Dataset: {len(self)} images, {len(self.points)} points, {self.kind}>"
