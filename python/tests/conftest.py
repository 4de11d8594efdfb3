"""A small scene: a ball of coloured splats, and photographs of it."""

import json
import os
import signal

import gausset
import numpy as np
import pytest

WIDTH, HEIGHT = 48, 36

if os.environ.get("GAUSSET_REQUIRE_TORCH"):
    import torch  # noqa: F401  (tests that need it fail instead of being skipped)

# A program that a shell starts in the background ignores Ctrl-C, and so does Python, until told otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)


def look_at(position):
    """`world_to_camera` of a camera that looks at the origin, with y down."""
    forward = -np.asarray(position, float) / np.linalg.norm(position)
    right = np.cross([0.0, 1.0, 0.0], forward)
    right /= np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, -rotation @ position
    return matrix


def camera_at(position):
    return gausset.Camera(WIDTH, HEIGHT, 45.0, 45.0, WIDTH / 2, HEIGHT / 2, look_at(position))


@pytest.fixture
def splats():
    random = np.random.default_rng(1)
    count = 200
    directions = random.normal(size=(count, 3))
    means = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return gausset.Splats(
        means=means,
        log_scales=np.full((count, 3), np.log(0.12)),
        quats=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
        opacity_logits=np.full(count, 3.0),
        sh=random.uniform(-1.5, 1.5, size=(count, 4, 3)) * np.array([1.0, 0.1, 0.1, 0.1])[:, None],
    )


@pytest.fixture
def photographs(tmp_path, splats):
    """A folder with `transforms.json` and 10 images; `start.ply` holds the splats."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    renderer = gausset.Renderer(splats, threads=2)
    frames = []
    for k in range(10):
        angle = 2 * np.pi * k / 10
        camera = camera_at([4 * np.sin(angle), 0.8 * np.cos(3 * angle), -4 * np.cos(angle)])
        (folder / f"{k}.png").write_bytes(renderer.render(camera)._repr_png_())
        # The axes of `transforms.json`: y up, z back.
        pose = np.linalg.inv(camera.world_to_camera) @ np.diag([1.0, -1.0, -1.0, 1.0])
        frames.append({"file_path": f"{k}.png", "transform_matrix": pose.tolist()})
    lens = {"w": WIDTH, "h": HEIGHT, "fl_x": 45.0, "fl_y": 45.0, "cx": WIDTH / 2, "cy": HEIGHT / 2}
    (folder / "transforms.json").write_text(json.dumps({**lens, "frames": frames}))
    gausset.save(splats, tmp_path / "start.ply")
    return folder
