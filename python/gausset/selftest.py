"""`python -m gausset.selftest`: checks an installation in seconds, without torch and without files of the user.

Prints a line for each check; the exit code is 1 if one fails.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gausset

from . import _gausset

CENTRE, SIZE, FOCAL = 32, 64, 80.0


def _splats() -> gausset.Splats:
    """A red Gaussian of standard deviation 0.1 and opacity 0.5 at the origin, and a green one to the right."""
    return gausset.Splats(
        means=[[0.0, 0.0, 0.0], [0.8, 0.0, 0.0]],
        log_scales=np.full((2, 3), np.log(0.1)),
        quats=[[1, 0, 0, 0]] * 2,
        opacity_logits=[0.0, 0.0],
        sh=(np.array([[[1, 0, 0]], [[0, 1, 0]]]) - 0.5) / 0.2820948,
    )


def _camera() -> gausset.Camera:
    pose = np.eye(4)
    pose[2, 3] = 4.0
    return gausset.Camera(SIZE, SIZE, FOCAL, FOCAL, CENTRE + 0.5, CENTRE + 0.5, pose)


def _render() -> str:
    """A pixel at distance d from the centre of a splat has the weight `opacity exp(-d² / 2σ²)` on the image."""
    found = gausset.render(_splats(), _camera(), threads=1)
    sigma = np.sqrt((0.1 * FOCAL / 4) ** 2 + 0.3)  # with the low-pass filter of 0.3 px²
    for d in (0, 2, 3):
        expected = 0.5 * np.exp(-0.5 * (d / sigma) ** 2)
        value = float(found.color[CENTRE - d, CENTRE, 0])
        assert abs(value - expected) < 1e-4, f"weight at {d} px: {value} (expected {expected})"
    return "a Gaussian on an image"


def _threads() -> str:
    first, second = (gausset.render(_splats(), _camera(), threads=count).color for count in (1, 2))
    assert first.tobytes() == second.tobytes(), "1 and 2 threads give different bytes"
    return "the same bytes with 1 and 2 threads"


def _files() -> str:
    splats = _splats()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "splats.ply"
        gausset.save(splats, path)
        back = gausset.load(path)
        assert back.means.tobytes() == splats.means.tobytes(), "a PLY changed the means"
        found = gausset.convert(path, Path(folder) / "splats.spz")
        assert found["splats"] == len(splats), f"{found['splats']} splats in SPZ"
        try:
            gausset.load(Path(folder) / "missing.ply")
        except gausset.FileError:
            pass
        else:
            raise AssertionError("a missing file is no FileError")
    return "PLY, SPZ and a missing file"


def _gradients() -> str:
    """Gradients of a weighted sum of pixels with respect to the means, against central differences of the renderer."""
    splats = _splats()
    random = np.random.default_rng(0)
    weights = random.uniform(0.5, 1.5, size=(SIZE, SIZE, 3)).astype(np.float32)
    # Where a splat's weight falls below 1/255 it is cut off, which differences see and gradients do not.
    rows, columns = np.mgrid[:SIZE, :SIZE]
    near, other = (np.hypot(rows - CENTRE, columns - x) < 4 for x in (CENTRE, CENTRE + 16))
    weights[~(near | other)] = 0
    colors = np.eye(2, 3, dtype=np.float32)
    quats, scales, opacities = splats.quats, np.exp(splats.log_scales), splats.opacities
    pose = _camera().world_to_camera.tolist()
    # Near plane, far plane, variance of the low-pass filter, largest alpha, least compensation, least radius.
    rules = (0.01, 1e10, 0.3, 0.99, 0.0, 0.0)

    def view_of(means: NDArray[np.float32]) -> _gausset.View:
        packed = _gausset.ActivatedSplats(means, quats, scales, opacities)
        lens = (FOCAL, FOCAL, CENTRE + 0.5, CENTRE + 0.5)
        return _gausset.project(packed, pose, lens, (SIZE, SIZE), rules, False)[0]

    def loss(means: NDArray[np.float32]) -> float:
        return float((view_of(means).blend(colors, None)[0].astype(float) * weights).sum())

    view = view_of(splats.means)
    view.blend(colors, None)
    means2d, conics, depths, alphas, *_ = view.blend_vjp(colors, weights, None, None, False)
    found = view.project_vjp(means2d, conics, depths, alphas)[0]
    largest = float(np.abs(found).max())
    for index in np.ndindex(2, 3):
        step = np.zeros((2, 3), np.float32)
        step[index] = 1e-2
        expected = (loss(splats.means + step) - loss(splats.means - step)) / 2e-2
        error = abs(float(found[index]) - expected)
        assert error < 0.02 * largest, f"means{index}: {found[index]} (expected {expected})"
    return "gradients of the means"


CHECKS: tuple[Callable[[], str], ...] = (_render, _threads, _gradients, _files)


def main() -> int:
    """Runs all checks; returns the exit code."""
    info = gausset.build_info()
    print(f"gausset {info['version']}, {info['simd']}, {info['threads']} threads")
    failed = 0
    for check in CHECKS:
        try:
            print(f"ok      {check()}")
        except Exception as error:
            failed += 1
            text = str(error) or traceback.format_exception_only(error)[-1].strip()
            print(f"failed  {check.__name__[1:]}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
