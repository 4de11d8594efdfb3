"""Trains splats in a loop of PyTorch: `python train.py DATA OUT.ply [STEPS]`, on a dataset with points.

`gausset demo --size small` makes one: gausset-demo/data. Splats are added where gradients on the screen are large.
"""

import sys

import numpy as np
import torch

import gausset
from gausset.losses import l1_ssim
from gausset.optim import Adam

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
    "scales": (nearest.mean(1).clamp(min=1e-7).log()[:, None].repeat(1, 3), 5e-3),
    "quats": (torch.randn(len(points), 4), 1e-3),
    "opacities": (torch.zeros(len(points)), 5e-2),
    "sh": (sh, 2.5e-3),
}
splats = {name: torch.nn.Parameter(value) for name, (value, _) in params.items()}
optimizers = {name: Adam([splats[name]], lr=rate, eps=1e-15) for name, (_, rate) in params.items()}
strategy = gausset.DefaultStrategy(
    grow_grad2d=1e-3, refine_every=50, refine_start_iter=steps // 10, refine_stop_iter=steps * 7 // 10
)
strategy.check_sanity(splats, optimizers)
state = strategy.initialize_state(scene_scale=data.scene_extent)


def draw(index: int) -> tuple[torch.Tensor, dict]:
    camera = data.cameras[index]
    pose = torch.tensor(camera.world_to_camera, dtype=torch.float32)[None]
    lens = torch.tensor(camera.K, dtype=torch.float32)[None]
    means, quats = splats["means"], splats["quats"]
    scales, opacities = splats["scales"].exp(), splats["opacities"].sigmoid()
    view = (pose, lens, camera.width, camera.height)
    colors, _, info = gausset.rasterization(
        means, quats, scales, opacities, splats["sh"], *view, sh_degree=2, packed=False
    )
    return colors[0], info


images = [torch.tensor(data.image(index)[..., :3], dtype=torch.float32) / 255 for index in range(len(data))]
for step in range(steps):
    index = int(np.random.default_rng(step).choice(data.train))
    image, info = draw(index)
    strategy.step_pre_backward(splats, optimizers, state, step, info)
    loss = l1_ssim(image, images[index])
    loss.backward()
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    strategy.step_post_backward(splats, optimizers, state, step, info)
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}, {len(splats['means'])} splats")

with torch.no_grad():
    errors = [(draw(int(index))[0].clamp(0, 1) - images[index]).square().mean() for index in data.test]
    print(f"held-out PSNR {-10 * torch.stack(errors).log10().mean().item():.2f} dB")
    arrays = [splats[name].numpy() for name in ("means", "scales", "quats", "opacities", "sh")]
    gausset.save(gausset.Splats(*arrays), out)
