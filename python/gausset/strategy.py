"""Strategies that grow and prune splats during training, with the fields and calls of gsplat 1.6.

`params` has the logs of `scales` (N, 3), the logits of `opacities` (N,), `means` (N, 3) in scene units, `quats` (N, 4) and
any other tensors with a row per splat; `optimizers` has one for each, with one group. Both are changed in place: after a
step, take the parameters from `params` again. A loop:

```python
state = strategy.initialize_state()
for step in range(steps):
    images, alphas, info = gausset.rasterization(...)
    strategy.step_pre_backward(params, optimizers, state, step, info)
    loss.backward()
    ...                                     # step and clear the optimizers
    strategy.step_post_backward(params, optimizers, state, step, info)
```

Random numbers come from torch's generator.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._errors import ArgumentError
from ._formulas import compute_relocation, quat_scale_to_covar_preci, rotation_matrices
from .density import densification_mask, pruning_mask

__all__ = ["DefaultStrategy", "MCMCStrategy"]

Params = MutableMapping[str, torch.nn.Parameter]
Optimizers = MutableMapping[str, torch.optim.Optimizer]

# Halves of a split are this much smaller (Kerbl et al. 2023, section 5.2).
_SPLIT_SHRINK = 1.6
# Copies that share an opacity, at most (Kheradmand et al. 2024, released code).
_MOST_COPIES = 51
# The most weights that `torch.multinomial` takes.
_MOST_WEIGHTS = 1 << 24


def _refuse(message: str) -> ArgumentError:
    return ArgumentError(message, "argument")


class _Strategy:
    def check_sanity(self, params: Params, optimizers: Optimizers) -> None:
        """Raises `gausset.ArgumentError` if a parameter is missing, or has not one optimizer with one group."""
        for name in ("means", "scales", "quats", "opacities"):
            if name not in params:
                raise _refuse(f"params: {name!r} is missing (expected means, scales, quats, opacities)")
        trained = {name for name, value in params.items() if value.requires_grad}
        if different := sorted(trained ^ set(optimizers)):
            raise _refuse(f"optimizers: {', '.join(different)} (expected one for each trained parameter)")
        for name, optimizer in optimizers.items():
            if (groups := len(optimizer.param_groups)) != 1:
                raise _refuse(f"optimizers: {name!r} has {groups} groups (expected 1)")


@dataclass
class DefaultStrategy(_Strategy):
    """Adaptive density control (Kerbl et al. 2023, section 5.2).

    Every `refine_every` steps after `refine_start_iter` and before `refine_stop_iter`:
    splats whose mean gradient on the screen is above `grow_grad2d` are duplicated, or split in two if their largest scale
    is above `grow_scale3d` times `scene_scale`; then splats of an opacity below `prune_opa` are removed, and after
    `reset_every` steps also those with a scale above `prune_scale3d` times `scene_scale`. Before step
    `refine_scale2d_stop_iter`, radii on the screen above `grow_scale2d` split and above `prune_scale2d` remove, as parts
    of the longer side of the image. Every `reset_every` steps, opacities are lowered to at most `2 prune_opa` (gsplat
    1.5.3 never does: its pull request 776), and no splats are refined in the `pause_refine_after_reset` steps that follow.

    The gradient is that of pixels times half the image's size. With `absgrad`, sums of absolute gradients count (Ye et
    al. 2024, "AbsGS"): pass it to `rasterization`, too, and raise `grow_grad2d`, for example to 0.0008.
    `revised_opacity` gives both halves of a split `1 - sqrt(1 - opacity)` (Rota Bulò et al. 2024).
    `key_for_gradient` is the entry of `info` that has the gradient. `verbose` prints counts.
    """

    prune_opa: float = 0.005
    grow_grad2d: float = 0.0002
    grow_scale3d: float = 0.01
    grow_scale2d: float = 0.05
    prune_scale3d: float = 0.1
    prune_scale2d: float = 0.15
    refine_scale2d_stop_iter: int = 0
    refine_start_iter: int = 500
    refine_stop_iter: int = 15_000
    reset_every: int = 3000
    refine_every: int = 100
    pause_refine_after_reset: int = 0
    absgrad: bool = False
    revised_opacity: bool = False
    verbose: bool = False
    key_for_gradient: str = "means2d"

    def initialize_state(self, scene_scale: float = 1.0) -> dict[str, Any]:
        """The state to pass to each step. `scene_scale`: extent of the scene, in scene units."""
        return {**dict.fromkeys(self._sums()), "scene_scale": scene_scale}

    def _sums(self) -> tuple[str, ...]:
        """Entries of the state with a value per splat: sums of gradients and of views, the largest radius."""
        return ("grad2d", "count", "radii") if self.refine_scale2d_stop_iter > 0 else ("grad2d", "count")

    def step_pre_backward(
        self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int, info: dict[str, Any]
    ) -> None:
        """Keeps the gradient on the screen. `info` is the dictionary that `rasterization` returned."""
        if self.key_for_gradient not in info:
            raise _refuse(f"info: {self.key_for_gradient!r} is missing")
        info[self.key_for_gradient].retain_grad()

    def step_post_backward(
        self,
        params: Params,
        optimizers: Optimizers,
        state: dict[str, Any],
        step: int,
        info: dict[str, Any],
        packed: bool = False,
    ) -> None:
        """Adds the gradients of a step, and refines and resets when due. `packed` as given to `rasterization`."""
        if step >= self.refine_stop_iter:
            return
        self._accumulate(params, state, info, packed)
        paused = step % self.reset_every < self.pause_refine_after_reset
        if step > self.refine_start_iter and step % self.refine_every == 0 and not paused:
            duplicated, split = self._grow(params, optimizers, state, step)
            pruned = self._prune(params, optimizers, state, step)
            if self.verbose:
                counts = f"{duplicated} duplicated, {split} split, {pruned} pruned"
                print(f"step {step}: {counts}, {len(params['means'])} splats")
            for name in self._sums():
                state[name].zero_()
        if step % self.reset_every == 0 and step > 0:
            most = torch.logit(torch.tensor(2.0 * self.prune_opa)).item()
            _replace(params, optimizers, "opacities", params["opacities"].detach().clamp(max=most), torch.zeros_like)

    @torch.no_grad()
    def _accumulate(self, params: Params, state: dict[str, Any], info: dict[str, Any], packed: bool) -> None:
        key = self.key_for_gradient
        for name in ("width", "height", "n_cameras", "radii", key, *(("gaussian_ids",) if packed else ())):
            if name not in info:
                raise _refuse(f"info: {name!r} is missing")
        grads = getattr(info[key], "absgrad", None) if self.absgrad else info[key].grad
        if grads is None:
            reason = "pass absgrad=True to rasterization" if self.absgrad else "call step_pre_backward before backward"
            raise _refuse(f"info: {key!r} has no {'absgrad' if self.absgrad else 'gradient'} ({reason})")
        # From 1/px to the unit of the released code of Kerbl et al.: an image from -1 to 1, a sum over views.
        half = torch.tensor([info["width"] / 2.0, info["height"] / 2.0]) * info["n_cameras"]
        grads = grads * half.to(grads)
        radii = info["radii"]
        if radii.dim() == grads.dim():
            visible, radii = (radii > 0).all(-1), radii.amax(-1)
        else:  # gsplat 1.4
            visible = radii > 0
        if packed:
            ids = info["gaussian_ids"]
        else:
            ids, grads, radii = torch.where(visible)[-1], grads[visible], radii[visible]

        # The renderer is on the CPU, wherever the splats are.
        device = params["means"].device
        ids, grads, radii = (value.to(device) for value in (ids, grads, radii))
        for name in self._sums():
            if state.get(name) is None:
                state[name] = torch.zeros(len(params["means"]), device=device)
        state["grad2d"].index_add_(0, ids, grads.norm(dim=-1))
        state["count"].index_add_(0, ids, torch.ones(len(ids), device=device))
        if self.refine_scale2d_stop_iter > 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch 1.13: "scatter_reduce() is in beta"
                state["radii"].scatter_reduce_(0, ids, radii / float(max(info["width"], info["height"])), "amax")

    @torch.no_grad()
    def _grow(self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int) -> tuple[int, int]:
        grads = state["grad2d"] / state["count"].clamp(min=1)
        limit = self.grow_scale3d * state["scene_scale"]
        duplicates, splits = densification_mask(grads, params["scales"], self.grow_grad2d, limit)
        if step < self.refine_scale2d_stop_iter:
            splits = splits | (state["radii"] > self.grow_scale2d)
        kept, copied, split = (torch.where(mask)[0] for mask in (~splits, duplicates, splits))
        if len(copied) + len(split) == 0:
            return 0, 0

        halves: dict[str, Tensor] = {}
        if len(split) > 0:
            scales = params["scales"][split].exp()
            axes = rotation_matrices(params["quats"][split]) * scales[:, None, :]
            noise = torch.randn(2, len(split), 3, device=scales.device)
            offsets = (axes @ noise.permute(1, 2, 0)).permute(2, 0, 1)
            halves["means"] = (params["means"][split] + offsets).reshape(-1, 3)
            halves["scales"] = (scales / _SPLIT_SHRINK).log().repeat(2, 1)
            if self.revised_opacity:
                old = params["opacities"][split].sigmoid()
                halves["opacities"] = torch.logit(1.0 - (1.0 - old).sqrt()).repeat(2, *[1] * (old.dim() - 1))
        _regroup(params, optimizers, state, torch.cat([kept, copied, split, split]), len(kept), halves)
        return len(copied), len(split)

    @torch.no_grad()
    def _prune(self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int) -> int:
        most, radius = math.inf, math.inf
        if step > self.reset_every:
            most = self.prune_scale3d * state["scene_scale"]
            if step < self.refine_scale2d_stop_iter:
                radius = self.prune_scale2d
        opacities = params["opacities"].flatten().sigmoid()
        mask = pruning_mask(opacities, params["scales"], state.get("radii"), self.prune_opa, most, radius)
        if pruned := int(mask.sum()):
            kept = torch.where(~mask)[0]
            _regroup(params, optimizers, state, kept, len(kept), {})
        return pruned


@dataclass
class MCMCStrategy(_Strategy):
    """Splats as samples: 3D Gaussian splatting as Markov chain Monte Carlo (Kheradmand et al. 2024).

    Every `refine_every` steps after `refine_start_iter` and before `refine_stop_iter`: splats of an opacity of at most
    `min_opacity` move to others, drawn in proportion to opacity, and 5 % are added in the same way, up to `cap_max`.
    Splats in one place share the opacity of the original (eq. 9).

    Each step before `noise_injection_stop_iter` (negative: always) adds to the means (eq. 8) normal noise times
    covariance, `noise_lr`, the learning rate of the means and `sigmoid(noise_opacity_k (noise_opacity_t - opacity))`.
    `verbose` prints counts.
    """

    cap_max: int = 1_000_000
    noise_lr: float = 5e5
    refine_start_iter: int = 500
    refine_stop_iter: int = 25_000
    noise_injection_stop_iter: int = -1
    refine_every: int = 100
    min_opacity: float = 0.005
    verbose: bool = False
    noise_opacity_t: float = 0.005
    noise_opacity_k: float = 100.0

    def initialize_state(self) -> dict[str, Any]:
        """The state to pass to each step: `binoms`, the binomial coefficients."""
        counts = range(_MOST_COPIES)
        return {"binoms": torch.tensor([[float(math.comb(n, k)) for k in counts] for n in counts])}

    def step_pre_backward(
        self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int, info: dict[str, Any]
    ) -> None:
        """Nothing is needed before the backward pass."""

    @torch.no_grad()
    def step_post_backward(
        self,
        params: Params,
        optimizers: Optimizers,
        state: dict[str, Any],
        step: int,
        info: dict[str, Any],
        lr: float,
    ) -> None:
        """Refines when due and adds noise. `lr`: learning rate of the means."""
        state["binoms"] = state["binoms"].to(params["means"].device)
        if self.refine_start_iter < step < self.refine_stop_iter and step % self.refine_every == 0:
            moved = self._relocate(params, optimizers, state["binoms"])
            added = self._add(params, optimizers, state["binoms"])
            if self.verbose:
                print(f"step {step}: {moved} relocated, {added} added, {len(params['means'])} splats")
        if self.noise_injection_stop_iter < 0 or step < self.noise_injection_stop_iter:
            opacities = params["opacities"].flatten().sigmoid()
            # The form and order of gsplat, for equal bits.
            exponent = -self.noise_opacity_k * ((1 - opacities) - (1 - self.noise_opacity_t))
            weights = 1 / (1 + exponent.exp())
            noise = torch.randn_like(params["means"]) * weights[:, None] * (lr * self.noise_lr)
            covars, _ = quat_scale_to_covar_preci(params["quats"], params["scales"].exp(), compute_preci=False)
            assert covars is not None
            params["means"].add_((covars @ noise[..., None])[..., 0])

    def _relocate(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        opacities = params["opacities"].flatten().sigmoid()
        is_dead = opacities <= self.min_opacity
        dead, alive = torch.where(is_dead)[0], torch.where(~is_dead)[0]
        if len(dead) == 0 or len(alive) == 0:
            return 0
        sources = alive[_draw(opacities[alive], len(dead))]
        shared = self._share(params, sources, binoms)

        def moments(value: Tensor) -> Tensor:
            value[sources] = 0
            return value

        for name in list(params):
            value = params[name].detach()
            if name in shared:
                value[sources] = shared[name]
            value[dead] = value[sources]
            _replace(params, optimizers, name, value, moments)
        return len(dead)

    def _add(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        count = len(params["means"])
        added = min(self.cap_max, int(1.05 * count)) - count
        if added <= 0:
            return 0
        sources = _draw(params["opacities"].flatten().sigmoid(), added)
        for name, value in self._share(params, sources, binoms).items():
            params[name].detach()[sources] = value
        rows = torch.cat([torch.arange(count, device=sources.device), sources])
        _regroup(params, optimizers, {}, rows, count, {})
        return added

    def _share(self, params: Params, sources: Tensor, binoms: Tensor) -> dict[str, Tensor]:
        """Logits and log scales of the splats at `sources` when each of the drawn ones has a copy in its place."""
        logits = params["opacities"]
        copies = torch.bincount(sources)[sources] + 1
        # Activations of the whole arrays, as gsplat: vector and scalar code of torch may differ in the last bit.
        old = logits.flatten().sigmoid()[sources], params["scales"].exp()[sources]
        opacities, scales = compute_relocation(*old, copies, binoms, min_opacity=None)
        opacities = opacities.clamp(min=self.min_opacity, max=1.0 - torch.finfo(torch.float32).eps)
        return {"opacities": torch.logit(opacities).reshape(-1, *logits.shape[1:]), "scales": scales.log()}


def _draw(weights: Tensor, count: int) -> Tensor:
    """Indices (count,), drawn with replacement in proportion to `weights` (N,)."""
    if not 0.0 < float(weights.sum()) < math.inf:
        raise _refuse("opacities: NaN or all 0 (expected some splat to draw)")
    if len(weights) <= _MOST_WEIGHTS:
        return torch.multinomial(weights, count, replacement=True)
    sums = weights.double().cumsum(0)
    return torch.searchsorted(sums, torch.rand(count, dtype=torch.float64, device=sums.device) * sums[-1], right=True)


def _replace(
    params: Params, optimizers: Optimizers, name: str, value: Tensor, moments: Callable[[Tensor], Tensor]
) -> None:
    """Puts a new parameter, without gradient, in place of another; `moments` maps the state of its optimizer."""
    old = params[name]
    new = torch.nn.Parameter(value, requires_grad=old.requires_grad)
    params[name] = new
    if name not in optimizers:
        if old.requires_grad:
            raise _refuse(f"optimizers: {name} (expected one for each trained parameter)")
        return
    optimizer = optimizers[name]
    entries = optimizer.state.pop(old, {})
    optimizer.state[new] = {
        # Not `step`, which has no rows.
        key: moments(entry) if isinstance(entry, Tensor) and entry.shape == old.shape else entry
        for key, entry in entries.items()
    }
    optimizer.param_groups[0]["params"] = [new]


def _regroup(
    params: Params,
    optimizers: Optimizers,
    state: dict[str, Any],
    rows: Tensor,
    kept: int,
    last: dict[str, Tensor],
) -> None:
    """Row k of every tensor becomes row `rows[k]`. From row `kept` on, splats are new: their moments are 0. The last rows
    of parameters in `last` are given there."""

    def moments(value: Tensor) -> Tensor:
        value = value[rows]
        value[kept:] = 0
        return value

    for name in list(params):
        value = params[name].detach()[rows]
        if name in last:
            value[len(rows) - len(last[name]) :] = last[name]
        _replace(params, optimizers, name, value, moments)
    for name, value in state.items():
        if isinstance(value, Tensor):
            state[name] = value[rows]
