"""Masks of adaptive density control for training loops of one's own (Kerbl et al. 2023, section 5.2), of numpy arrays or
torch tensors. Comparisons with NaN are false.

```text
grows = |grad| > grad_threshold        splits = grows and max(exp(log_scales)) > scale_threshold
prunes = opacity < min_opacity         or max(exp(log_scales)) > max_scale         or radius > max_radius
```
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from ._errors import ArgumentError

__all__ = ["densification_mask", "pruning_mask"]

# `numpy.ndarray` or `torch.Tensor`; torch is not imported here.
Array = Any


def densification_mask(
    grads: Array, log_scales: Array, grad_threshold: float = 2e-4, scale_threshold: float = 0.01
) -> tuple[Array, Array]:
    """Splats to clone and splats to split: two masks (N,) of the same kind, never both true.

    `grads` (N,), or (N, D) of which the length counts: the mean gradient of a splat on the screen. `log_scales` (N, 3):
    natural logs of scene units. `scale_threshold`, in scene units: 0.01 times the extent of the scene in the paper.
    """
    modules = _check({"grads": grads, "log_scales": log_scales})
    lengths = (grads * grads).sum(-1) ** 0.5 if grads.ndim == 2 else grads
    grows = lengths > grad_threshold
    large = (modules.exp(log_scales) > scale_threshold).any(-1)
    return grows & ~large, grows & large


def pruning_mask(
    opacities: Array,
    log_scales: Array,
    radii: Array | None = None,
    min_opacity: float = 0.005,
    max_scale: float = math.inf,
    max_radius: float = math.inf,
) -> Array:
    """Splats to remove: a mask (N,) of the same kind.

    `opacities` (N,) or (N, 1) in 0..1; `log_scales` (N, 3): natural logs of scene units; `radii` (N,): largest radius on
    the screen, in the unit of `max_radius`. `max_scale`, in scene units: 0.1 times the extent of the scene in the paper.
    """
    given = {"opacities": opacities, "log_scales": log_scales}
    modules = _check(given if radii is None else {**given, "radii": radii})
    flat = opacities.reshape(-1)
    if ((flat < 0) | (flat > 1)).any():
        raise ArgumentError("opacities: values outside 0..1 (of logits, take the sigmoid)", "argument")
    mask = flat < min_opacity
    if max_scale < math.inf:
        mask = mask | (modules.exp(log_scales) > max_scale).any(-1)
    if max_radius < math.inf:
        if radii is None:
            raise ArgumentError(f"radii: None (expected with max_radius {max_radius})", "argument")
        mask = mask | (radii.reshape(-1) > max_radius)
    return mask


def _check(arrays: dict[str, Any]) -> Any:
    """Checks kinds and shapes, and returns the module of the arrays."""
    torch = sys.modules.get("torch")
    for modules, kind in ((np, np.ndarray), (torch, getattr(torch, "Tensor", None))):
        if kind is not None and all(isinstance(value, kind) for value in arrays.values()):
            break
    else:
        kinds = ", ".join(type(value).__name__ for value in arrays.values())
        raise ArgumentError(f"{', '.join(arrays)}: {kinds} (expected numpy arrays or torch tensors)", "argument")
    count = len(arrays["log_scales"]) if arrays["log_scales"].ndim else 0
    for name, value in arrays.items():
        shape, expected = list(value.shape), [count, 3] if name == "log_scales" else [count]
        column = len(shape) == 2 and (name == "grads" or shape[1] == 1)
        if shape != expected and not (column and shape[0] == count and name != "log_scales"):
            raise ArgumentError(f"{name}: shape {shape} (expected {expected})", "argument")
    return modules
