"""Gaussian fields with gradients by torch, on the CPU.

`f(x) = Σ_i w_i exp(-½ ‖L_i⁻¹ (x - µ_i)‖²)`, with L lower triangular: a function of space, learned from samples of its
values or gradients. Formulas, files and fits are those of `gausset field` (`docs/reference/field.md`).

Shapes: `...` are any dimensions, `N` Gaussians, `B` points. Dtypes are f32 or f64, one for points and parameters.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.autograd import Function, grad

from . import _gausset
from ._errors import ArgumentError
from ._splats import Path
from ._train import Progress

_DTYPES = (torch.float32, torch.float64)
# What a file says besides the parameters.
_PROPERTIES = ("weight_mode", "covariance", "bounds", "offset", "scale", "world_from_model", "peak", "grid")


def _refuse(message: str) -> ArgumentError:
    return ArgumentError(message, "argument")


def _array(value: Tensor) -> Any:
    return value.detach().contiguous().numpy()


def _formula(points: Tensor, means: Tensor, chol: Tensor, weights: Tensor, mode: str, order: int) -> Tensor:
    """Values, gradients or Hessians in plain torch, with B x N tensors: for derivatives that Rust does not have."""
    if mode == "softplus":
        weights = torch.logaddexp(weights, torch.zeros_like(weights))
    elif mode == "sigmoid":
        weights = torch.sigmoid(weights)
    d = points[:, None] - means
    v0 = d[..., 0] * torch.exp(-chol[:, 0])
    v1 = (d[..., 1] - chol[:, 1] * v0) * torch.exp(-chol[:, 2])
    v2 = (d[..., 2] - chol[:, 3] * v0 - chol[:, 4] * v1) * torch.exp(-chol[:, 5])
    found = (torch.exp(-0.5 * (v0 * v0 + v1 * v1 + v2 * v2)) * weights).sum(1)
    if order > 0:
        (found,) = grad(found.sum(), points, create_graph=True)
    if order > 1:
        found = torch.stack([grad(found[:, k].sum(), points, create_graph=True)[0] for k in range(3)], 1)
    return found


def _apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Views that are nodes of their own: tensors may depend on each other, and partial derivatives must not see it."""
    return [value.view_as(value).requires_grad_() for value in tensors]


def _evaluate(points: Tensor, means: Tensor, chol: Tensor, weights: Tensor, mode: str, order: int) -> Tensor:
    """Values (B,) of order 0, gradients (B, 3) of order 1, Hessians (B, 3, 3) of order 2, without a graph."""
    parameters = _array(means), _array(chol), _array(weights)
    return torch.from_numpy(_gausset.field_evaluate(_array(points), parameters, mode, order))


def _vjp(
    points: Tensor, means: Tensor, chol: Tensor, weights: Tensor, upstream: Tensor, mode: str, order: int
) -> tuple[Tensor, ...]:
    """Gradients by means, chol and weights of the sum of `upstream` times values (order 0) or gradients (order 1)."""
    parameters = _array(means), _array(chol), _array(weights)
    found = _gausset.field_vjp(_array(points), parameters, mode, order, _array(upstream))
    return tuple(map(torch.from_numpy, found))


class _Evaluate(Function):
    """`_evaluate` with derivatives."""

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, means: Tensor, chol: Tensor, weights: Tensor, mode: str, order: int
    ) -> Tensor:
        ctx.save_for_backward(points, means, chol, weights)
        ctx.rule = (mode, order)
        return _evaluate(points, means, chol, weights, mode, order)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (mode, order), again = ctx.rule, torch.is_grad_enabled()
        if order == 2:
            with torch.enable_grad():
                points, means, chol, weights = inputs = _apart(ctx.saved_tensors)
                found = grad(_formula(points, means, chol, weights, mode, order), inputs, upstream, create_graph=again)
            return (*found, None, None)
        # Without a graph the functions themselves: a node of autograd costs as much as the Gaussians of a small field.
        evaluate, vjp = (_Evaluate.apply, _Vjp.apply) if again else (_evaluate, _vjp)
        points, means, chol, weights = ctx.saved_tensors
        of_points: Tensor | None = None
        of_parameters: tuple[Tensor | None, ...] = (None, None, None)
        if ctx.needs_input_grad[0]:
            of_points = evaluate(points, means, chol, weights, mode, order + 1) * upstream[:, None]
            of_points = of_points if order == 0 else of_points.sum(-1)
        if any(ctx.needs_input_grad[1:4]):
            of_parameters = vjp(points, means, chol, weights, upstream, mode, order)
        return (of_points, *of_parameters, None, None)


class _Vjp(Function):
    """`_vjp` with derivatives."""

    @staticmethod
    def forward(
        ctx: Any,
        points: Tensor,
        means: Tensor,
        chol: Tensor,
        weights: Tensor,
        upstream: Tensor,
        mode: str,
        order: int,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(points, means, chol, weights, upstream)
        ctx.rule = (mode, order)
        return _vjp(points, means, chol, weights, upstream, mode, order)

    @staticmethod
    def backward(ctx: Any, *of_parameters: Tensor | None) -> tuple[Tensor | None, ...]:
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            points, means, chol, weights, upstream = inputs = _apart(ctx.saved_tensors)
            values = _formula(points, means, chol, weights, *ctx.rule)
            vjp = grad(values, (means, chol, weights), upstream, create_graph=True)
            found = grad(vjp, inputs, of_parameters, create_graph=again)
        return (*found, None, None)


class GaussianField(nn.Module):
    """A field of N Gaussians. Calling it with points (..., 3) gives its values (...).

    | parameter | shape  | raw → meaning                                                                        |
    |-----------|--------|--------------------------------------------------------------------------------------|
    | `means`   | (N, 3) | µ, a length                                                                          |
    | `chol`    | (N, 6) | `L00 L10 L11 L20 L21 L22`: lengths; 0, 2, 5 are natural logs, with `diag` the rest 0 |
    | `weights` | (N,)   | `w = raw`, `softplus(raw)` or `sigmoid(raw)`                                         |

    A new field has means drawn in the box `bounds` = (lo, hi), spheres half as wide as their distance, raw weights 0.

    Gradients to points and parameters of values and of `gradient` come from Rust, also where torch differentiates twice
    (`torch.autograd.grad(field(x).sum(), x, create_graph=True)`). What Rust does not have is computed in plain torch,
    with B x N tensors: gradients of `hessian`, and second derivatives by the parameters.
    """

    means: nn.Parameter
    chol: nn.Parameter
    weights: nn.Parameter
    weight_mode: str
    """`raw`, `softplus` or `sigmoid`."""
    covariance: str
    """`full`, or `diag`: axes along x, y and z."""
    bounds: tuple[list[float], list[float]] | None
    """The box (lo, hi) of the samples, if known. Values exist outside, too."""
    offset: float
    scale: float
    """Values are `offset + scale f(x)`."""
    world_from_model: list[list[float]]
    """Affine map (3, 4) from the coordinates of points to the world, for fields of volumes."""
    metrics: dict[str, Any] | None
    """Of a fit: steps, seconds and errors, as `gausset field fit --json` prints them."""

    def __init__(
        self,
        num_gaussians: int,
        bounds: tuple[Sequence[float], Sequence[float]],
        covariance: str = "full",
        weight_mode: str = "raw",
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        count = _whole("num_gaussians", num_gaussians, 1, 50_000_000)
        box = _box(bounds)
        lo, hi = torch.tensor(box, dtype=torch.float64)
        if not (lo < hi).all():
            raise _refuse(f"bounds: {box} (expected lo < hi)")
        random = torch.Generator().manual_seed(_whole("seed", seed, 0, 2**63 - 1))
        means = lo + (hi - lo) * torch.rand(count, 3, generator=random, dtype=torch.float64)
        chol = torch.zeros(count, 6, dtype=torch.float64)
        chol[:, [0, 2, 5]] = math.log(0.5 * float((hi - lo).prod() / count) ** (1 / 3))
        file = {"weight_mode": weight_mode, "covariance": covariance, "bounds": box}
        self._set((means, chol, torch.zeros(count, dtype=torch.float64)), file, dtype)

    @classmethod
    def from_parameters(
        cls,
        means: Tensor,
        chol: Tensor,
        weights: Tensor,
        *,
        weight_mode: str = "raw",
        covariance: str = "full",
        bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    ) -> GaussianField:
        """A field with copies of these raw parameters, in the dtype of `means`."""
        for name, value, tail in (("means", means, [3]), ("chol", chol, [6]), ("weights", weights, [])):
            if not isinstance(value, Tensor) or value.dtype not in _DTYPES or value.dtype != means.dtype:
                found = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise _refuse(f"{name}: {found} (expected tensors of float32 or of float64)")
            if value.dim() == 0 or len(value) == 0 or list(value.shape) != [len(means), *tail]:
                expected = ", ".join(["N", *map(str, tail)])
                raise _refuse(f"{name}: shape {list(value.shape)} (expected [{expected}], N at least 1)")
            if not value.isfinite().all():
                raise _refuse(f"{name}: not finite")
        box = None if bounds is None else _box(bounds)
        file = {"weight_mode": weight_mode, "covariance": covariance, "bounds": box}
        return cls._of((means, chol, weights), file, means.dtype)

    @classmethod
    def _of(cls, parameters: Sequence[Any], file: dict[str, Any], dtype: torch.dtype) -> GaussianField:
        field = cls.__new__(cls)
        nn.Module.__init__(field)
        field._set(parameters, file, dtype)
        return field

    def _set(self, parameters: Sequence[Any], file: dict[str, Any], dtype: torch.dtype) -> None:
        _check_dtype(dtype)
        for name, known in (("weight_mode", ("raw", "softplus", "sigmoid")), ("covariance", ("full", "diag"))):
            if file[name] not in known:
                raise _refuse(f"{name}: {file[name]!r} (expected one of {', '.join(known)})")
        copies = (torch.as_tensor(value).detach().to("cpu", dtype, copy=True) for value in parameters)
        self.means, self.chol, self.weights = map(nn.Parameter, copies)
        identity = [[float(row == column) for column in range(4)] for row in range(3)]
        self.offset, self.scale, self.world_from_model = 0.0, 1.0, identity
        self.peak, self.grid, self.metrics = 1.0, None, None
        for name, value in file.items():
            setattr(self, name, value)

    @classmethod
    def load(cls, path: Path, *, dtype: torch.dtype = torch.float32) -> GaussianField:
        """Reads a field file (`.safetensors`). Points are model coordinates; `world_from_model` maps to the world."""
        parameters, file = _gausset.field_load(path)
        return cls._of(parameters, file, dtype)

    def save(self, path: Path, *, force: bool = False) -> int:
        """Writes a field file, for `load` and `gausset field`; returns its length in bytes. `force` replaces a file.

        Numbers are stored as f32 if that is accurate enough: coordinates to a thousandth of a standard deviation.
        """
        if pathlib.Path(path).suffix.lower() != ".safetensors":
            raise _refuse(f"path: {str(path)!r} (expected a name that ends in .safetensors)")
        means, chol, weights = (_array(value.double()) for value in self._raw())
        file = {name: getattr(self, name) for name in _PROPERTIES}
        return _gausset.field_save(path, (means, chol, weights), file, force)

    @classmethod
    def fit(
        cls,
        points: Tensor | ArrayLike,
        values: Tensor | ArrayLike,
        *,
        gaussians: int = 1000,
        max_gaussians: int | None = None,
        steps: int | None = None,
        covariance: str = "full",
        weight_mode: str = "raw",
        solver: str = "auto",
        holdout: float = 0.1,
        validation: float = 0.05,
        batches: int | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        progress: Progress | None = None,
    ) -> GaussianField:
        """Fits a field to `values` (B,) at `points` (B, 3), as `gausset field fit` with these options.

        `solver` is `adam`, `lm` (Levenberg-Marquardt) or `auto`: `lm` up to 30 Gaussians. `steps` is by default 400,
        with `lm` at most 100. With `max_gaussians` above `gaussians`, Gaussians are split. `holdout` is the share of
        samples for the scores in `metrics`, `validation` that for early stopping.

        The interpreter is released. Ctrl-C, or an exception of `progress(step, steps, loss)`, stops the fit; it is
        raised then, and the fit is lost.
        """
        keywords = {
            "gaussians": _whole("gaussians", gaussians, 1, 50_000_000),
            "max_gaussians": None if max_gaussians is None else _whole("max_gaussians", max_gaussians, 0, 2**32 - 1),
            "steps": None if steps is None else _whole("steps", steps, 0, 100_000_000),
            "covariance": covariance,
            "weight_mode": weight_mode,
            "solver": solver,
            "holdout": float(holdout),
            "validation": float(validation),
            "batches": None if batches is None else _whole("batches", batches, 1, 64),
            "seed": _whole("seed", seed, 0, 2**64 - 1),
        }
        _check_dtype(dtype)
        samples = _samples("points", points, 3), _samples("values", values)
        parameters, file, metrics = _gausset.field_fit(*samples, keywords, progress)
        field = cls._of(parameters, file, dtype)
        field.metrics = json.loads(metrics)
        return field

    def __len__(self) -> int:
        return len(self.weights)

    def extra_repr(self) -> str:
        return f"{len(self)}, covariance={self.covariance!r}, weight_mode={self.weight_mode!r}"

    def forward(self, points: Tensor) -> Tensor:
        """Values (...) at points (..., 3)."""
        found = self._evaluate(points, 0)
        return found if self.offset == 0 else found + self.offset

    def gradient(self, points: Tensor) -> Tensor:
        """Gradients (..., 3) of the values, per unit of length. A loss on them trains the field."""
        return self._evaluate(points, 1)

    def hessian(self, points: Tensor) -> Tensor:
        """Hessians (..., 3, 3) of the values, symmetric."""
        return self._evaluate(points, 2)

    def _raw(self) -> tuple[Tensor, Tensor, Tensor]:
        chol: Tensor = self.chol
        if self.covariance == "diag":
            chol = chol * chol.new_tensor([1, 0, 1, 0, 0, 1])
        return self.means, chol, self.weights

    def _evaluate(self, points: Tensor, order: int) -> Tensor:
        means, chol, weights = self._raw()
        if not isinstance(points, Tensor):
            raise _refuse(f"points: {type(points).__name__} (expected a tensor)")
        if points.dim() == 0 or points.shape[-1] != 3:
            raise _refuse(f"points: shape {list(points.shape)} (expected [..., 3])")
        dtype = means.dtype
        if dtype not in _DTYPES:
            raise _refuse(f"means: {dtype} (expected torch.float32 or torch.float64)")
        for name, value in (("points", points), ("means", means), ("chol", chol), ("weights", weights)):
            if value.dtype != dtype or value.device.type != "cpu":
                raise _refuse(f"{name}: {value.dtype} on {value.device} (expected {dtype} on cpu, as the means)")
        shape = points.shape
        found: Tensor = _Evaluate.apply(
            points if len(shape) == 2 else points.reshape(-1, 3), means, chol, weights, self.weight_mode, order
        )
        found = found if len(shape) == 2 else found.reshape(shape[:-1] + found.shape[1:])
        return found if self.scale == 1 else found * self.scale


def _check_dtype(dtype: Any) -> None:
    if dtype not in _DTYPES:
        raise _refuse(f"dtype: {dtype} (expected torch.float32 or torch.float64)")


def _whole(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise _refuse(f"{name}: {value!r} (expected a whole number, {least} to {most})")
    return int(value)


def _box(bounds: Any) -> tuple[list[float], list[float]]:
    array = _samples("bounds", bounds, 3)
    if array.shape != (2, 3) or not np.isfinite(array).all() or (array[0] > array[1]).any():
        raise _refuse(f"bounds: {array.tolist()} (expected finite (lo, hi) with lo <= hi)")
    lo, hi = array.tolist()
    return lo, hi


def _samples(name: str, value: Any, *tail: int) -> NDArray[np.float64]:
    """An f64 array in C order of shape (B, *tail)."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise _refuse(f"{name}: not an array of numbers ({error})") from None
    if array.ndim != 1 + len(tail) or array.shape[1:] != tail:
        expected = ", ".join(["n", *map(str, tail)])
        raise _refuse(f"{name}: shape {array.shape} (expected ({expected}))")
    return array
