"""Projection of splats in torch, with the names and shapes of gsplat: any float type, every camera of gsplat's EWA
splatting, covariances in place of quaternions and scales, gradients of any order.

The kernels behind `gausset.rasterization` are faster. Shapes: `...` batch dimensions, `C` views, `N` splats.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._errors import ArgumentError
from ._formulas import quat_scale_to_covar_preci
from ._tensors import without_autocast

CAMERA_MODELS = ("pinhole", "ortho", "fisheye")
LEAST_ALPHA = 1 / 255
# A splat of opacity 1 falls below the least alpha at this many standard deviations.
_EXTENT = 3.33


def _refuse(message: str) -> ArgumentError:
    return ArgumentError(message, "argument")


@without_autocast
def world_to_cam(means: Tensor, covars: Tensor, viewmats: Tensor) -> tuple[Tensor, Tensor]:
    """Means (..., C, N, 3) and covariances (..., C, N, 3, 3) in the axes of each camera, from `means` (..., N, 3),
    `covars` (..., N, 3, 3) and `viewmats` (..., C, 4, 4)."""
    rotation = viewmats[..., :3, :3]
    moved = means[..., None, :, :] @ rotation.transpose(-1, -2) + viewmats[..., None, :3, 3]
    rotation = rotation[..., None, :, :]
    return moved, rotation @ covars[..., None, :, :, :] @ rotation.transpose(-1, -2)


@without_autocast
def proj(
    means: Tensor, covars: Tensor, Ks: Tensor, width: int, height: int, camera_model: str = "pinhole"
) -> tuple[Tensor, Tensor]:
    """Means (..., C, N, 2) and covariances (..., C, N, 2, 2) on the image, px, from those in the axes of the camera:
    `J Σ Jᵀ` (Zwicker et al. 2001). `Ks` (..., C, 3, 3)."""
    if camera_model not in CAMERA_MODELS:
        raise _refuse(f"camera_model: {camera_model!r} (expected one of {', '.join(CAMERA_MODELS)})")
    x, y, z = means.unbind(-1)
    fx, fy, cx, cy = (Ks[..., i, j, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    zero = torch.zeros_like(z)
    if camera_model == "ortho":
        u, v = fx * x + cx, fy * y + cy
        rows = (fx + zero, zero, zero, zero, fy + zero, zero)
    elif camera_model == "fisheye":
        # Equidistant: the distance from the principal point is the angle to the axis.
        square = (x * x + y * y).clamp(min=1e-14)
        radius = square.sqrt()
        scale = torch.atan2(radius, z) / radius
        slope = 1 / (square + z * z)
        bend = (z * slope - scale) / square
        u, v = fx * x * scale + cx, fy * y * scale + cy
        rows = (
            fx * (scale + x * x * bend), fx * x * y * bend, -fx * x * slope,
            fy * x * y * bend, fy * (scale + y * y * bend), -fy * y * slope,
        )  # fmt: skip
    else:
        u, v = fx * x / z + cx, fy * y / z + cy
        # Far outside the image, the derivative is that at 15 % of its size beyond the border.
        a = torch.minimum(torch.maximum(x / z, -cx / fx - 0.15 * width / fx), (1.15 * width - cx) / fx)
        b = torch.minimum(torch.maximum(y / z, -cy / fy - 0.15 * height / fy), (1.15 * height - cy) / fy)
        rows = (fx / z, zero, -fx * a / z, zero, fy / z, -fy * b / z)
    jacobian = torch.stack(rows, -1).reshape(*z.shape, 2, 3)
    return torch.stack([u, v], -1), jacobian @ covars @ jacobian.transpose(-1, -2)


def full_covars(covars: Tensor) -> Tensor:
    """Matrices (..., 3, 3) from xx, xy, xz, yy, yz, zz (..., 6)."""
    return covars[..., [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(*covars.shape[:-1], 3, 3)


@without_autocast
def fully_fused_projection(
    means: Tensor,
    covars: Tensor | None,
    quats: Tensor | None,
    scales: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    eps2d: float = 0.3,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    packed: bool = False,
    sparse_grad: bool = False,
    calc_compensations: bool = False,
    camera_model: str = "pinhole",
    opacities: Tensor | None = None,
    *,
    least_compensation: float = 0.0,
) -> tuple[Tensor | None, ...]:
    """Splats on the images: `radii` (..., C, N, 2) in whole px, 0 = not drawn, `means2d` (..., C, N, 2), `depths`
    (..., C, N), `conics` (..., C, N, 3), and `compensations` (..., C, N) of opacities, or None.

    `covars` (..., N, 6) replaces `quats` (..., N, 4) and `scales` (..., N, 3). `opacities` (..., N) give tighter radii.
    With `packed`, the drawn splats only: `batch_ids`, `camera_ids`, `gaussian_ids` (nnz,), `indptr` (views + 1,), and then
    the tensors above in rows (nnz, ...).
    """
    if sparse_grad:
        raise _refuse("sparse_grad=True is not supported here (rasterization has it)")
    if covars is not None:
        matrices = full_covars(covars)
    elif quats is not None and scales is not None:
        found, _ = quat_scale_to_covar_preci(quats, scales, compute_preci=False)
        assert found is not None
        matrices = found
    else:
        raise _refuse("covars, or quats and scales, are required")
    means, matrices = world_to_cam(means, matrices, viewmats)
    depths = means[..., 2]
    is_drawn = (depths > near_plane) & (depths < far_plane)
    # Splats that are not drawn have finite values, so that their gradients are 0 and not NaN.
    means = means.where(is_drawn[..., None], means.new_tensor([0.0, 0.0, 1.0]))
    means2d, flat = proj(means, matrices, Ks, width, height, camera_model)

    a, b, c = flat[..., 0, 0], flat[..., 0, 1], flat[..., 1, 1]
    sharp = a * c - b * b
    a, c = a + eps2d, c + eps2d
    det = (a * c - b * b).clamp(min=1e-10)
    conics = torch.stack([c, -b, a], -1) / det[..., None]
    compensations = None
    if calc_compensations:
        compensations = (sharp / det).clamp(min=max(least_compensation**2, 1e-12)).sqrt()

    with torch.no_grad():
        extent = torch.full_like(a, _EXTENT)
        if opacities is not None:
            seen = opacities[..., None, :] * (1.0 if compensations is None else compensations)
            is_drawn = is_drawn & (seen >= LEAST_ALPHA)
            extent = extent.minimum((2 * (seen / LEAST_ALPHA).clamp(min=1).log()).sqrt())
        radii = (extent[..., None] * torch.stack([a, c], -1).sqrt()).ceil()
        is_inside = (means2d + radii > 0) & (means2d - radii < means2d.new_tensor([width, height]))
        is_drawn = is_drawn & is_inside.all(-1) & (radii > radius_clip).any(-1) & radii.isfinite().all(-1)
        radii = radii.where(is_drawn[..., None], radii.new_zeros(())).to(torch.int32)
    if not packed:
        return radii, means2d, depths, conics, compensations

    views, count = viewmats.shape[-3], means.shape[-2]
    rows = torch.where(is_drawn.reshape(-1))[0]
    images = torch.div(rows, count, rounding_mode="floor")
    batches = torch.div(images, views, rounding_mode="floor")
    indptr = torch.bincount(images, minlength=math.prod(is_drawn.shape[:-1])).cumsum(0)
    tensors = (radii, means2d, depths, conics, compensations)
    return (
        batches,
        images % views,
        rows % count,
        torch.cat([indptr.new_zeros(1), indptr]).to(torch.int32),
        *(t if t is None else t.reshape(is_drawn.numel(), *t.shape[is_drawn.dim() :])[rows] for t in tensors),
    )
