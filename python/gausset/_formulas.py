"""Formulas of splats in torch that strategies and `gausset.gsplat` share."""

from __future__ import annotations

import torch
from torch import Tensor

from ._tensors import without_autocast


def rotation_matrices(quats: Tensor) -> Tensor:
    """Rotations (..., 3, 3) of `quats` (..., 4) `w x y z` of any length."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


@without_autocast
def quat_scale_to_covar_preci(
    quats: Tensor,
    scales: Tensor,
    compute_covar: bool = True,
    compute_preci: bool = True,
    triu: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Covariances `R S² Rᵀ` and their inverses, (..., 3, 3), from `quats` (..., 4) `w x y z` of any length and `scales`
    (..., 3). With `triu`, the entries xx, xy, xz, yy, yz, zz."""
    rotation = rotation_matrices(quats)

    def matrix(factors: Tensor) -> Tensor:
        half = rotation * factors[..., None, :]
        full: Tensor = half @ half.transpose(-1, -2)
        upper = torch.triu_indices(3, 3)
        return full[..., upper[0], upper[1]] if triu else full

    return matrix(scales) if compute_covar else None, matrix(scales.reciprocal()) if compute_preci else None


@without_autocast
def compute_relocation(
    opacities: Tensor, scales: Tensor, ratios: Tensor, binoms: Tensor, min_opacity: float | None = 0.005
) -> tuple[Tensor, Tensor]:
    """Opacities (N,) and scales (N, 3) of splats that stand for `ratios` copies each (Kheradmand et al. 2024, eq. 9).
    `binoms` (M, M) are the binomial coefficients; ratios are at most M. The new opacities are at least `min_opacity` and
    below 1, and the scales fit them; None, as in gsplat 1.5, leaves them as they are."""
    most = binoms.shape[0]
    ratios = ratios.clamp(min=1, max=most).long()
    # Terms of either sign nearly cancel.
    old, table = opacities.double(), binoms.double()
    new = 1 - (1 - old) ** (1 / ratios)
    if min_opacity is not None:
        new = new.clamp(min=min_opacity, max=1 - torch.finfo(torch.float32).eps)
    k = torch.arange(most, dtype=torch.float64, device=table.device)
    # Sums over i of binom(i, k), for each number of terms.
    terms = torch.where(k <= k[:, None], table, table.new_zeros(())).cumsum(0)
    signs = torch.pow(-1.0, k) / k.add(1).sqrt()
    sums = (terms[ratios - 1] * signs * new[:, None] ** (k + 1)).sum(-1)
    return new.to(opacities.dtype), (old / sums)[:, None].to(scales.dtype) * scales
