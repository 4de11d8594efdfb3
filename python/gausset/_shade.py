"""Colours of splats: given channels, or spherical harmonics seen from a view."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import _gausset, _sh
from ._errors import whole
from ._tensors import array, on_cpu, refuse, shape, tensor, without_autocast


class _Shade(Function):
    """Colours (N, 3) from SH coefficients (N, K, 3), seen from `origin` (3,)."""

    @staticmethod
    def forward(
        ctx: Any,
        means: Tensor,
        origin: Tensor,
        coefficients: Tensor,
        degree: int,
        clamped: bool,
        mask: NDArray[np.bool_] | None,
    ) -> Tensor:
        ctx.save_for_backward(means, coefficients)
        ctx.rule = (origin.tolist(), degree, clamped)
        ctx.mask = mask
        return torch.from_numpy(_gausset.sh_colors(array(means), array(coefficients), ctx.rule, mask))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        means, coefficients = ctx.saved_tensors
        found = _gausset.sh_colors_vjp(array(means), array(coefficients), ctx.rule, ctx.mask, array(gradient))
        of_means, of_coefficients = map(torch.from_numpy, found)
        of_origin = -of_means.sum(0, dtype=torch.float64).to(torch.float32)
        return of_means, of_origin, of_coefficients, None, None, None


def _kernel_takes(coefficients: Tensor, degree: int) -> bool:
    return degree <= 3 and coefficients.shape[-1] == 3 and coefficients.dtype == torch.float32


class Features:
    """What is blended: channels (..., [C,] N, D), or with a degree SH coefficients ([..., [C,]] N, K, D)."""

    def __init__(
        self, name: str, values: Tensor, degree: int | None, batch: tuple[int, ...], views: int, count: int
    ) -> None:
        self.degree = degree
        if degree is None:
            tensor(name, values, count, None)
            if tuple(values.shape[:-2]) not in (batch, (*batch, views)):
                raise refuse(f"{name}: shape {list(values.shape)} (expected {[*batch, count, 'D']})")
        else:
            tensor(name, values, count, None, None)
            self.degree = whole("sh_degree", degree, 0, _sh.MOST_DEGREE)
            needed = (self.degree + 1) ** 2
            if values.shape[-2] < needed:
                found = f"{values.shape[-2]} SH coefficients"
                raise refuse(f"{name}: {found} (expected at least {needed} for sh_degree {degree})")
            if tuple(values.shape[:-3]) not in ((), batch, (*batch, views)):
                raise refuse(f"{name}: shape {list(values.shape)} (expected {[count, *values.shape[-2:]]})")
        self.channels = values.shape[-1]
        if self.channels == 0:
            raise refuse(f"{name}: no channel (expected at least 1)")
        # One set of values for all batches and views has the shape (1, 1, N, ...).
        tail = 2 if degree is None else 3
        leading = values.shape[: values.dim() - tail]
        batches, own = (1, 1) if len(leading) == 0 else (leading[: len(batch)].numel(), leading[len(batch) :].numel())
        self.values = values.reshape(batches, own, *values.shape[-tail:])

    def prepare(self, work: torch.dtype) -> None:
        self.values = on_cpu(self.values, work)

    def without_nan(self) -> Tensor:
        """Replaces values that are not finite by 0; returns which splats (batches or 1, N) have none."""
        finite = self.values.detach().isfinite()
        self.values = self.values.where(finite, self.values.new_zeros(()))
        return finite.flatten(3).all(-1).all(1)

    def shaded(self, means: Tensor, viewmats: Tensor, visible: Tensor, is_clamped: bool) -> Tensor:
        """Channels (batch * C, N, D) of all views, 0 or more if clamped; of SH, `visible` (batch * C, N) ones only."""
        views, rows = viewmats.shape[1], []
        batches, sets = self.values.shape[:2]
        # The backward pass of an index would write zeros for all other sets.
        flat = self.values.flatten(0, 1).unbind(0) if batches * sets > 1 else (self.values.flatten(0, 2),)
        for k in range(len(visible)):
            b, c = divmod(k, views)
            own = flat[min(b, batches - 1) * sets + min(c, sets - 1)]
            if self.degree is None:
                rows.append(own)
                continue
            pose = viewmats[b, c]
            origin = -(pose[:3, :3].T @ pose[:3, 3])
            if is_clamped and _kernel_takes(own, self.degree):
                rows.append(_Shade.apply(means[b], origin, own, self.degree, True, visible[k].numpy()))
                continue
            found = _sums(self.degree, means[b], origin, own, visible[k]) + 0.5
            rows.append(found.clamp(min=0) if is_clamped else found)
        return torch.stack(rows)


@without_autocast
def spherical_harmonics(
    degrees_to_use: int,
    means: Tensor,
    viewmats: Tensor,
    coeffs: Tensor,
    masks: Tensor | None = None,
    batch_ids: Tensor | None = None,
    camera_ids: Tensor | None = None,
    gaussian_ids: Tensor | None = None,
    viewmats_rs: Tensor | None = None,
) -> Tensor:
    """Sums (..., C, N, D) of SH basis functions, seen from each view. No offset is added and nothing is clamped.

    `means` (..., N, 3), `viewmats` (..., C, 4, 4) world to camera, `coeffs` (N, K, D), `masks` (..., C, N): elsewhere 0.
    With `batch_ids`, `camera_ids` and `gaussian_ids` (nnz,): the sums of these (nnz, D), `coeffs` (nnz, K, D), `masks` (nnz,).
    """
    if viewmats_rs is not None:
        raise refuse("viewmats_rs=a tensor is not supported (global shutter only)")
    degrees_to_use = whole("degrees_to_use", degrees_to_use, 0, _sh.MOST_DEGREE)
    tensor("means", means, None, 3)
    batch, count = tuple(means.shape[:-2]), means.shape[-2]
    tensor("viewmats", viewmats, None, 4, 4)
    views = viewmats.shape[-3]
    shape("viewmats", viewmats, *batch, views, 4, 4)
    ids = (batch_ids, camera_ids, gaussian_ids)
    _check_coefficients(coeffs, degrees_to_use, count if gaussian_ids is None else len(gaussian_ids))
    work = torch.float64 if means.dtype == torch.float64 else torch.float32
    pose = on_cpu(viewmats, work).reshape(-1, 4, 4)
    origins = -(pose[:, :3, :3].transpose(1, 2) @ pose[:, :3, 3:])[..., 0]
    flat, own = on_cpu(means, work).reshape(-1, count, 3), on_cpu(coeffs, work)
    if any(value is not None for value in ids):
        if batch_ids is None or camera_ids is None or gaussian_ids is None:
            raise refuse("batch_ids, camera_ids, gaussian_ids: some are None (expected all or none)")
        directions = flat[batch_ids, gaussian_ids] - origins[batch_ids * views + camera_ids]
        found = _sh.sums(degrees_to_use, directions, own, masks)
        return found.to(device=means.device, dtype=means.dtype)
    if masks is not None:
        shape("masks", masks, *batch, views, count)
        masks = masks.to(device="cpu", dtype=torch.bool).reshape(-1, count)
    parts = []
    for k, origin in enumerate(origins):
        mask = None if masks is None else masks[k]
        parts.append(_sums(degrees_to_use, flat[k // views], origin, own, mask))
    found = torch.stack(parts) if parts else own.new_zeros(0, count, own.shape[-1])
    return found.reshape(*batch, views, count, -1).to(device=means.device, dtype=means.dtype)


@without_autocast
def spherical_harmonics_l0(sh0: Tensor) -> Tensor:
    """The part (N, D) of degree 0: `sh0` (N, 1, D) times the first basis function."""
    tensor("sh0", sh0, 1, None)
    return on_cpu(sh0[..., 0, :], sh0.dtype) * _sh.basis(torch.zeros(3), 0).item()


@without_autocast
def spherical_harmonics_l1_plus(
    degrees_to_use: int, means: Tensor, viewmats: Tensor, shN: Tensor, masks: Tensor | None = None, **ids: Any
) -> Tensor:
    """As `spherical_harmonics` without the part of degree 0: `shN` (N, K - 1, D)."""
    tensor("shN", shN, None, None)
    coeffs = torch.cat([shN.new_zeros(*shN.shape[:-2], 1, shN.shape[-1]), shN], -2)
    return spherical_harmonics(degrees_to_use, means, viewmats, coeffs, masks, **ids)


@without_autocast
def spherical_harmonics_of_directions(
    degrees_to_use: int, dirs: Tensor, coeffs: Tensor, masks: Tensor | None = None
) -> Tensor:
    """As gsplat 1.5's function: `dirs` (..., 3) of any length, `coeffs` (..., K, 3), `masks` (...). Returns (..., 3)."""
    degrees_to_use = whole("degrees_to_use", degrees_to_use, 0, _sh.MOST_DEGREE)
    tensor("dirs", dirs, 3)
    tensor("coeffs", coeffs, None, 3)
    shape("coeffs", coeffs, *dirs.shape[:-1], *coeffs.shape[-2:])
    flat = dirs.reshape(-1, 3)
    own = coeffs.reshape(len(flat), *coeffs.shape[-2:])
    _check_coefficients(own, degrees_to_use, len(flat))
    if masks is not None:
        masks = masks.to(device="cpu", dtype=torch.bool).reshape(-1)
    work = torch.float64 if dirs.dtype == torch.float64 else torch.float32
    flat = on_cpu(flat, work)
    found = _sums(degrees_to_use, flat, flat.new_zeros(3), on_cpu(own, work), masks)
    return found.reshape(dirs.shape).to(device=dirs.device, dtype=dirs.dtype)


def _check_coefficients(coeffs: Tensor, degree: int, count: int) -> None:
    tensor("coeffs", coeffs, None, None)
    if coeffs.shape[0] != count or coeffs.dim() != 3 or coeffs.shape[1] < (degree + 1) ** 2:
        expected = f"[{count}, {(degree + 1) ** 2} or more, D]"
        raise refuse(f"coeffs: shape {list(coeffs.shape)} (expected {expected})")


def _sums(degree: int, means: Tensor, origin: Tensor, coeffs: Tensor, mask: Tensor | None) -> Tensor:
    if _kernel_takes(coeffs, degree):
        own_mask = None if mask is None else mask.contiguous().numpy()
        found: Tensor = _Shade.apply(means, origin, coeffs, degree, False, own_mask)
        return found
    return _sh.sums(degree, means - origin, coeffs, mask)
