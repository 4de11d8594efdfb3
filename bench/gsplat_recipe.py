#!/usr/bin/env python3
"""Trains with a recipe of gsplat 1.5's `simple_trainer.py` through `gausset.rasterization`, on the CPU.

    python3 bench/gsplat_recipe.py DATA OUT.ply --strategy default|mcmc [--steps N] [--max-splats N] [--max-resolution PX] [--seed N]

Start, rates, losses and intervals are those of its command `default` or `mcmc` with `max_steps` N, in its unit of length. The
loss is that of Gausset, whose SSIM includes the border. Prints a JSON line: splats and CPU seconds of the training. Scores:
`gausset eval OUT.ply --data DATA --max-resolution PX --near-plane 0.01`.
"""

import argparse
import json
import math
import time

import numpy as np
import torch

import gausset
from gausset.losses import l1_ssim
from gausset.optim import Adam

NEAR, FAR, SSIM = 0.01, 1e10, 0.2


def unit_of(poses: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre and scale that bring the point most cameras look at to 0 and the median camera to the distance 1."""
    rotations = poses[:, :3, :3].transpose(0, 2, 1)
    centres = -(rotations @ poses[:, :3, 3:])[..., 0]
    axes = rotations[..., 2]
    nearest = centres - (centres * axes).sum(1, keepdims=True) * axes
    centre = np.median(nearest, axis=0)
    return centre, 1.0 / np.median(np.linalg.norm(centres - centre, axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--strategy", choices=("default", "mcmc"), default="default")
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--max-splats", type=int, default=1_000_000, help="cap of mcmc")
    parser.add_argument("--max-resolution", type=int, default=360)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    gausset.set_num_threads(1)
    is_mcmc = given.strategy == "mcmc"

    data = gausset.Dataset(given.data, max_resolution=given.max_resolution)
    centre, scale = unit_of(np.stack([camera.world_to_camera for camera in data.cameras]))
    poses = []
    for camera in data.cameras:
        pose = np.array(camera.world_to_camera, dtype=np.float64)[:4]
        pose[:3, 3] = (pose[:3, 3] + pose[:3, :3] @ centre) * scale
        poses.append(torch.tensor(pose, dtype=torch.float32)[None])
    lenses = [torch.tensor(camera.K, dtype=torch.float32)[None] for camera in data.cameras]
    places = np.stack([-(p[0, :3, :3].T @ p[0, :3, 3]).numpy() for p in poses])
    extent = 1.1 * np.linalg.norm(places - places.mean(0), axis=1).max()
    # Pixels that undistortion leaves empty do not count (gsplat crops them).
    masks, images = {}, {}
    for k in map(int, data.train):
        mask = data.mask(k)
        masks[k] = torch.tensor(True if mask is None else mask).expand(data.cameras[k].height, data.cameras[k].width)
        images[k] = torch.tensor(data.image(k)[..., :3], dtype=torch.float32) / 255 * masks[k][..., None]

    started = time.process_time()
    points = torch.tensor((data.points - centre) * scale, dtype=torch.float32)
    nearest = torch.cat([torch.cdist(part, points).topk(4, largest=False)[0][:, 1:] for part in points.split(1024)])
    count = len(points)
    sh0 = (torch.tensor(data.colors, dtype=torch.float32) / 255 - 0.5)[:, None] / 0.28209479
    distance = nearest.square().mean(1).sqrt() * (0.1 if is_mcmc else 1.0)
    values = {
        "means": (points, 1.6e-4 * extent),
        "scales": (distance.clamp(min=1e-10).log()[:, None].repeat(1, 3), 5e-3),
        "quats": (torch.rand(count, 4), 1e-3),
        "opacities": (torch.full((count,), 0.5 if is_mcmc else 0.1).logit(), 5e-2),
        "sh0": (sh0, 2.5e-3),
        "shN": (torch.zeros(count, 15, 3), 2.5e-3 / 20),
    }
    splats = {name: torch.nn.Parameter(value) for name, (value, _) in values.items()}
    optimizers = {name: Adam([splats[name]], lr=rate, eps=1e-15) for name, (_, rate) in values.items()}
    decay = 0.01 ** (1.0 / given.steps)

    if is_mcmc:
        strategy = gausset.MCMCStrategy(cap_max=given.max_splats)
        state = strategy.initialize_state()
    else:
        strategy = gausset.DefaultStrategy()
        state = strategy.initialize_state(scene_scale=extent)

    order: list[int] = []
    for step in range(given.steps):
        if not order:
            order = [int(data.train[k]) for k in torch.randperm(len(data.train))]
        index = order.pop()
        camera = data.cameras[index]
        image, _, info = gausset.rasterization(
            splats["means"],
            splats["quats"],
            splats["scales"].exp(),
            splats["opacities"].sigmoid(),
            torch.cat([splats["sh0"], splats["shN"]], 1),
            poses[index],
            lenses[index],
            camera.width,
            camera.height,
            sh_degree=min(step // 1000, 3),
            near_plane=NEAR,
            far_plane=FAR,
            packed=False,
        )
        if not is_mcmc:
            strategy.step_pre_backward(splats, optimizers, state, step, info)
        loss = l1_ssim(image[0] * masks[index][..., None], images[index], SSIM)
        if is_mcmc:
            loss = loss + 0.01 * splats["opacities"].sigmoid().mean() + 0.01 * splats["scales"].exp().mean()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rate = optimizers["means"].param_groups[0]
        rate["lr"] *= decay
        if is_mcmc:
            strategy.step_post_backward(splats, optimizers, state, step, info, lr=rate["lr"])
        else:
            strategy.step_post_backward(splats, optimizers, state, step, info)
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.4f}, {len(splats['means'])} splats", flush=True)
    seconds = time.process_time() - started

    with torch.no_grad():
        means = splats["means"].double().numpy() / scale + centre
        scales = splats["scales"].numpy() - math.log(scale)
        sh = torch.cat([splats["sh0"], splats["shN"]], 1).numpy()
        quats, opacities = splats["quats"].numpy(), splats["opacities"].numpy()
    saved = gausset.Splats(means.astype(np.float32), scales.astype(np.float32), quats, opacities, sh)
    gausset.save(saved, given.out)
    print(json.dumps({"splats": len(means), "cpu_s": round(seconds, 1), "steps": given.steps}))


if __name__ == "__main__":
    main()
