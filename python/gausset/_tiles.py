"""Lists of tiles and blending in torch, with the names and shapes of gsplat: any float type, tile size and number of
channels, gradients of any order.

The kernels behind `gausset.rasterization` are faster, and have lists of their own. Shapes: `...` image dimensions, `N`
splats, `nnz` rows of packed tensors, `D` channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ._errors import ArgumentError
from ._projection import LEAST_ALPHA
from ._tensors import without_autocast

# A pixel is finished when its transmittance would be at most this.
_LEAST_TRANSMITTANCE = 1e-4
# Few enough that the lists of opaque tiles end early.
_LISTED_AT_ONCE = 256


def _tile_bits(tile_width: int, tile_height: int) -> int:
    return (tile_width * tile_height).bit_length()


@without_autocast
@torch.no_grad()
def isect_tiles(
    means2d: Tensor,
    radii: Tensor,
    depths: Tensor,
    tile_size: int,
    tile_width: int,
    tile_height: int,
    sort: bool = True,
    segmented: bool = False,
    packed: bool = False,
    n_images: int | None = None,
    image_ids: Tensor | None = None,
    gaussian_ids: Tensor | None = None,
    conics: Tensor | None = None,
    opacities: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The tiles that the boxes of splats touch: `tiles_per_gauss` (..., N), i32, and per splat and tile `isect_ids`, i64,
    and `flatten_ids`, i32, the index among all splats of all images.

    An id is the image, the tile and the bits of the depth: `image << (tile bits + 32) | tile << 32 | depth`. With
    `packed`, the first three are rows (nnz, ...) and `image_ids` and `n_images` are required. `segmented`, `conics` and
    `opacities` have no effect.
    """
    shape = depths.shape
    if packed:
        if image_ids is None or n_images is None:
            raise ArgumentError("image_ids and n_images are required with packed=True", "argument")
        images = image_ids.long()
    else:
        images = torch.arange(math.prod(shape[:-1])).repeat_interleave(shape[-1])
    centres, sizes = means2d.reshape(-1, 2) / tile_size, radii.reshape(-1, 2) / tile_size
    limit = centres.new_tensor([tile_width, tile_height])
    low = (centres - sizes).floor().clamp(min=0).minimum(limit).long()
    high = (centres + sizes).ceil().clamp(min=0).minimum(limit).long()
    counts = (high - low).prod(-1) * (sizes > 0).all(-1)

    owner = torch.arange(len(counts)).repeat_interleave(counts)
    place = torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]
    columns = (high - low)[owner, 0]
    row = low[owner, 1] + torch.div(place, columns, rounding_mode="floor")
    tile = row * tile_width + low[owner, 0] + place % columns
    bits = depths.reshape(-1).float().contiguous().view(torch.int32).long() & 0xFFFFFFFF
    ids = (images[owner] << (_tile_bits(tile_width, tile_height) + 32)) | (tile << 32) | bits[owner]
    if sort:
        ids, order = ids.sort(stable=True)
        owner = owner[order]
    return counts.reshape(shape).to(torch.int32), ids, owner.to(torch.int32)


@torch.no_grad()
def isect_offset_encode(isect_ids: Tensor, n_images: int, tile_width: int, tile_height: int) -> Tensor:
    """Where the list of each tile begins in sorted `isect_ids`: (images, tile_height, tile_width), i32."""
    bits = _tile_bits(tile_width, tile_height)
    keys = isect_ids >> 32
    slots = (keys >> bits) * (tile_width * tile_height) + (keys & ((1 << bits) - 1))
    counts = torch.bincount(slots, minlength=n_images * tile_width * tile_height)
    return (counts.cumsum(0) - counts).reshape(n_images, tile_height, tile_width).to(torch.int32)


def _alphas(pixels: Tensor, means2d: Tensor, conics: Tensor, opacities: Tensor, alpha_max: float) -> Tensor:
    """Alphas (pixels, splats) of a tile, 0 where a splat is left out."""
    x, y = (pixels[:, None, :] - means2d).unbind(-1)
    a, b, c = conics.unbind(-1)
    power = 0.5 * (a * x * x + c * y * y) + b * x * y
    raw = opacities * torch.exp(-power)
    return raw.clamp(max=alpha_max).where((power >= 0) & (raw >= LEAST_ALPHA), raw.new_zeros(()))


def _blend(
    pixels: Tensor, means2d: Tensor, conics: Tensor, opacities: Tensor, colors: Tensor, alpha_max: float
) -> tuple[Tensor, Tensor]:
    """Colours (pixels, D) and alphas (pixels, 1) of a tile whose splats are sorted by depth."""
    alphas = _alphas(pixels, means2d, conics, opacities, alpha_max)
    with torch.no_grad():
        is_open = torch.cumprod(1 - alphas, -1) > _LEAST_TRANSMITTANCE
    alphas = alphas.where(is_open, alphas.new_zeros(()))
    after = torch.cumprod(1 - alphas, -1)
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], -1)
    return (alphas * before) @ colors, 1 - after[:, -1:]


def _check_tiles(isect_offsets: Tensor, tile_size: int, width: int, height: int) -> None:
    rows, columns = isect_offsets.shape[-2:]
    if rows * tile_size < height or columns * tile_size < width:
        found = f"{columns}x{rows} tiles of {tile_size} px"
        raise ArgumentError(f"isect_offsets: {found} do not cover {width}x{height} px", "argument")


def _tiles(isect_offsets: Tensor, flatten_ids: Tensor, tile_size: int) -> list[tuple[int, int, int, int]]:
    """Per tile: x and y of its corner, px, and begin and end of its list."""
    rows, columns = isect_offsets.shape[-2:]
    starts = isect_offsets.reshape(-1).tolist()
    ends = starts[1:] + [len(flatten_ids)]
    corners = [(k % columns * tile_size, k // columns % rows * tile_size) for k in range(len(starts))]
    return [(*corner, start, end) for corner, start, end in zip(corners, starts, ends)]


def _pixels(x: int, y: int, tile_size: int, dtype: torch.dtype) -> Tensor:
    """Centres (tile_size², 2) of the pixels of a tile, row by row."""
    side = torch.arange(tile_size, dtype=dtype) + 0.5
    return torch.stack([(x + side).repeat(tile_size), (y + side).repeat_interleave(tile_size)], -1)


@without_autocast
def rasterize_to_pixels(
    means2d: Tensor,
    conics: Tensor,
    colors: Tensor,
    opacities: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None = None,
    masks: Tensor | None = None,
    packed: bool = False,
    absgrad: bool = False,
    *,
    alpha_max: float = 0.99,
) -> tuple[Tensor, Tensor]:
    """Blends splats: colours (..., H, W, D) and alphas (..., H, W, 1).

    `means2d` (..., N, 2), `conics` (..., N, 3), `colors` (..., N, D) and `opacities` (..., N), or rows (nnz, ...) with
    `packed`; `isect_offsets` (..., tile_height, tile_width) and `flatten_ids` as `isect_tiles` and
    `isect_offset_encode` return them. `backgrounds` (..., D). Tiles where `masks` is false show the background.
    """
    if absgrad:
        raise ArgumentError("absgrad=True is not supported here (rasterization has it)", "argument")
    _check_tiles(isect_offsets, tile_size, image_width, image_height)
    shape, (rows, columns), channels = isect_offsets.shape[:-2], isect_offsets.shape[-2:], colors.shape[-1]
    listed = flatten_ids.long()
    splats = (
        means2d.reshape(-1, 2)[listed],
        conics.reshape(-1, 3)[listed],
        opacities.reshape(-1)[listed],
        colors.reshape(-1, channels)[listed],
    )
    shown = None if masks is None else masks.reshape(-1).tolist()
    # A sum of nothing: where no tile has splats, gradients are 0 instead of missing.
    zero = sum(t.reshape(-1)[:0].sum() for t in (means2d, conics, colors, opacities))
    nothing = (colors.new_zeros(tile_size**2, channels) + zero, colors.new_zeros(tile_size**2, 1) + zero)
    tiles = _tiles(isect_offsets, flatten_ids, tile_size)
    # Not slices: the backward pass of each would write zeros for all other tiles.
    lists = zip(*(t.split([end - start for _, _, start, end in tiles]) for t in splats))
    found = []
    for k, ((x, y, start, end), listed_splats) in enumerate(zip(tiles, lists)):
        if start == end or (shown is not None and not shown[k]):
            found.append(nothing)
            continue
        pixels = _pixels(x, y, tile_size, means2d.dtype)
        # The backward pass blends again, so that the memory is that of one tile.
        found.append(checkpoint(_blend, pixels, *listed_splats, alpha_max, use_reentrant=False))

    def image(k: int, depth: int) -> Tensor:
        pieces = torch.stack([tile[k] for tile in found]).reshape(-1, rows, columns, tile_size, tile_size, depth)
        whole = pieces.transpose(2, 3).reshape(-1, rows * tile_size, columns * tile_size, depth)
        return whole[:, :image_height, :image_width].reshape(*shape, image_height, image_width, depth)

    image_colors, alphas = image(0, channels), image(1, 1)
    if backgrounds is not None:
        image_colors = image_colors + backgrounds[..., None, None, :] * (1 - alphas)
    return image_colors, alphas


@without_autocast
@torch.no_grad()
def rasterize_to_indices_in_range(
    range_start: int,
    range_end: int,
    transmittances: Tensor,
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    *,
    alpha_max: float = 0.99,
) -> tuple[Tensor, Tensor, Tensor]:
    """Which splats each pixel blends: ids of splats, pixels (row by row) and images, (M,) each, near to far in a pixel.

    Of the list of each tile, the batches `range_start` to `range_end` of `tile_size²` splats count; `transmittances`
    (..., H, W) are those before. Other arguments as those of `rasterize_to_pixels`.
    """
    _check_tiles(isect_offsets, tile_size, image_width, image_height)
    rows, columns = isect_offsets.shape[-2:]
    count, block = means2d.shape[-2], tile_size**2
    flat = (means2d.reshape(-1, 2), conics.reshape(-1, 3), opacities.reshape(-1))
    before = transmittances.reshape(-1, image_height, image_width)
    splats, places = [torch.zeros(0, dtype=torch.int64)], [torch.zeros(0, dtype=torch.int64)]
    for k, (x, y, start, end) in enumerate(_tiles(isect_offsets, flatten_ids, tile_size)):
        start, end = start + int(range_start) * block, min(end, start + int(range_end) * block)
        if start >= end:
            continue
        image = k // (rows * columns)
        pixels = _pixels(x, y, tile_size, means2d.dtype)
        column, row = pixels.long().unbind(-1)
        is_inside = (column < image_width) & (row < image_height)
        pixels, place = pixels[is_inside], (row * image_width + column)[is_inside]
        left = before[image].reshape(-1)[place]
        for listed in flatten_ids[start:end].long().split(_LISTED_AT_ONCE):
            alphas = _alphas(pixels, flat[0][listed], flat[1][listed], flat[2][listed], alpha_max)
            after = left[:, None] * torch.cumprod(1 - alphas, -1)
            pixel, splat = torch.where((alphas > 0) & (after > _LEAST_TRANSMITTANCE))
            splats.append(listed[splat] % count)
            places.append(image * image_height * image_width + place[pixel])
            left = after[:, -1]
            if (left <= _LEAST_TRANSMITTANCE).all():
                break
    place, order = torch.cat(places).sort(stable=True)
    size = image_height * image_width
    return torch.cat(splats)[order], place % size, torch.div(place, size, rounding_mode="floor")


@without_autocast
def accumulate(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    colors: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
    *,
    alpha_max: float = 0.99,
) -> tuple[Tensor, Tensor]:
    """Blends what `rasterize_to_indices_in_range` lists: colours (..., H, W, D) and alphas (..., H, W, 1)."""
    shape, count, channels = means2d.shape[:-2], means2d.shape[-2], colors.shape[-1]
    rows = image_ids * count + gaussian_ids
    centres = torch.stack([pixel_ids % image_width, torch.div(pixel_ids, image_width, rounding_mode="floor")], -1) + 0.5
    x, y = (centres - means2d.reshape(-1, 2)[rows]).unbind(-1)
    a, b, c = conics.reshape(-1, 3)[rows].unbind(-1)
    power = 0.5 * (a * x * x + c * y * y) + b * x * y
    alphas = (opacities.reshape(-1)[rows] * torch.exp(-power)).clamp(max=alpha_max)

    # One running sum over all pixels: in f64, or it would lose digits.
    places = image_ids * (image_height * image_width) + pixel_ids
    logs = torch.log1p(-alphas.double())
    sums = logs.cumsum(0) - logs
    is_first = torch.cat([places.new_ones(1, dtype=torch.bool), places[1:] != places[:-1]])[: len(places)]
    starts = torch.where(is_first)[0]
    of_pixel = is_first.long().cumsum(0) - 1
    weights = alphas * torch.exp(sums - sums[starts][of_pixel]).to(alphas.dtype)

    size = (math.prod(shape) * image_height * image_width, channels)
    image = colors.new_zeros(size).index_add(0, places, weights[:, None] * colors.reshape(-1, channels)[rows])
    alpha = weights.new_zeros(size[0]).index_add(0, places, weights)
    return (
        image.reshape(*shape, image_height, image_width, channels),
        alpha.reshape(*shape, image_height, image_width, 1),
    )
