"""Losses with gradients by torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import _gausset
from ._errors import ArgumentError


class _L1Ssim(Function):
    @staticmethod
    def forward(ctx: Any, pred: Tensor, target: Tensor, weight: float) -> Tensor:
        loss, gradient = _gausset.l1_ssim(
            pred.detach().contiguous().numpy(), target.detach().contiguous().numpy(), weight
        )
        ctx.save_for_backward(torch.from_numpy(gradient))
        return torch.tensor(loss, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return upstream * ctx.saved_tensors[0], None, None


def l1_ssim(pred: Tensor, target: Tensor, ssim_lambda: float = 0.2) -> Tensor:
    """`(1 - λ) L1 + λ (1 - SSIM)` of images (..., H, W, 3), the mean over images. The gradient goes to `pred`."""
    if pred.shape != target.shape or pred.dim() < 3 or pred.shape[-1] != 3:
        found = f"{list(pred.shape)}, {list(target.shape)}"
        raise ArgumentError(f"pred, target: shapes {found} (expected equal, [..., H, W, 3])", "argument")
    if not 0.0 <= ssim_lambda <= 1.0:
        raise ArgumentError(f"ssim_lambda: {ssim_lambda} (expected 0..1)", "argument")
    images = (value.to("cpu", torch.float32).reshape(-1, *value.shape[-3:]) for value in (pred, target))
    losses = [_L1Ssim.apply(a, b, float(ssim_lambda)) for a, b in zip(*images)]
    return torch.stack(losses).mean().to(pred.device)
