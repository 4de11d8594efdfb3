"""gsplat on the CPU: `install()` puts Gausset's functions into an installed gsplat, or serves as `gsplat` without one.

Afterwards gsplat's strategies, its `SelectiveAdam` and training loops run with tensors on the CPU.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Callable

import torch
from torch import Tensor

from ._errors import ArgumentError
from ._rasterization import (
    rasterization,
    set_compat,
    spherical_harmonics,
    spherical_harmonics_of_directions,
)

__all__ = [
    "adam",
    "compute_relocation",
    "install",
    "quat_scale_to_covar_preci",
    "rasterization",
    "set_compat",
    "spherical_harmonics",
    "uninstall",
]

# Submodules that import functions by name.
_SUBMODULES = ("cuda._wrapper", "rendering", "relocation", "strategy.ops", "optimizers.selective_adam")
# What was there before: (module, name, function).
_replaced: list[tuple[ModuleType, str, Any]] = []


def quat_scale_to_covar_preci(
    quats: Tensor,
    scales: Tensor,
    compute_covar: bool = True,
    compute_preci: bool = True,
    triu: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Covariances `R S² Rᵀ` and their inverses, (..., 3, 3), from `quats` (..., 4) `w x y z` of any length and `scales`
    (..., 3). With `triu`, the entries xx, xy, xz, yy, yz, zz."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    rotation = torch.stack([torch.stack(row, -1) for row in rows], -2)

    def matrix(factors: Tensor) -> Tensor:
        half = rotation * factors[..., None, :]
        full = half @ half.transpose(-1, -2)
        upper = torch.triu_indices(3, 3)
        return full[..., upper[0], upper[1]] if triu else full

    return matrix(scales) if compute_covar else None, matrix(1 / scales) if compute_preci else None


def compute_relocation(
    opacities: Tensor, scales: Tensor, ratios: Tensor, binoms: Tensor
) -> tuple[Tensor, Tensor]:
    """Opacities (N,) and scales (N, 3) of splats that stand for `ratios` copies each (Kheradmand et al. 2024, eq. 9).
    `binoms` (M, M) are the binomial coefficients; ratios are at most M."""
    most = binoms.shape[0]
    ratios = ratios.clamp(min=1, max=most).long()
    # Terms of either sign nearly cancel.
    old, table = opacities.double(), binoms.double()
    new = 1 - (1 - old) ** (1 / ratios)
    k = torch.arange(most, dtype=torch.float64)
    # Sums over i of binom(i, k), for each number of terms.
    terms = torch.where(k <= k[:, None], table, table.new_zeros(())).cumsum(0)
    signs = (-1.0) ** k / (k + 1).sqrt()
    sums = (terms[ratios - 1] * signs * new[:, None] ** (k + 1)).sum(-1)
    return new.to(opacities.dtype), (old / sums)[:, None].to(scales.dtype) * scales


@torch.no_grad()
def adam(
    param: Tensor,
    param_grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    valid: Tensor,
    lr: float,
    b1: float,
    b2: float,
    eps: float,
) -> None:
    """Adam without bias correction, in place, on the rows where `valid` (N,) is true."""
    rows = valid.reshape(-1).bool()
    flat = [value.view(len(rows), -1) for value in (param, param_grad, exp_avg, exp_avg_sq)]
    value, gradient, first, second = (part[rows] for part in flat)
    first = b1 * first + (1 - b1) * gradient
    second = b2 * second + (1 - b2) * gradient * gradient
    flat[0][rows] = value - lr * first / (second.sqrt() + eps)
    flat[2][rows], flat[3][rows] = first, second


def _functions(version: tuple[int, ...]) -> dict[str, Callable[..., Any]]:
    """What replaces the functions of a version."""

    def call(*args: Any, **options: Any) -> Any:
        found = rasterization(*args, **{"compat": "1.5", **options})
        if version < (1, 5):
            found[2]["radii"] = found[2]["radii"].amax(-1)
        return found

    is_old = version < (1, 6)
    return {
        "adam": adam,
        "compute_relocation": compute_relocation,
        "quat_scale_to_covar_preci": quat_scale_to_covar_preci,
        "rasterization": call if is_old else rasterization,
        "spherical_harmonics": spherical_harmonics_of_directions if is_old else spherical_harmonics,
    }


def install() -> None:
    """Replaces the functions of gsplat 1.4 to 1.6 in this process. Without gsplat, `import gsplat` finds this module."""
    if _replaced or sys.modules.get("gsplat") is sys.modules[__name__]:
        return
    try:
        package = importlib.import_module("gsplat")
    except ModuleNotFoundError as error:
        if error.name != "gsplat":
            raise
        sys.modules["gsplat"] = sys.modules[__name__]
        return
    text = str(getattr(package, "__version__", "unknown"))
    parts = text.split(".")
    if parts[0] != "1" or parts[1:2] not in (["4"], ["5"], ["6"]):
        raise ArgumentError(f"gsplat {text} (expected 1.4, 1.5 or 1.6)", "argument")
    functions = _functions((1, int(parts[1])))
    modules = [package]
    for name in _SUBMODULES:
        try:
            modules.append(importlib.import_module(f"gsplat.{name}"))
        except ModuleNotFoundError:
            continue
    for module in modules:
        for name, function in functions.items():
            if callable(getattr(module, name, None)):
                _replaced.append((module, name, getattr(module, name)))
                setattr(module, name, function)


def uninstall() -> None:
    """Undoes `install`."""
    while _replaced:
        module, name, function = _replaced.pop()
        setattr(module, name, function)
    if sys.modules.get("gsplat") is sys.modules[__name__]:
        del sys.modules["gsplat"]
