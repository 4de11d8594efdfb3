"""Tensors of callers: checks, and arrays of numpy that share their memory."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from ._errors import ArgumentError, GaussetWarning


def refuse(message: str) -> ArgumentError:
    return ArgumentError(message, "argument")


def tensor(name: str, value: Any, *tail: int | None) -> Tensor:
    """Checks type and the last dimensions; `None` is any size."""
    if not isinstance(value, Tensor):
        raise refuse(f"{name}: {type(value).__name__} (expected a tensor)")
    if not value.is_floating_point():
        raise refuse(f"{name}: {value.dtype} (expected a floating-point tensor)")
    if value.layout is not torch.strided or value.device.type == "meta":
        raise refuse(f"{name}: {value.layout} on {value.device} (expected a dense tensor with data)")
    found = tuple(value.shape)
    if len(found) < len(tail) or any(t not in (None, f) for t, f in zip(tail, found[len(found) - len(tail) :])):
        expected = ", ".join(["..."] + ["*" if t is None else str(t) for t in tail])
        raise refuse(f"{name}: shape {list(found)} (expected [{expected}])")
    return value


def shape(name: str, value: Tensor, *expected: int) -> None:
    if tuple(value.shape) != expected:
        raise refuse(f"{name}: shape {list(value.shape)} (expected {list(expected)})")


_has_warned = False


def on_cpu(value: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The tensor on the CPU, within the graph."""
    global _has_warned
    if value.device.type != "cpu" and not _has_warned:
        _has_warned = True
        warnings.warn(f"tensors on {value.device} are copied to the CPU and back", GaussetWarning, stacklevel=4)
    return value.to(device="cpu", dtype=dtype)


def array(value: Tensor) -> Any:
    return value.detach().contiguous().numpy()


def given(value: Tensor | None) -> Any:
    return None if value is None else array(value)
