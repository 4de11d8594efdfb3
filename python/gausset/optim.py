"""Adam for splats, in plain torch. Strategies cut and grow the state of these optimizers as that of `torch.optim.Adam`:
`step`, `exp_avg` and `exp_avg_sq` of each parameter.

```text
m = β1 m + (1 - β1) g      v = β2 v + (1 - β2) g²      x = x - lr · m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + eps)
```

(Kingma and Ba 2015, algorithm 1.) `SelectiveAdam` leaves out `1 - β^t` and updates visible splats only
(Mallick et al. 2024, "Taming 3DGS").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ._errors import ArgumentError

__all__ = ["Adam", "SelectiveAdam"]

# Values per pass and thread: the arrays of a pass stay in the cache of a core. Of 2^12 to 2^20 the fastest with 10 million
# values were 2^16 and 2^17.
_CHUNK = 1 << 16
# What groups of `torch.optim.Adam` have, too, with the values that are accepted.
_OFF: dict[str, Any] = {"weight_decay": 0, "amsgrad": False, "maximize": False}


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


def _check(group: dict[str, Any]) -> None:
    if not (group["lr"] >= 0.0 and math.isfinite(group["lr"])):
        raise ArgumentError(f"lr: {group['lr']} (expected 0 or more)", "argument")
    if not all(0.0 <= beta < 1.0 for beta in group["betas"]):
        raise ArgumentError(f"betas: {group['betas']} (expected 0..1, less than 1)", "argument")
    if not group["eps"] >= 0.0:
        raise ArgumentError(f"eps: {group['eps']} (expected 0 or more)", "argument")
    for name, off in _OFF.items():
        if group[name]:
            raise ArgumentError(f"{name}: {group[name]} (expected {off})", "argument")


class Adam(torch.optim.Optimizer):
    """Adam as `torch.optim.Adam`, to and from which a `state_dict` goes. Groups may set `lr`, `betas` and `eps`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, **_OFF})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        _check({**self.defaults, **param_group})
        super().add_param_group(param_group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        groups = [{**_OFF, **group} for group in state["param_groups"]]
        for group in groups:
            _check(group)
        super().__setstate__({**state, "param_groups": groups})

    def _moments(self, param: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(param, memory_format=torch.contiguous_format)
            state["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.contiguous_format)
        return state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters that have a gradient. Returns what `closure` returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self._moments(param)
                state["step"] += 1
                steps = float(state["step"])
                rate = group["lr"] / (1 - b1**steps)
                root = math.sqrt(1 - b2**steps)
                arrays = [param, param.grad, state["exp_avg"], state["exp_avg_sq"]]
                if all(array.is_contiguous() for array in arrays):
                    size = _CHUNK * torch.get_num_threads()
                    parts = [array.view(-1).split(size) for array in arrays]
                else:
                    parts = [(array,) for array in arrays]
                for value, gradient, first, second in zip(*parts):
                    first.lerp_(gradient, 1 - b1)
                    second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
                    value.addcdiv_(first, second.sqrt().div_(root).add_(group["eps"]), value=-rate)
        return loss


class SelectiveAdam(Adam):
    """Adam without bias correction that updates the rows of visible splats only, moments included.

    Each group has one parameter, whose first axis is the splats.
    """

    def __init__(
        self,
        params: Iterable[Any],
        eps: float = 1e-8,
        betas: tuple[float, float] = (0.9, 0.999),
        lr: float = 1e-3,
    ) -> None:
        super().__init__(params, lr, betas, eps)
        for group in self.param_groups:
            if len(group["params"]) != 1:
                raise ArgumentError(f"params: {len(group['params'])} in a group (expected 1)", "argument")

    @torch.no_grad()
    def step(self, visibility: Tensor) -> None:  # type: ignore[override, unused-ignore]
        """Updates the rows where `visibility` (N,) is true or not 0, for example `(meta["radii"] > 0).all(-1).any(0)`."""
        for group in self.param_groups:
            param = group["params"][0]
            if param.grad is None:
                continue
            if visibility.numel() != len(param):
                found = f"shape {list(visibility.shape)}"
                raise ArgumentError(f"visibility: {found} (expected {[len(param)]})", "argument")
            state = self._moments(param)
            (b1, b2), eps = group["betas"], group["eps"]
            first, second = state["exp_avg"], state["exp_avg_sq"]
            adam(param, param.grad.contiguous(), first, second, visibility, group["lr"], b1, b2, eps)
