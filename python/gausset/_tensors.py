"""Tensors of callers: checks, and arrays of numpy that share their memory."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ._errors import ArgumentError, GaussetWarning


P = ParamSpec("P")
R = TypeVar("R")


def _is_autocast(device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:  # before torch 2.4
        return bool(torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled())


def without_autocast(function: Callable[P, R]) -> Callable[P, R]:
    """Under `torch.autocast`, runs a function outside it, with tensors of half precision as f32: digits that it drops
    are pixels here."""

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        devices = [device for device in ("cpu", "cuda") if _is_autocast(device)]
        if not devices:
            return function(*arguments, **options)
        with contextlib.ExitStack() as stack:
            for device in devices:
                stack.enter_context(torch.autocast(device, enabled=False))
            return function(*map(_single, arguments), **{name: _single(value) for name, value in options.items()})

    return call


def _single(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if is_half else value


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
        warnings.warn(f"tensors on {value.device} are copied to the CPU and back", GaussetWarning, stacklevel=5)
    return value.to(device="cpu", dtype=dtype)


def array(value: Tensor) -> Any:
    return value.detach().contiguous().numpy()


def given(value: Tensor | None) -> Any:
    return None if value is None else array(value)
