"""gsplat on the CPU: `install()` puts Gausset's functions into an installed gsplat, or serves as `gsplat` without one.

Afterwards gsplat's strategies, its `SelectiveAdam` and training loops run with tensors on the CPU.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable

from ._errors import ArgumentError
from ._formulas import compute_relocation, quat_scale_to_covar_preci
from ._projection import fully_fused_projection, proj, world_to_cam
from ._rasterization import rasterization, set_compat
from ._shade import (
    spherical_harmonics,
    spherical_harmonics_l0,
    spherical_harmonics_l1_plus,
    spherical_harmonics_of_directions,
)
from ._tiles import (
    accumulate,
    isect_offset_encode,
    isect_tiles,
    rasterize_to_indices_in_range,
    rasterize_to_pixels,
)
from .optim import SelectiveAdam, adam
from .strategy import DefaultStrategy, MCMCStrategy

__all__ = [
    "DefaultStrategy",
    "MCMCStrategy",
    "SelectiveAdam",
    "accumulate",
    "adam",
    "compute_relocation",
    "fully_fused_projection",
    "install",
    "isect_offset_encode",
    "isect_tiles",
    "proj",
    "quat_scale_to_covar_preci",
    "rasterization",
    "rasterize_to_indices_in_range",
    "rasterize_to_pixels",
    "set_compat",
    "spherical_harmonics",
    "spherical_harmonics_l0",
    "spherical_harmonics_l1_plus",
    "uninstall",
    "world_to_cam",
]

# The gsplat whose calls these are.
_VERSION = "1.6.0"
# Submodules that import functions by name.
_SUBMODULES = (
    "cuda._wrapper",
    "cuda._torch_impl",
    "rendering",
    "relocation",
    "strategy.ops",
    "optimizers.selective_adam",
)
# Without gsplat, modules of these names are made, a package before its parts. They have the names of this one but for
# `_OURS`.
_NAMES = (
    "gsplat",
    "gsplat.cuda",
    "gsplat.cuda._wrapper",
    "gsplat.optimizers",
    "gsplat.relocation",
    "gsplat.rendering",
    "gsplat.strategy",
)
_OURS = ("install", "set_compat", "uninstall")
# Functions that are the same for every version.
_SAME = (adam, compute_relocation, proj, quat_scale_to_covar_preci, world_to_cam)
# Functions with the shapes of gsplat 1.5, those that blend last.
_SINCE_1_5 = (isect_offset_encode, isect_tiles)
_BLENDING = (accumulate, rasterize_to_indices_in_range, rasterize_to_pixels)
_SINCE_1_6 = (
    fully_fused_projection,
    rasterization,
    spherical_harmonics,
    spherical_harmonics_l0,
    spherical_harmonics_l1_plus,
)
# What was there before: (module, name, function).
_replaced: list[tuple[ModuleType, str, Any]] = []
# What was made without gsplat.
_made: dict[str, ModuleType] = {}


def _functions(version: tuple[int, ...]) -> dict[str, Callable[..., Any]]:
    """What replaces the functions of a version."""

    def call(*args: Any, **options: Any) -> Any:
        found = rasterization(*args, **{"compat": "1.5", **options})
        if version < (1, 5):
            found[2]["radii"] = found[2]["radii"].amax(-1)
        return found

    def project(*args: Any, **options: Any) -> tuple[Any, ...]:
        found = fully_fused_projection(*args, **options)
        # Packed, gsplat 1.5 has no `indptr`.
        return (*found[:3], *found[4:]) if len(found) == 9 else found

    functions: dict[str, Callable[..., Any]] = {function.__name__: function for function in _SAME}
    if version >= (1, 6):
        return functions | {f.__name__: f for f in (*_SINCE_1_5, *_BLENDING, *_SINCE_1_6)}
    functions |= {"rasterization": call, "spherical_harmonics": spherical_harmonics_of_directions}
    functions["compute_relocation"] = functools.partial(compute_relocation, min_opacity=None)
    if version >= (1, 5):
        functions |= {f.__name__: f for f in _SINCE_1_5} | {"fully_fused_projection": project}
        functions |= {f.__name__: functools.partial(f, alpha_max=0.999) for f in _BLENDING}
    return functions


def _make_package() -> None:
    """Puts a package `gsplat` into `sys.modules`."""
    content = {name: globals()[name] for name in __all__ if name not in _OURS}
    for name in _NAMES:
        module = importlib.util.module_from_spec(ModuleSpec(name, None, is_package=True))
        module.__dict__.update(content, __version__=_VERSION, __doc__=__doc__)
        sys.modules[name] = _made[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(_made[parent], child, module)


def install() -> None:
    """Replaces the functions of gsplat 1.4 to 1.6 in this process. Without gsplat, `import gsplat` finds a package with
    those of this module."""
    if _replaced or _made:
        return
    try:
        package = importlib.import_module("gsplat")
    except ModuleNotFoundError as error:
        if error.name != "gsplat":
            raise
        _make_package()
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
    while _made:
        name, made = _made.popitem()
        if sys.modules.get(name) is made:
            del sys.modules[name]
