"""`rasterization`: the renderer with gradients by torch, on the CPU.

It takes the arguments of gsplat 1.6 and returns what it returns. Shapes: `...` are batch dimensions, `N` splats,
`C` views, `D` channels. Lengths are scene units, `means2d` and `radii` px.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import _gausset
from ._errors import whole
from ._projection import fully_fused_projection
from ._shade import Features
from ._tensors import array, given, on_cpu, refuse, shape, tensor, without_autocast
from ._tiles import isect_offset_encode, isect_tiles, rasterize_to_pixels

# Largest alpha, and least compensation of the opacity in antialiased mode, by the version of gsplat.
_RULES = {"1.6": (0.99, 0.005), "1.5": (0.999, 0.0)}
_compat = "1.6"

# Arguments that are accepted with these values only.
_REFUSED: dict[str, tuple[Any, str]] = {
    "distributed": (False, "one process renders"),
    "with_ut": (False, "EWA splatting only"),
    "with_eval3d": (False, "EWA splatting only"),
    "return_normals": (False, "normals are not rendered"),
    "global_z_order": (True, "splats are ordered by depth"),
    "rays": (None, "cameras only"),
    "radial_coeffs": (None, "undistort the images first"),
    "tangential_coeffs": (None, "undistort the images first"),
    "thin_prism_coeffs": (None, "undistort the images first"),
    "ftheta_coeffs": (None, "undistort the images first"),
    "lidar_coeffs": (None, "cameras only"),
    "external_distortion_coeffs": (None, "undistort the images first"),
    "rolling_shutter": (None, "global shutter only"),
    "viewmats_rs": (None, "global shutter only"),
    "renderer_config": (None, "there is one renderer"),
}
_RENDER_MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
_CAMERA_MODELS = ("pinhole", "ortho", "fisheye", "equirectangular")


def set_compat(version: str) -> None:
    """Sets whose rules all later calls follow: `1.6` (alpha at most 0.99, compensation at least 0.005) or `1.5`
    (0.999, 0)."""
    global _compat
    if version not in _RULES:
        raise refuse(f"version: {version!r} (expected one of {', '.join(_RULES)})")
    _compat = version


class _Owner(np.ndarray[Any, np.dtype[np.uint8]]):
    """The memory of a saved tensor: torch drops it in the backward pass, and with it the views."""

    views: list[Any]


# By address, which also finds the owner of a tensor that a hook of `torch.autograd.graph` saved in place of another.
_owners: weakref.WeakValueDictionary[int, _Owner] = weakref.WeakValueDictionary()


def _saved(views: list[Any]) -> Tensor:
    """A tensor to save for the backward pass that owns the views."""
    owner = np.zeros(1, np.uint8).view(_Owner)
    owner.views = views
    found = torch.from_numpy(owner)
    _owners[found.data_ptr()] = owner
    return found


def _views(saved: Tensor) -> list[Any]:
    owner = _owners.get(saved.data_ptr())
    if owner is None:
        raise refuse("a hook on saved tensors copied those of rasterization, which is not supported")
    return owner.views


class _Project(Function):
    """Splats and views to the screen: means2d (C, N, 2), conics (C, N, 3), depths, opacities (C, N), radii (C, N, 2)."""

    @staticmethod
    def forward(
        ctx: Any,
        means: Tensor,
        quats: Tensor,
        scales: Tensor,
        opacities: Tensor,
        viewmats: Tensor,
        settings: _Settings,
    ) -> tuple[Tensor, ...]:
        rows: tuple[Tensor, ...] = (means, quats, scales, opacities[:, None])
        finite = torch.cat(rows, 1).isfinite().all(1)
        if not finite.all():
            # Not drawn, with gradient 0.
            rows = tuple(value.where(finite[:, None], value.new_zeros(())) for value in rows)
        splats = _gausset.ActivatedSplats(array(rows[0]), array(rows[1]), array(rows[2]), array(rows[3][:, 0]))
        found = [
            _gausset.project(splats, pose, lens, settings.size, settings.rules, settings.antialiased)
            for pose, lens in zip(viewmats.tolist(), settings.lenses)
        ]
        settings.views = [view[0] for view in found]
        ctx.save_for_backward(_saved(settings.views))
        ctx.set_materialize_grads(False)
        if found:
            outputs = [torch.stack([torch.from_numpy(view[k]) for view in found]) for k in range(1, 6)]
        else:
            count = len(means)
            outputs = [means.new_zeros(0, count, *tail) for tail in ((2,), (3,), (), ())]
            outputs.append(torch.zeros(0, count, 2, dtype=torch.int32))
        ctx.mark_non_differentiable(outputs[4])
        ctx.shapes = [output.shape for output in outputs[:4]]
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        views = _views(*ctx.saved_tensors)
        upstream = [
            torch.zeros(shape) if gradient is None else gradient
            for gradient, shape in zip(gradients[:4], ctx.shapes)
        ]
        sums: list[Tensor] | None = None
        viewmats = torch.zeros(len(views), 4, 4)
        for k, view in enumerate(views):
            *found, pose = view.project_vjp(*(array(gradient[k]) for gradient in upstream))
            viewmats[k, :3] = torch.tensor(pose)
            found = [torch.from_numpy(array) for array in found]
            sums = found if sums is None else [a + b for a, b in zip(sums, found)]
        return (*(sums or (None,) * 4), viewmats, None)


def _project_in_torch(
    tensors: list[Tensor], is_finite: Tensor, viewmats: Tensor, Ks: Tensor, settings: _Settings, camera_model: str
) -> list[Tensor]:
    """As `_Project` of all batches, (batch * C, N, ...), for inputs that the kernels do not take. `tensors` are means
    (batch, N, 3), opacities (batch, N), and covariances (batch, N, 3, 3) or quaternions and scales."""
    zero = viewmats.new_zeros(())
    means, opacities, *shapes = (
        value.where(is_finite.reshape(*is_finite.shape, *[1] * (value.dim() - 2)), zero) for value in tensors
    )
    near, far, eps2d, _, least, clip = settings.rules
    upper = torch.triu_indices(3, 3)
    covars, quats, scales = (shapes[0][..., upper[0], upper[1]], None, None) if len(shapes) == 1 else (None, *shapes)
    radii, means2d, depths, conics, compensations = fully_fused_projection(
        means,
        covars,
        quats,
        scales,
        viewmats,
        Ks,
        settings.size[0],
        settings.size[1],
        eps2d=eps2d,
        near_plane=near,
        far_plane=far,
        radius_clip=clip,
        calc_compensations=settings.antialiased,
        camera_model=camera_model,
        opacities=opacities,
        least_compensation=least,
    )
    assert means2d is not None and depths is not None and conics is not None and radii is not None
    seen = opacities[:, None] * (torch.ones_like(depths) if compensations is None else compensations)
    return [value.flatten(0, 1) for value in (means2d, conics, depths, seen, radii)]


class _SparseGradient(Function):
    """The input. Its gradient is sparse: the rows (N, ...) that `holder` names by the time of the backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, holder: list[Tensor]) -> Tensor:
        ctx.holder = holder
        return value.view_as(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.holder
        return torch.sparse_coo_tensor(rows[None], gradient[rows], gradient.shape), None


class _Blend(Function):
    """Images from splats on the screen: colours (C, H, W, D), alphas and depths (C, H, W, 1).

    The values of the first four are those that the views have already; they are inputs because of their gradients.
    `rows` are the splats of each view in packed tensors, `None` = all, in (C, N) tensors.
    """

    @staticmethod
    def forward(
        ctx: Any,
        means2d: Tensor,
        conics: Tensor,
        depths: Tensor,
        opacities: Tensor,
        colors: Tensor,
        background: Tensor | None,
        views: list[_gausset.View],
        rows: list[Tensor] | None,
        absgrad: Tensor | None,
    ) -> tuple[Tensor, ...]:
        images: list[tuple[Any, ...]] = []
        for k, view in enumerate(views):
            images.append(view.blend(array(colors[k]), None if background is None else array(background[k])))
        ctx.save_for_backward(colors, _saved(views))
        ctx.rows, ctx.absgrad = rows, absgrad
        ctx.shapes = [value.shape for value in (means2d, conics, depths, opacities)]
        ctx.has_background = background is not None
        ctx.set_materialize_grads(False)
        return tuple(torch.stack([torch.from_numpy(image[k]) for image in images]) for k in range(3))

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, color: Tensor | None, alpha: Tensor | None, depth: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        colors, saved = ctx.saved_tensors
        screen: list[list[Tensor]] = [[] for _ in range(4)]
        of_colors, of_background, absolute = [], [], []
        for k, view in enumerate(_views(saved)):
            upstream = (given(None if image is None else image[k]) for image in (color, alpha, depth))
            found = view.blend_vjp(array(colors[k]), *upstream, ctx.absgrad is not None)
            found = [torch.from_numpy(array) for array in found]
            pick = slice(None) if ctx.rows is None else ctx.rows[k]
            for to, gradient in zip(screen, found):
                to.append(gradient[pick])
            absolute.append(found[4][pick])
            of_colors.append(found[5])
            of_background.append(found[6])
        joined = [torch.cat(parts).reshape(shape) for parts, shape in zip(screen, ctx.shapes)]
        if ctx.absgrad is not None:
            ctx.absgrad.copy_(torch.cat(absolute).reshape(ctx.absgrad.shape))
        background = torch.stack(of_background) if ctx.has_background else None
        return (*joined, torch.stack(of_colors), background, None, None, None)


class _Settings:
    """What the views of a call share; `_Project` adds its views."""

    def __init__(self, size: tuple[int, int], rules: tuple[float, ...], antialiased: bool, lenses: list[Any]):
        self.size, self.rules, self.antialiased, self.lenses = size, rules, antialiased, lenses
        self.views: list[Any] = []


def _lenses(Ks: Tensor, camera_model: str) -> list[Any]:
    """`fx, fy, cx, cy` of each view."""
    if camera_model == "equirectangular":
        return [None] * len(Ks)
    lenses = []
    for k, ((fx, skew, cx), (_, fy, cy), _) in enumerate(Ks.detach().double().tolist()):
        if skew != 0.0:
            raise refuse(f"Ks: view {k} has skew {skew:g} (expected 0)")
        if not all(math.isfinite(v) for v in (fx, fy, cx, cy)) or fx <= 0.0 or fy <= 0.0:
            raise refuse(f"Ks: view {k} has focal lengths {fx:g}, {fy:g}, principal point {cx:g}, {cy:g}")
        lenses.append((fx, fy, cx, cy))
    return lenses


def _check_settings(
    camera_model: str, rasterize_mode: str, render_mode: str, tile_size: int | None, absgrad: bool
) -> None:
    if camera_model not in _CAMERA_MODELS:
        raise refuse(f"camera_model: {camera_model!r} (expected one of {', '.join(_CAMERA_MODELS)})")
    if rasterize_mode not in ("classic", "antialiased"):
        raise refuse(f"rasterize_mode: {rasterize_mode!r} (expected 'classic' or 'antialiased')")
    if render_mode not in _RENDER_MODES:
        raise refuse(f"render_mode: {render_mode!r} (expected one of {', '.join(_RENDER_MODES)})")
    if tile_size not in (None, 16):
        raise refuse(f"tile_size: {tile_size} (expected None or 16)")


@without_autocast
def rasterization(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    colors: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int | None = None,
    backgrounds: Tensor | None = None,
    render_mode: str = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: str = "classic",
    channel_chunk: int = 32,
    distributed: bool = False,
    camera_model: str = "pinhole",
    segmented: bool = False,
    covars: Tensor | None = None,
    with_ut: bool = False,
    with_eval3d: bool = False,
    return_normals: bool = False,
    global_z_order: bool = True,
    *,
    extra_signals: Tensor | None = None,
    extra_signals_sh_degree: int | None = None,
    compat: str | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Renders splats in views, with gradients. Shapes:

    `means` (..., N, 3), `quats` (..., N, 4) `w x y z` of any length, `scales` (..., N, 3) and `opacities` (..., N) as they
    are (no logarithms, no logits), `viewmats` (..., C, 4, 4) world to camera, `Ks` (..., C, 3, 3) px.
    `colors`: with `sh_degree` (0..4) coefficients ([...,] N, K, D), else channels (..., N, D) or (..., C, N, D).
    `backgrounds` (..., C, D). `covars` (..., N, 3, 3), of which the upper triangle counts, replace `quats` and `scales`.
    Gradients go to all of them except `Ks`; with `sparse_grad`, those of means, quats, scales or covars are sparse.

    Returns colours (..., C, H, W, X), alphas (..., C, H, W, 1) and a dictionary: `means2d`, `conics`, `depths`,
    `opacities`, `radii` and more, of all splats or, if `packed`, of those in view. With `absgrad`, `means2d.absgrad` has
    the sums of absolute gradients after the backward pass. `render_mode` `D` is the sum of weight times depth; `ED`
    divides it by alpha.

    `extra_signals` are more channels, as `colors` but negative too with `extra_signals_sh_degree`; their images (..., C, H,
    W, E) are `render_extra_signals` of the dictionary.

    `compat="1.5"` follows gsplat 1.5 where 1.6 differs. `segmented` and `channel_chunk` have no effect.

    The kernels take f32, quaternions and scales, pinhole and equirectangular cameras. f64, `covars`, `ortho` and
    `fisheye` are computed in torch: slowly, and without `absgrad`.
    """
    maybe_refused = {name: value for name, value in locals().items() if name in _REFUSED}
    for name, value in {**maybe_refused, **others}.items():
        if name not in _REFUSED:
            raise TypeError(f"rasterization() got an unexpected keyword argument {name!r}")
        expected, reason = _REFUSED[name]
        if not (value is expected or (isinstance(value, bool) and value == expected)):
            shown = "a tensor" if isinstance(value, Tensor) else repr(value)
            raise refuse(f"{name}={shown} is not supported ({reason})")
    _check_settings(camera_model, rasterize_mode, render_mode, tile_size, absgrad)
    rules = _RULES.get(compat or _compat)
    if rules is None:
        raise refuse(f"compat: {compat!r} (expected one of {', '.join(_RULES)})")
    if not near_plane < far_plane:
        raise refuse(f"near_plane, far_plane: {near_plane}, {far_plane} (expected near < far)")
    if not (eps2d >= 0.0 and math.isfinite(eps2d)):
        raise refuse(f"eps2d: {eps2d} (expected 0 or more, px²)")
    if not (radius_clip >= 0.0 and math.isfinite(radius_clip)):
        raise refuse(f"radius_clip: {radius_clip} (expected 0 or more, px)")
    width, height = whole("width", width, 1, 32768), whole("height", height, 1, 32768)

    tensor("means", means, None, 3)
    batch, count = tuple(means.shape[:-2]), means.shape[-2]
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {"quats": (quats, (count, 4)), "scales": (scales, (count, 3))}
    if covars is not None:
        shapes = {"covars": (covars, (count, 3, 3))}
    for name, (value, tail) in {**shapes, "opacities": (opacities, (count,))}.items():
        shape(name, tensor(name, value, *tail), *batch, *tail)
    tensor("viewmats", viewmats, None, 4, 4)
    views = viewmats.shape[-3]
    shape("viewmats", viewmats, *batch, views, 4, 4)
    shape("Ks", tensor("Ks", Ks, None, 3, 3), *batch, views, 3, 3)
    if 0 in (views, *batch):
        raise refuse(f"viewmats: shape {list(viewmats.shape)} (expected at least one view)")

    has_colors = "RGB" in render_mode
    features = []
    if has_colors:
        if colors is None:
            raise refuse(f"colors: None (expected a tensor for render_mode {render_mode!r})")
        features.append(Features("colors", colors, sh_degree, batch, views, count))
    extra = 0
    if extra_signals is not None:
        features.append(Features("extra_signals", extra_signals, extra_signals_sh_degree, batch, views, count))
        extra = features[-1].channels
    channels = sum(part.channels for part in features)
    if absgrad and channels > 3:
        raise refuse(f"absgrad=True is not supported with {channels} channels (at most 3)")
    if backgrounds is not None:
        depth_channels = int(render_mode.endswith("D"))
        tail = tuple(tensor("backgrounds", backgrounds, None).shape)
        fitting = (channels - extra, channels, channels - extra + depth_channels)
        # Without colours, as in gsplat, any size fits.
        if tail[:-1] != (*batch, views) or (has_colors and tail[-1] not in fitting):
            expected = [*batch, views, channels - extra if has_colors else "D"]
            raise refuse(f"backgrounds: shape {list(tail)} (expected {expected})")
        if tail[-1] != channels:
            backgrounds = backgrounds[..., : channels - extra]
            backgrounds = torch.nn.functional.pad(backgrounds, (0, extra))
        backgrounds = backgrounds if channels else None

    is_slow = covars is not None or camera_model in ("ortho", "fisheye")
    is_slow |= means.dtype == torch.float64 and camera_model == "pinhole"
    if is_slow and absgrad:
        raise refuse("absgrad=True is not supported with f64, covars, ortho or fisheye")
    if is_slow and camera_model == "equirectangular":
        raise refuse("covars=a tensor is not supported with camera_model 'equirectangular'")
    visible_rows: list[Tensor] = []
    if sparse_grad:
        if batch or not packed:
            raise refuse("sparse_grad=True is not supported with batches or packed=False")
        means = _SparseGradient.apply(means, visible_rows)
        shapes = {name: (_SparseGradient.apply(value, visible_rows), tail) for name, (value, tail) in shapes.items()}

    device, dtype = means.device, means.dtype
    work = torch.float64 if is_slow and dtype == torch.float64 else torch.float32
    flat = math.prod(batch)
    means, opacities, viewmats, *forms = (
        on_cpu(value, work).reshape(flat, *value.shape[len(batch) :])
        for value in (means, opacities, viewmats, *(value for value, _ in shapes.values()))
    )
    Ks = Ks.reshape(flat * views, 3, 3)
    lenses = _lenses(Ks, camera_model)
    limits = (near_plane, far_plane, eps2d, rules[0], rules[1], radius_clip)
    antialiased = rasterize_mode == "antialiased"
    for part in features:
        part.prepare(work)

    all_views: list[Any] = []
    if is_slow:
        given_tensors = [means, opacities, *forms]
        finite = torch.stack([value[..., None].flatten(2).isfinite().all(-1) for value in given_tensors]).all(0)
        for part in features:
            finite = finite & part.without_nan()
        settings = _Settings((width, height), limits, antialiased, lenses)
        lens = on_cpu(Ks, work).reshape(flat, views, 3, 3)
        screen = _project_in_torch(given_tensors, finite, viewmats, lens, settings, camera_model)
    else:
        screens = []
        for b in range(flat):
            settings = _Settings((width, height), limits, antialiased, lenses[b * views : (b + 1) * views])
            own_splats = (means[b], *(value[b] for value in forms), opacities[b])
            screens.append(_Project.apply(*own_splats, viewmats[b], settings))
            all_views += settings.views
        screen = [torch.cat(parts) for parts in zip(*screens)]
    means2d, conics, depths, compensated, radii = screen

    visible = (radii > 0).all(-1)
    rows = None
    view_ids = splat_ids = None
    if packed:
        view_ids, splat_ids = torch.where(visible)
        rows = [splat_ids[view_ids == k] for k in range(flat * views)]
        picked = (view_ids, splat_ids)
        means2d, conics, depths = means2d[picked], conics[picked], depths[picked]
        compensated, radii = compensated[picked], radii[picked]
        if sparse_grad:
            visible_rows.append(splat_ids.unique())
    else:
        # What is blended is what the dictionary has, so that gradients arrive there.
        means2d, conics, depths, compensated, radii = (
            value.reshape(*batch, views, *value.shape[1:]) for value in (means2d, conics, depths, compensated, radii)
        )

    # Colours are not negative; extra signals may be.
    parts = [part.shaded(means, viewmats, visible, has_colors and k == 0) for k, part in enumerate(features)]
    parts = parts or [means.new_zeros(flat * views, count, 0)]
    painted = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    background = None if backgrounds is None else on_cpu(backgrounds, work).reshape(flat * views, channels)
    on_screen = (means2d, conics, depths, compensated, radii)
    tiles = _Tiles((width, height), flat * views, view_ids, *(on_screen[k].detach() for k in (0, 2, 4)))

    holder = torch.zeros_like(means2d, requires_grad=False) if absgrad else None
    if is_slow:
        rows_shape = (*depths.shape, painted.shape[-1])
        painted = painted.reshape(rows_shape) if view_ids is None else painted[view_ids, splat_ids]
        painted = torch.cat([painted, depths[..., None]], -1)
        if background is not None:
            background = torch.cat([background, background.new_zeros(flat * views, 1)], -1)
        lists = (16, tiles.lists["isect_offsets"], tiles.lists["flatten_ids"])
        images, alphas = rasterize_to_pixels(
            means2d, conics, painted, compensated, width, height, *lists, background, packed=packed, alpha_max=rules[0]
        )
        images, depth = images[..., :-1], images[..., -1:]
    else:
        images, alphas, depth = _Blend.apply(
            means2d, conics, depths, compensated, painted, background, all_views, rows, holder
        )
    images, signals = images[..., : channels - extra], images[..., channels - extra :]
    if render_mode.endswith("D"):
        if render_mode.endswith("ED"):
            depth = depth / alphas.clamp(min=1e-10)
        images = torch.cat([images, depth], dim=-1) if has_colors else depth

    meta = _meta(batch, views, on_screen, (view_ids, splat_ids), tiles)
    if holder is not None:
        meta["means2d"].absgrad = holder
    size = (*batch, views, height, width)
    if extra:
        meta["render_extra_signals"] = signals.reshape(*size, extra).to(device=device, dtype=dtype)
    images, alphas = images.reshape(*size, images.shape[-1]), alphas.reshape(*size, 1)
    return images.to(device=device, dtype=dtype), alphas.to(device=device, dtype=dtype), meta


class _Tiles:
    """The tiles of gsplat's lists, made at the first use: they cost time, and the kernels have lists of their own."""

    def __init__(
        self, size: tuple[int, int], images: int, image_ids: Tensor | None, means2d: Tensor, depths: Tensor, radii: Tensor
    ) -> None:
        self.width, self.height = (-(-side // 16) for side in size)
        self.size, self.images, self.image_ids = size, images, image_ids
        self.means2d, self.depths, self.radii = means2d, depths, radii

    @functools.cached_property
    def lists(self) -> dict[str, Tensor]:
        packed = self.image_ids is not None
        counts, ids, splats = isect_tiles(
            self.means2d,
            self.radii,
            self.depths,
            16,
            self.width,
            self.height,
            packed=packed,
            n_images=self.images,
            image_ids=self.image_ids,
        )
        offsets = isect_offset_encode(ids, self.images, self.width, self.height)
        return {"tiles_per_gauss": counts, "isect_ids": ids, "flatten_ids": splats, "isect_offsets": offsets}


class _Meta(dict[str, Any]):
    """A dictionary whose intersections of splats and tiles are computed when they are asked for."""

    def __init__(self, values: dict[str, Any], tiles: _Tiles, batch: tuple[int, ...], views: int) -> None:
        super().__init__(values)
        self._tiles: _Tiles | None = tiles
        self._batch, self._views = batch, views

    def fill(self) -> None:
        """Computes the lists, once."""
        if self._tiles is None:
            return
        for name, value in self._tiles.lists.items():
            if name == "isect_offsets":
                value = value.reshape(*self._batch, self._views, *value.shape[1:])
            super().setdefault(name, value)
        self._tiles = None

    def __missing__(self, key: str) -> Tensor:
        if self._tiles is None or key not in _LISTS:
            raise KeyError(key)
        self.fill()
        found: Tensor = self[key]
        return found

    def __contains__(self, key: object) -> bool:
        return (self._tiles is not None and key in _LISTS) or super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default


def _filled(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    @functools.wraps(method)
    def call(self: _Meta, *arguments: Any, **values: Any) -> Any:
        self.fill()
        return method(self, *arguments, **values)

    return call


# What sees all entries, or takes some away. `dict(meta)` and `{**meta}` call these, for there is an `__iter__`.
for _name in ("__delitem__", "__eq__", "__iter__", "__len__", "__ne__", "__or__", "__reversed__", "__ror__"):
    setattr(_Meta, _name, _filled(_name))
for _name in ("copy", "items", "keys", "pop", "popitem", "setdefault", "values"):
    setattr(_Meta, _name, _filled(_name))

_LISTS = ("tiles_per_gauss", "isect_ids", "flatten_ids", "isect_offsets")


def _meta(
    batch: tuple[int, ...],
    views: int,
    screen: tuple[Tensor, ...],
    ids: tuple[Tensor | None, Tensor | None],
    tiles: _Tiles,
) -> dict[str, Any]:
    means2d, conics, depths, opacities, radii = screen
    meta: dict[str, Any] = {"batch_ids": None, "camera_ids": None, "gaussian_ids": None}
    view_ids, splat_ids = ids
    if view_ids is not None:
        meta = {
            "batch_ids": torch.div(view_ids, views, rounding_mode="floor"),
            "camera_ids": view_ids % views,
            "gaussian_ids": splat_ids,
        }
    width, height = tiles.size
    values = {
        **meta,
        "radii": radii,
        "means2d": means2d,
        "depths": depths,
        "conics": conics,
        "opacities": opacities,
        "tile_width": tiles.width,
        "tile_height": tiles.height,
        "width": width,
        "height": height,
        "tile_size": 16,
        "n_batches": math.prod(batch),
        "n_cameras": views,
    }
    return _Meta(values, tiles, batch, views)
