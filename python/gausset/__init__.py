"""Gausset: 3D Gaussian splatting on the CPU or a GPU.

Poses map world to camera coordinates: x right, y down, z forward. Quaternions are `w x y z`. Lengths are scene units.
Long calls release the interpreter, so that other threads run meanwhile. Failures are `gausset.GaussetError`.
"""

from typing import TYPE_CHECKING

from . import _gausset
from ._convert import convert
from ._dataset import Dataset
from ._errors import (
    ArgumentError,
    DeviceError,
    FileError,
    GaussetError,
    GaussetWarning,
    MemoryLimitError,
)
from ._errors import whole as _whole
from ._gausset import __version__, build_info, num_threads, option_names
from ._render import Camera, Renderer, Rendering, render
from ._splats import Splats, load, save
from ._train import Run, Trainer, Training, evaluate, resume, start, train

__all__ = [
    "ArgumentError",
    "Camera",
    "Dataset",
    "DefaultStrategy",
    "DeviceError",
    "FileError",
    "GaussetError",
    "GaussetWarning",
    "MCMCStrategy",
    "MemoryLimitError",
    "Renderer",
    "Rendering",
    "ResumeOptions",
    "Run",
    "Splats",
    "TrainOptions",
    "Trainer",
    "Training",
    "View",
    "__version__",
    "build_info",
    "convert",
    "evaluate",
    "load",
    "num_threads",
    "option_names",
    "rasterization",
    "render",
    "resume",
    "save",
    "set_memory_limit",
    "set_num_threads",
    "spherical_harmonics",
    "start",
    "train",
    "view",
]


def set_num_threads(count: int) -> None:
    """Sets the number of threads of `rasterization` and its relatives; all cores by default."""
    _gausset.set_num_threads(_whole("count", count, 1, 1024))


def set_memory_limit(size: int) -> None:
    """Sets the bytes for the tiles of a view of `rasterization`; half of the memory by default.

    A view that needs more raises `MemoryLimitError`.
    """
    _gausset.set_memory_limit(_whole("size", size, 0, 2**63))


# Imported at the first use: torch, and modules that take long.
if TYPE_CHECKING:
    from ._options import ResumeOptions, TrainOptions
    from ._rasterization import rasterization
    from ._shade import spherical_harmonics
    from ._view import View, view
    from .strategy import DefaultStrategy, MCMCStrategy
else:
    _LATER = {
        "rasterization": "_rasterization",
        "spherical_harmonics": "_shade",
        "DefaultStrategy": "strategy",
        "MCMCStrategy": "strategy",
        "ResumeOptions": "_options",
        "TrainOptions": "_options",
        "View": "_view",
        "view": "_view",
    }

    def _missing() -> set[str]:
        """Names that cannot be imported."""
        from importlib.util import find_spec

        if find_spec("torch"):
            return set()
        return {name for name, module in _LATER.items() if module in ("_rasterization", "_shade", "strategy")}

    __all__ = sorted({*__all__} - _missing())

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'gausset' has no attribute {name!r}")
        if name in _missing():
            raise AttributeError(f"module 'gausset' has no attribute {name!r}: it needs torch, which is not installed")
        import importlib

        return getattr(importlib.import_module(f"gausset.{_LATER[name]}"), name)

    def __dir__() -> list[str]:
        # `help` and completion fail at names that cannot be imported.
        return sorted({*globals(), *_LATER} - _missing())
