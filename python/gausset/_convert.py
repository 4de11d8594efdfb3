"""Conversion of splat files."""

from __future__ import annotations

from typing import Any

from . import _gausset
from ._splats import Path


def convert(
    input: Path,
    output: Path,
    *,
    format: str | None = None,
    sky: bool | None = None,
    max_splats: int | None = None,
    max_bytes: int | None = None,
    levels: int | None = None,
    min_opacity: float | None = None,
    sh_degree: int | None = None,
    translate: tuple[float, float, float] = (0.0, 0.0, 0.0),
    rotate: tuple[float, float, float] = (0.0, 0.0, 0.0),
    scale: float = 1.0,
    up: str = "none",
    report: bool = False,
    min_psnr: float | None = None,
    data: Path | None = None,
    device: str = "auto",
    force: bool = False,
) -> dict[str, Any]:
    """Converts a splat file or a finished run to the format of the extension of `output`, as `gausset convert` does.

    The options are those of the program: `sky` keeps or drops the sky, by default as the format needs it; the least
    important splats go until there are `max_splats` or the file has `max_bytes`; `levels` of detail are those of a streamed
    SOG (1 to 16); `rotate` is in degrees about x, then y,
    then z; `up` is the axis that is rotated to -y. `report` measures the loss.

    Returns `input_splats`, `splats`, `bytes`, `lost` (what the format does not keep), and with `report` or `min_psnr`
    `psnr` and `worst_psnr` in dB over the views.
    """
    options = {
        "format": format,
        "sky": sky,
        "max_splats": max_splats,
        "max_bytes": max_bytes,
        "levels": levels,
        "min_opacity": min_opacity,
        "sh_degree": sh_degree,
        "translate": translate,
        "rotate": rotate,
        "scale": scale,
        "up": up,
        "report": report,
        "min_psnr": min_psnr,
        "data": data,
        "device": device,
        "force": force,
    }
    return _gausset.convert(input, output, options)
