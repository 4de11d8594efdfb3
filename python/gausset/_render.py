"""Cameras and renders."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _gausset
from ._errors import ArgumentError, whole
from ._splats import Splats

Colour = tuple[float, float, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera with its pose.

    Sizes, focal lengths and the principal point are in pixels; the centre of the first pixel is at (0.5, 0.5).
    `world_to_camera` is a rigid transform (4, 4) to the axes of the camera: x right, y down, z forward.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    world_to_camera: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.eye(4))

    def __post_init__(self) -> None:
        try:
            matrix = np.array(self.world_to_camera, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"world_to_camera: not an array of numbers ({error})", "argument") from None
        if matrix.shape != (4, 4):
            raise ArgumentError(f"world_to_camera: shape {matrix.shape} (expected (4, 4))", "argument")
        matrix.flags.writeable = False
        object.__setattr__(self, "world_to_camera", matrix)
        try:
            _gausset.check_camera(self._intrinsics, matrix.tolist())
        except OverflowError:
            found = f"image size is {self.width}x{self.height} px"
            raise ArgumentError(f"{found} (expected 1..32768 a side)", "argument") from None

    @property
    def _intrinsics(self) -> tuple[int, int, float, float, float, float]:
        return self.width, self.height, self.fx, self.fy, self.cx, self.cy

    @property
    def K(self) -> NDArray[np.float64]:
        """The matrix of intrinsics (3, 3)."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    @property
    def position(self) -> NDArray[np.float64]:
        """Centre of the camera (3,) in the world."""
        rotation, translation = self.world_to_camera[:3, :3], self.world_to_camera[:3, 3]
        return -rotation.T @ translation

    def resized(self, width: int, height: int) -> Camera:
        """The same view at another image size."""
        sx, sy = width / self.width, height / self.height
        intrinsics = (self.fx * sx, self.fy * sy, self.cx * sx, self.cy * sy)
        return Camera(width, height, *intrinsics, self.world_to_camera)

    def transformed(self, new_from_old: ArrayLike) -> Camera:
        """The camera in a world that a similarity (4, 4) has rotated, scaled and moved. It sees the same image."""
        similarity = np.asarray(new_from_old, dtype=np.float64)
        if similarity.shape != (4, 4) or not np.linalg.det(similarity[:3, :3]) > 0:
            raise ArgumentError(f"new_from_old: shape {similarity.shape} (expected a similarity (4, 4))", "argument")
        scale = np.cbrt(np.linalg.det(similarity[:3, :3]))
        matrix = np.diag([scale, scale, scale, 1.0]) @ self.world_to_camera @ np.linalg.inv(similarity)
        matrix[3] = (0.0, 0.0, 0.0, 1.0)
        return dataclasses.replace(self, world_to_camera=matrix)


@dataclasses.dataclass(frozen=True, eq=False)
class Rendering:
    """Images of a view, `h` rows by `w` columns."""

    color: NDArray[np.float32]
    """RGB (h, w, 3) over the background, not clamped to 0..1."""
    alpha: NDArray[np.float32]
    """Coverage (h, w): 1 minus the transmittance."""
    depth: NDArray[np.float32]
    """Sum (h, w) of weight times depth, scene units. Divided by `alpha` it is the expected depth."""
    count: NDArray[np.uint32]
    """Number (h, w) of blended splats."""

    def _repr_png_(self) -> bytes:
        """What a notebook shows: `color`, 8 bits a channel."""
        import struct
        import zlib

        def chunk(name: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        height, width, _ = self.color.shape
        pixels = (np.nan_to_num(self.color).clip(0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
        # Each row begins with its filter: none.
        rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def colour(background: Colour) -> Colour:
    """Checks a background."""
    channels = tuple(float(channel) for channel in background)
    if len(channels) != 3 or not np.isfinite(channels).all():
        raise ArgumentError(f"background: {channels} (expected 3 finite channels)", "argument")
    return channels


class Renderer:
    """Splats on a device, for many renders. Changes of the arrays after this have no effect.

    `device` is `cpu`, `gpu`, or a part of a GPU's name. `threads` is the number of CPU threads, 0 = all.
    """

    def __init__(self, splats: Splats, device: str = "cpu", threads: int = 0) -> None:
        self._renderer = _gausset.Renderer(splats, device, whole("threads", threads, 0, 1024))

    def render(
        self,
        camera: Camera,
        background: Colour = (0.0, 0.0, 0.0),
        *,
        sh_degree: int | None = None,
        antialiased: bool | None = None,
        near_plane: float | None = None,
    ) -> Rendering:
        """Renders a view.

        `background` is RGB. `sh_degree` ignores higher coefficients. Splats nearer than `near_plane` (scene units) are
        not drawn. `None` = as the splats say. A sky adds to the colour only.
        """
        if sh_degree is not None:
            sh_degree = whole("sh_degree", sh_degree, 0, 3)
        images = self._renderer.render(
            camera._intrinsics, camera.world_to_camera.tolist(), colour(background), sh_degree, antialiased, near_plane
        )
        return Rendering(*images)


def render(
    splats: Splats,
    camera: Camera,
    background: Colour = (0.0, 0.0, 0.0),
    device: str = "cpu",
    sh_degree: int | None = None,
    *,
    antialiased: bool | None = None,
    near_plane: float | None = None,
    threads: int = 0,
) -> Rendering:
    """Renders one view of splats; see `Renderer.render`. Use a `Renderer` for several views."""
    renderer = Renderer(splats, device, threads)
    return renderer.render(
        camera, background, sh_degree=sh_degree, antialiased=antialiased, near_plane=near_plane
    )
