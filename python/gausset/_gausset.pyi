"""The compiled part of the package. Its functions take checked arguments; use those of `gausset`."""

import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ._splats import Splats

__all__ = [
    "ActivatedSplats",
    "Dataset",
    "Properties",
    "Renderer",
    "Trainer",
    "View",
    "__version__",
    "build_info",
    "check_camera",
    "convert",
    "evaluate",
    "field_evaluate",
    "field_fit",
    "field_load",
    "field_save",
    "field_vjp",
    "l1_ssim",
    "load",
    "num_threads",
    "option_names",
    "project",
    "resume",
    "run_program",
    "run_splats",
    "run_state",
    "run_summary",
    "save",
    "set_memory_limit",
    "set_num_threads",
    "sh_colors",
    "sh_colors_vjp",
    "train",
]

__version__: str

_Path = str | os.PathLike[str]
_Intrinsics = tuple[int, int, float, float, float, float]
_F32 = NDArray[np.float32]
_Given = list[tuple[str, str]]

@final
class Properties:
    def __new__(cls) -> Properties: ...
    @property
    def antialiased(self) -> bool: ...
    @property
    def up(self) -> list[float] | None: ...
    @property
    def dataset_transform(self) -> list[list[float]] | None: ...

@final
class Renderer:
    def __new__(cls, splats: Splats, device: str, threads: int) -> Renderer: ...
    def render(
        self,
        intrinsics: _Intrinsics,
        pose: list[list[float]],
        background: tuple[float, ...],
        sh_degree: int | None,
        antialiased: bool | None,
        near_plane: float | None,
    ) -> tuple[_F32, _F32, _F32, NDArray[np.uint32]]: ...

@final
class Trainer:
    @staticmethod
    def start(
        data: _Path,
        output: _Path,
        options: _Given,
        device: str,
        force: bool,
        report: bool,
        on_event: Callable[[str], object] | None,
    ) -> Trainer: ...
    @staticmethod
    def resume(
        run: _Path,
        data: _Path | None,
        options: _Given,
        device: str,
        report: bool,
        on_event: Callable[[str], object] | None,
    ) -> Trainer: ...
    @property
    def step(self) -> int: ...
    @property
    def steps(self) -> int: ...
    def advance(
        self,
        steps: int,
        progress: Callable[[int, int, float], object] | None,
        on_event: Callable[[str], object] | None,
    ) -> bool: ...
    def end(
        self,
        progress: Callable[[int, int, float], object] | None,
        on_event: Callable[[str], object] | None,
    ) -> None: ...
    def save(self, on_event: Callable[[str], object] | None) -> None: ...
    def export(self, on_event: Callable[[str], object] | None) -> None: ...
    def render(
        self, intrinsics: _Intrinsics, pose: list[list[float]], background: tuple[float, float, float]
    ) -> tuple[_F32, _F32, _F32, NDArray[np.uint32]] | None: ...

@final
class Dataset:
    def __new__(
        cls,
        path: _Path,
        images: _Path | None,
        masks: _Path | None,
        sparse: _Path | None,
        max_resolution: int,
        test_every: int,
        allow_outside: bool,
    ) -> Dataset: ...
    @property
    def kind(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def cameras(self) -> list[tuple[_Intrinsics, list[list[float]]]]: ...
    @property
    def points(self) -> tuple[NDArray[np.float64], NDArray[np.uint8]]: ...
    @property
    def train(self) -> list[int]: ...
    @property
    def test(self) -> list[int]: ...
    @property
    def offset(self) -> list[float]: ...
    @property
    def scene_extent(self) -> float: ...
    def image(
        self, index: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None, NDArray[np.uint8] | None]: ...

def check_camera(intrinsics: _Intrinsics, pose: list[list[float]]) -> None: ...
def load(path: _Path) -> tuple[tuple[_F32, _F32, _F32, _F32, _F32], Properties, int]: ...
def save(splats: Splats, path: _Path, force: bool) -> int: ...
def convert(input: _Path, output: _Path, options: dict[str, Any]) -> dict[str, Any]: ...
def option_names() -> list[str]:
    """Names of the training options that `gausset.train` takes as keywords."""

def build_info() -> dict[str, Any]:
    """`version` with the commit if it is known, `simd`: vector instructions of this CPU, `threads`, `features`."""

def run_program(arguments: list[str]) -> int:
    """Run the program `gausset`; the first argument is its name. Returns the exit code."""

def train(
    data: _Path,
    output: _Path,
    options: _Given,
    device: str,
    force: bool,
    report: bool,
    progress: Callable[[int, int, float], object] | None,
    on_event: Callable[[str], object] | None = None,
) -> os.PathLike[str]: ...
def resume(
    run: _Path,
    data: _Path | None,
    options: _Given,
    device: str,
    report: bool,
    progress: Callable[[int, int, float], object] | None,
    on_event: Callable[[str], object] | None = None,
) -> os.PathLike[str]: ...
def evaluate(
    run: _Path,
    data: _Path | None,
    split: str,
    max_resolution: int | None,
    output: _Path | None,
    lpips: _Path | None,
    force: bool,
    device: str,
) -> str: ...
def run_summary(run: _Path) -> str: ...
def run_state(run: _Path) -> bool: ...
def run_splats(run: _Path) -> os.PathLike[str]: ...

@final
class ActivatedSplats:
    def __new__(cls, means: _F32, quats: _F32, scales: _F32, opacities: _F32) -> ActivatedSplats: ...

@final
class View:
    def blend(self, colors: _F32, background: _F32 | None) -> tuple[_F32, _F32, _F32]: ...
    def blend_vjp(
        self, colors: _F32, color: _F32 | None, alpha: _F32 | None, depth: _F32 | None, absolute: bool
    ) -> tuple[_F32, _F32, _F32, _F32, _F32, _F32, _F32]: ...
    def project_vjp(
        self, means2d: _F32, conics: _F32, depths: _F32, opacities: _F32
    ) -> tuple[_F32, _F32, _F32, _F32, list[list[float]]]: ...

def project(
    splats: ActivatedSplats,
    pose: list[list[float]],
    intrinsics: tuple[float, float, float, float] | None,
    size: tuple[int, int],
    rules: tuple[float, ...],
    antialiased: bool,
) -> tuple[View, _F32, _F32, _F32, _F32, NDArray[np.int32]]: ...
def sh_colors(
    means: _F32, coefficients: _F32, rule: tuple[list[float], int, bool], mask: NDArray[np.bool_] | None
) -> _F32: ...
def sh_colors_vjp(
    means: _F32,
    coefficients: _F32,
    rule: tuple[list[float], int, bool],
    mask: NDArray[np.bool_] | None,
    upstream: _F32,
) -> tuple[_F32, _F32]: ...
def l1_ssim(render: _F32, truth: _F32, dssim_weight: float) -> tuple[float, _F32]: ...

_Field = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

def field_evaluate(points: NDArray[Any], parameters: _Field, mode: str, order: int) -> NDArray[Any]: ...
def field_vjp(
    points: NDArray[Any], parameters: _Field, mode: str, order: int, upstream: NDArray[Any]
) -> _Field: ...
def field_load(path: _Path) -> tuple[_Field, dict[str, Any]]: ...
def field_save(path: _Path, parameters: _Field, properties: dict[str, Any], force: bool) -> int: ...
def field_fit(
    points: NDArray[np.float64],
    values_at_points: NDArray[np.float64],
    keywords: dict[str, Any],
    progress: Callable[[int, int, float], object] | None,
) -> tuple[_Field, dict[str, Any], str]: ...
def set_memory_limit(size: int) -> None:
    """Sets the bytes for the tiles of a view of `rasterization`; half of the memory by default."""

def set_num_threads(count: int) -> None:
    """Sets the number of threads of `rasterization` and its relatives; all cores by default."""

def num_threads() -> int:
    """Number of threads of `rasterization` and its relatives."""
