"""Splats as arrays, and splat files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _gausset
from ._errors import ArgumentError

Path = str | os.PathLike[str]

_COEFFICIENTS = (1, 4, 9, 16)


def _array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> NDArray[np.float32]:
    """`value` as an aligned f32 array in C order, of this shape; `None` = any length."""
    try:
        array = np.asarray(value)
    # RuntimeError: a tensor that requires gradients.
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{name}: not an array of numbers ({error})", "argument") from None
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"{name}: not an array of numbers ({array.dtype})", "argument")
    array = np.require(array, np.float32, ["C", "A"])
    fits = array.ndim == len(shape) and all(want in (None, found) for want, found in zip(shape, array.shape))
    if not fits:
        expected = ", ".join("n" if want is None else str(want) for want in shape)
        raise ArgumentError(f"{name}: shape {array.shape} (expected ({expected}))", "argument")
    return array


class Splats:
    """`n` Gaussians with raw parameters, as files store them and as training optimises them.

    | array            | shape     | meaning                                                            |
    |------------------|-----------|--------------------------------------------------------------------|
    | `means`          | (n, 3)    | centres, scene units                                               |
    | `log_scales`     | (n, 3)    | natural log of the standard deviation along each axis, scene units |
    | `quats`          | (n, 4)    | rotations `w x y z`, any length but zero                           |
    | `opacity_logits` | (n,)      | the opacity is the logistic function of it                         |
    | `sh`             | (n, K, 3) | spherical harmonics of RGB, K = (degree + 1)², degree 0 to 3       |

    All arrays are f32. They may be changed in place, or replaced by arrays of the same length. An aligned f32 array in
    C order is kept, not copied. `scales` and `opacities` are computed from them.

    Splats of a file keep what the file says besides: antialiasing, near plane, sky, transform from the dataset. `save`
    writes it again.
    """

    def __init__(
        self,
        means: ArrayLike,
        log_scales: ArrayLike,
        quats: ArrayLike,
        opacity_logits: ArrayLike,
        sh: ArrayLike,
    ) -> None:
        self._means = _array("means", means, (None, 3))
        self._properties = _gausset.Properties()
        self._sky = 0
        self.log_scales = log_scales
        self.quats = quats
        self.opacity_logits = opacity_logits
        self.sh = sh

    @classmethod
    def _with(cls, arrays: tuple[Any, ...], properties: _gausset.Properties, sky: int) -> Splats:
        splats = cls(*arrays)
        splats._properties = properties
        splats._sky = sky
        return splats

    def __getstate__(self) -> dict[str, Any]:
        """The arrays, and what the file said besides: as a PLY of one splat."""
        import tempfile

        one = Splats(np.zeros((1, 3)), np.zeros((1, 3)), [[1, 0, 0, 0]], [0], np.zeros((1, 1, 3)))
        one._properties = self._properties
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "splats.ply")
            save(one, path)
            with open(path, "rb") as file:
                return {**self.__dict__, "_properties": file.read()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "splats.ply")
            with open(path, "wb") as file:
                file.write(state["_properties"])
            self.__dict__.update(state, _properties=load(path)._properties)

    @property
    def means(self) -> NDArray[np.float32]:
        """Centres (n, 3) in scene units."""
        return self._means

    @means.setter
    def means(self, value: ArrayLike) -> None:
        self._means = _array("means", value, (len(self), 3))

    @property
    def log_scales(self) -> NDArray[np.float32]:
        """Natural logs (n, 3) of the standard deviations."""
        return self._log_scales

    @log_scales.setter
    def log_scales(self, value: ArrayLike) -> None:
        self._log_scales = _array("log_scales", value, (len(self), 3))

    @property
    def quats(self) -> NDArray[np.float32]:
        """Rotations (n, 4), `w x y z`, not normalised."""
        return self._quats

    @quats.setter
    def quats(self, value: ArrayLike) -> None:
        self._quats = _array("quats", value, (len(self), 4))

    @property
    def opacity_logits(self) -> NDArray[np.float32]:
        """Logits (n,) of the opacities."""
        return self._opacity_logits

    @opacity_logits.setter
    def opacity_logits(self, value: ArrayLike) -> None:
        self._opacity_logits = _array("opacity_logits", value, (len(self),))

    @property
    def sh(self) -> NDArray[np.float32]:
        """SH coefficients (n, K, 3); the colour of degree 0 is `0.5 + 0.2820948 * sh[:, 0]`."""
        return self._sh

    @sh.setter
    def sh(self, value: ArrayLike) -> None:
        sh = _array("sh", value, (len(self), None, 3))
        if sh.shape[1] not in _COEFFICIENTS:
            raise ArgumentError(f"sh: {sh.shape[1]} coefficients (expected 1, 4, 9 or 16)", "argument")
        self._sh = sh

    @property
    def scales(self) -> NDArray[np.float32]:
        """Standard deviations (n, 3) in scene units, computed from `log_scales`."""
        return np.exp(self._log_scales)

    @property
    def opacities(self) -> NDArray[np.float32]:
        """Opacities (n,) in 0..1, computed from `opacity_logits`."""
        # The same function without an overflow for large negative logits.
        opacities: NDArray[np.float32] = 0.5 * (1.0 + np.tanh(0.5 * self._opacity_logits))
        return opacities

    @property
    def sh_degree(self) -> int:
        """SH degree, 0 to 3."""
        return _COEFFICIENTS.index(self._sh.shape[1])

    @property
    def antialiased(self) -> bool:
        """Whether the splats were trained with opacity compensation. `render` then uses it, too."""
        return self._properties.antialiased

    @property
    def up(self) -> NDArray[np.float32] | None:
        """Up direction (3,), if known."""
        up = self._properties.up
        return None if up is None else np.array(up, dtype=np.float32)

    @property
    def dataset_transform(self) -> NDArray[np.float64] | None:
        """Matrix (4, 4) that maps points of the dataset to the axes of the splats, if known.

        `camera.transformed(splats.dataset_transform)` sees the splats as `camera` sees the dataset.
        """
        rows = self._properties.dataset_transform
        return None if rows is None else np.array(rows)

    def __len__(self) -> int:
        return len(self._means)

    # One splat is no useful object, so that a loop over all would only be slow.
    __iter__ = None

    def __getitem__(self, key: Any) -> Splats:
        """The splats of a slice, a boolean mask (n,) or an array of indices, as copies in that order."""
        count = len(self)
        index = np.arange(count)[key]
        if index.ndim != 1:
            raise TypeError("splats are indexed by a slice, a boolean mask or an array of indices")
        arrays = (self._means, self._log_scales, self._quats, self._opacity_logits, self._sh)
        # The splats of a sky are the last ones.
        is_scene = np.flatnonzero(index < count - self._sky)
        sky = len(index) - (int(is_scene[-1]) + 1 if len(is_scene) else 0)
        return Splats._with(tuple(array[index] for array in arrays), self._properties, sky)

    def __repr__(self) -> str:
        return f"<gausset.Splats: {len(self)} splats, SH degree {self.sh_degree}>"


def load(path: Path) -> Splats:
    """Reads a splat file of any known format: PLY, compressed PLY, SPLAT, SPZ, SOG, KSPLAT, glTF, HTML.

    The content decides the format. Parts that are damaged or unusual give a `GaussetWarning`.
    """
    return Splats._with(*_gausset.load(path))


def save(splats: Splats, path: Path, force: bool = False) -> None:
    """Writes a splat file in the format of the extension of `path`.

    The file appears whole under its name or not at all. A file that exists is replaced only with `force`. What the
    format cannot keep gives a `GaussetWarning`.
    """
    _gausset.save(splats, path, force)
