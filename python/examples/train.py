"""Trains splats in a loop of PyTorch: `python train.py DATA OUT.ply [STEPS]`, on a dataset with points.

`gausset demo --size small` makes one: gausset-demo/data. The number of splats is fixed.
"""

import sys

import numpy as np
import torch

import gausset
from gausset.losses import l1_ssim

data, out = gausset.Dataset(sys.argv[1], max_resolution=480), sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 500

points = torch.tensor(data.points, dtype=torch.float32)
if len(points) < 4:
    sys.exit(f"{sys.argv[1]}: {len(points)} points (expected 4 or more)")
nearest = torch.cat([torch.cdist(part, points).topk(4, largest=False)[0][:, 1:] for part in points.split(1024)])
colors = torch.tensor(data.colors, dtype=torch.float32) / 255
sh = torch.zeros(len(points), 9, 3)
sh[:, 0] = (colors - 0.5) / 0.28209479

params = {
    "means": (points, 2e-4 * data.scene_extent),
    "log_scales": (nearest.mean(1).clamp(min=1e-7).log()[:, None].repeat(1, 3), 5e-3),
    "quats": (torch.randn(len(points), 4), 1e-3),
    "logits": (torch.zeros(len(points)), 5e-2),
    "sh": (sh, 2.5e-3),
}
splats = {name: torch.nn.Parameter(value) for name, (value, _) in params.items()}
optimizer = torch.optim.Adam([{"params": [splats[name]], "lr": rate} for name, (_, rate) in params.items()], eps=1e-15)


def draw(index: int) -> torch.Tensor:
    camera = data.cameras[index]
    pose = torch.tensor(camera.world_to_camera, dtype=torch.float32)[None]
    lens = torch.tensor(camera.K, dtype=torch.float32)[None]
    colors, _, _ = gausset.rasterization(
        splats["means"],
        splats["quats"],
        splats["log_scales"].exp(),
        splats["logits"].sigmoid(),
        splats["sh"],
        pose,
        lens,
        camera.width,
        camera.height,
        sh_degree=2,
    )
    return colors[0]


images = [torch.tensor(data.image(index)[..., :3], dtype=torch.float32) / 255 for index in range(len(data))]
for step in range(steps):
    index = int(np.random.default_rng(step).choice(data.train))
    loss = l1_ssim(draw(index), images[index])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}")

with torch.no_grad():
    errors = [(draw(int(index)).clamp(0, 1) - images[index]).square().mean() for index in data.test]
    print(f"held-out PSNR {-10 * torch.stack(errors).log10().mean().item():.2f} dB")
    arrays = [splats[name].numpy() for name in ("means", "log_scales", "quats", "logits")]
    gausset.save(gausset.Splats(*arrays, splats["sh"].reshape(len(points), -1, 3).numpy()), out)
