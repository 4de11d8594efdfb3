"""Which splats hang in front of surfaces whose depth is known?

    gausset train DATA -o RUN --keep-depth
    python veils.py RUN [VIEW …]

For each training view, the fraction of the rendered weight on pixels of known depth that lies nearer than 0.85 of it,
and the splats that make 90 % of it: their place on the way to the surface, size, opacity, in how many training views
they are drawn, and how much of their weight there lies on pixels of unknown depth. Held-out views get the depths that
the training views know. Weights are gradients: the sum of the pixels of a render whose colours are all one, with
respect to the colour of a splat, is the sum of its blending weights. Needs torch.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np
import torch

import gausset

FRONT = 0.85  # Nearer than this part of the depth is in front of it.
BINS = 24  # Pixels are grouped by the logarithm of their depth.
MADE_BY = 0.9  # The splats listed make this part of the weight.


class Run:
    """The splats of a run, its views and their depths."""

    def __init__(self, folder: Path) -> None:
        config = tomllib.loads((folder / "config.toml").read_text())
        near = config["run"]["near-plane"] if config["near-plane"] == "auto" else config["near-plane"]
        self.near = float(near)
        self.dataset = gausset.Dataset(config["data"], max_resolution=config["max-resolution"])
        splats = gausset.load(folder / "splats.ply")
        self.transform = splats.dataset_transform
        self.count = len(splats)
        self.splats = [
            torch.tensor(np.array(values, np.float32))
            for values in (splats.means, splats.quats, splats.scales, splats.opacities)
        ]
        train = list(self.dataset.train)
        maps = sorted((folder / "depth").glob("*.npy"))
        if len(maps) != len(train):
            sys.exit(f"{folder}/depth: {len(maps)} maps (expected {len(train)}); train with --keep-depth")
        self.depths = {int(view): np.load(path) for view, path in zip(train, maps)}
        self.points = np.concatenate([self.lift(view) for view in train])

    def camera(self, view: int, width: int, height: int) -> tuple[gausset.Camera, np.ndarray]:
        """The camera of a view at this size, and its pose (3, 4), in the axes of the splats."""
        camera = self.dataset.cameras[view]
        if self.transform is not None:
            camera = camera.transformed(self.transform)
        camera = camera.resized(width, height)
        return camera, np.asarray(camera.world_to_camera)[:3]

    def lift(self, view: int) -> np.ndarray:
        """Every fourth pixel of known depth as a point in space."""
        depth = self.depths[view]
        camera, pose = self.camera(view, depth.shape[1], depth.shape[0])
        rows, columns = np.nonzero(np.isfinite(depth[::4, ::4]))
        z = depth[4 * rows, 4 * columns]
        x = (4 * columns + 0.5 - camera.cx) / camera.fx * z
        y = (4 * rows + 0.5 - camera.cy) / camera.fy * z
        return (np.stack([x, y, z], 1) - pose[:, 3]) @ pose[:, :3]

    def depth(self, view: int) -> np.ndarray:
        """Known depths of a view: its own, or the nearest of the points of all others in cells of 4x4 px."""
        if view in self.depths:
            return self.depths[view]
        height, width = next(iter(self.depths.values())).shape
        camera, pose = self.camera(view, width, height)
        x, y, z = pose[:, :3] @ self.points.T + pose[:, 3:]
        z = np.where(z > self.near, z, np.nan)
        column, row = camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy
        seen = (0 <= column) & (column < width) & (0 <= row) & (row < height)
        nearest = np.full((-(-height // 4), -(-width // 4)), np.inf, np.float32)
        np.minimum.at(nearest, (row[seen].astype(int) // 4, column[seen].astype(int) // 4), z[seen])
        nearest[np.isinf(nearest)] = np.nan
        return nearest.repeat(4, 0).repeat(4, 1)[:height, :width]

    def weights(self, view: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Per splat: weight in front of known depths, on known and unknown pixels, and its part of the way."""
        depth = self.depth(view)
        height, width = depth.shape
        camera, pose = self.camera(view, width, height)
        matrix = torch.eye(4)
        matrix[:3] = torch.tensor(pose)
        colors = torch.ones(self.count, 1, requires_grad=True)
        lens = torch.tensor(camera.K, dtype=torch.float32)
        image, _, _ = gausset.rasterization(
            *self.splats, colors, matrix[None], lens[None], width, height, near_plane=self.near, packed=False
        )

        def sum_over(pixels: np.ndarray) -> np.ndarray:
            (gradient,) = torch.autograd.grad(
                image[0, ..., 0][torch.tensor(pixels)].sum(), colors, retain_graph=True
            )
            return gradient[:, 0].numpy()

        z = self.splats[0].numpy() @ pose[2, :3] + pose[2, 3]
        known = np.isfinite(depth)
        front, on_known, way = np.zeros(self.count), np.zeros(self.count), np.zeros(self.count)
        log = np.log(np.where(known, depth, 1.0))
        edges = np.linspace(log[known].min(), log[known].max() + 1e-6, BINS + 1) if known.any() else []
        for low, high in zip(edges, edges[1:]):
            pixels = known & (low <= log) & (log < high)
            if pixels.any():
                found, middle = sum_over(pixels), float(np.exp((low + high) / 2))
                is_front = z < FRONT * middle
                front += found * is_front
                way += found * is_front * (z / middle)
                on_known += found
        return front, on_known, sum_over(~known), way


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run = Run(Path(sys.argv[1]))
    names, train = run.dataset.names, [int(view) for view in run.dataset.train]
    for name in sys.argv[2:]:
        if name not in names:
            sys.exit(f"{name}: no such view (expected one of {names[0]} … {names[-1]})")
    chosen = [names.index(name) for name in sys.argv[2:]]
    of = {view: run.weights(view) for view in sorted({*train, *chosen})}
    drawn = sum((of[view][1] + of[view][2] > 0.5).astype(int) for view in train)
    unknown = sum(of[view][2] for view in train)
    all_weight = unknown + sum(of[view][1] for view in train)
    fractions = []
    for view in chosen or train:
        front, on_known, _, way = of[view]
        fraction = front.sum() / max(on_known.sum(), 1e-9)
        fractions.append(fraction)
        order = np.argsort(-front)
        most = int(np.searchsorted(np.cumsum(front[order]), MADE_BY * front.sum())) + 1
        print(f"{names[view]}: {100 * fraction:.1f} % of the weight in front, 90 % of it by {most} splats")
        sizes = run.splats[2].numpy().max(1)
        for splat in order[: min(most, 10)] if chosen else []:
            print(
                f"  splat {splat:>7}: {100 * front[splat] / front.sum():4.1f} %, at {way[splat] / front[splat]:.2f} "
                f"of the way, size {sizes[splat]:.3g}, opacity {float(run.splats[3][splat]):.2f}, in {drawn[splat]} "
                f"training views, {100 * unknown[splat] / max(all_weight[splat], 1e-9):.0f} % of it on unknown depth"
            )
    fractions.sort()
    print(f"median {100 * fractions[len(fractions) // 2]:.1f} %, most {100 * fractions[-1]:.1f} %")


if __name__ == "__main__":
    main()
