"""Gausset: 3D Gaussian splatting on the CPU or a GPU.

Poses map world to camera coordinates: x right, y down, z forward. Quaternions are `w x y z`. Lengths are scene units.
Long calls release the interpreter, so that other threads run meanwhile. Failures are `gausset.Error`.
"""

from ._dataset import Dataset
from ._errors import (
    ArgumentError,
    DeviceError,
    Error,
    FileError,
    GaussetWarning,
    MemoryLimitError,
)
from ._gausset import __version__, option_names
from ._render import Camera, Renderer, Rendering, render
from ._splats import Splats, load, save
from ._train import Run, evaluate, resume, train

__all__ = [
    "ArgumentError",
    "Camera",
    "Dataset",
    "DeviceError",
    "Error",
    "FileError",
    "GaussetWarning",
    "MemoryLimitError",
    "Renderer",
    "Rendering",
    "Run",
    "Splats",
    "__version__",
    "evaluate",
    "load",
    "option_names",
    "render",
    "resume",
    "save",
    "train",
]
