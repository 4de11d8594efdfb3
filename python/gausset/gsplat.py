"""gsplat on the CPU: `install()` puts Gausset's functions into an installed gsplat, or serves as `gsplat` without one.

Afterwards gsplat's strategies, its `SelectiveAdam` and training loops run with tensors on the CPU.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Callable

from ._errors import ArgumentError
from ._formulas import compute_relocation, quat_scale_to_covar_preci
from ._rasterization import (
    rasterization,
    set_compat,
    spherical_harmonics,
    spherical_harmonics_of_directions,
)
from .optim import adam
from .strategy import DefaultStrategy, MCMCStrategy

__all__ = [
    "DefaultStrategy",
    "MCMCStrategy",
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
