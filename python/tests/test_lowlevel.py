"""gsplat's low-level functions and what `rasterization` computes in torch: f64, covariances, two more cameras."""

import math

import gausset
import pytest

torch = pytest.importorskip("torch")

import gausset.gsplat as ours  # noqa: E402
from gausset import _sh  # noqa: E402
from gausset._projection import CAMERA_MODELS  # noqa: E402
from gausset._shade import spherical_harmonics_of_directions  # noqa: E402

WIDTH, HEIGHT = 20, 14


def scene(count=8, views=2, dtype=torch.float64, seed=1):
    random = torch.Generator().manual_seed(seed)

    def uniform(low, high, *shape):
        return torch.rand(*shape, generator=random, dtype=torch.float64).to(dtype) * (high - low) + low

    poses = torch.eye(4, dtype=dtype).repeat(views, 1, 1)
    for k in range(views):
        c, s = math.cos(0.2 * k), math.sin(0.2 * k)
        poses[k, :3, :3] = torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]], dtype=dtype)
        poses[k, :3, 3] = torch.tensor([0.1 * k, 0.05, 0.1], dtype=dtype)
    K = torch.tensor([[12.0, 0, WIDTH / 2], [0, 11.0, HEIGHT / 2], [0, 0, 1]], dtype=dtype)
    means = uniform(-0.7, 0.7, count, 3)
    means[:, 2] += 2.5
    values = {
        "means": means,
        "quats": uniform(-1, 1, count, 4),
        "scales": uniform(0.2, 0.5, count, 3),
        "opacities": uniform(0.2, 0.8, count),
        "colors": uniform(0, 1, count, 3),
        "viewmats": poses,
        "backgrounds": uniform(0, 1, views, 3),
    }
    return values, K.repeat(views, 1, 1)


def render(values, Ks, **options):
    options = {"width": WIDTH, "height": HEIGHT, **options}
    return gausset.rasterization(Ks=Ks, **{**values, **options})


def covars_of(values):
    covars, _ = ours.quat_scale_to_covar_preci(values["quats"], values["scales"], compute_preci=False)
    rest = {name: value for name, value in values.items() if name not in ("quats", "scales")}
    return {**rest, "quats": None, "scales": None, "covars": covars}


@pytest.mark.parametrize("name", ["means", "quats", "scales", "opacities", "colors", "viewmats", "backgrounds"])
@pytest.mark.parametrize("mode", ["classic", "antialiased"])
def test_gradients_in_f64_are_those_of_differences(name, mode):
    values, Ks = scene(count=4, views=1)
    weights = torch.randn(1, HEIGHT, WIDTH, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def loss(value):
        image, alpha, _ = render({**values, name: value}, Ks, render_mode="RGB+ED", rasterize_mode=mode)
        return (image * weights).sum() + alpha.square().sum()

    value = values[name].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(value), value)
    # A difference also sees pixels whose weight crosses 1/255, a jump; its part falls with their number.
    direction = torch.randn(value.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    step = 1e-7
    with torch.no_grad():
        slope = (loss(values[name] + step * direction) - loss(values[name] - step * direction)) / (2 * step)
    assert abs((gradient * direction).sum() - slope) <= 1e-6 * abs(slope) + 1e-8


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("mode", ["classic", "antialiased"])
def test_f64_in_torch_agrees_with_the_kernels_in_f32(packed, mode):
    exact, Ks = scene(count=30)
    exact = {name: value.requires_grad_() for name, value in exact.items()}
    single = {name: value.detach().float().requires_grad_() for name, value in exact.items()}
    options = {"render_mode": "RGB+D", "rasterize_mode": mode, "packed": packed}
    image, alpha, meta = render(exact, Ks, **options)
    fast, fast_alpha, fast_meta = render(single, Ks.float(), **options)
    assert image.dtype == torch.float64 and fast.dtype == torch.float32
    assert (image - fast).abs().max() < 2e-5 and (alpha - fast_alpha).abs().max() < 2e-5
    for key in ("means2d", "depths", "conics", "opacities"):
        picked = (meta["radii"] > 0).all(-1)
        assert (meta[key] - fast_meta[key])[picked].abs().max() < 2e-4, key
    assert torch.equal(meta["radii"], fast_meta["radii"])
    for a, b in zip(
        *(torch.autograd.grad(i.square().sum(), list(v.values())) for i, v in ((image, exact), (fast, single)))
    ):
        assert (a - b).norm() < 1e-4 * a.norm()


def test_covariances_are_quaternions_and_scales():
    values, Ks = scene()
    expected, alpha, _ = render(values, Ks)
    found, _, meta = render(covars_of(values), Ks, packed=True)
    assert (found - expected).abs().max() < 1e-12 and meta["means2d"].requires_grad is False
    single = {name: value.float() for name, value in values.items()}
    found, _, _ = render(covars_of(single), Ks.float(), packed=False)
    assert found.dtype == torch.float32 and (found - expected).abs().max() < 1e-5


@pytest.mark.parametrize("camera_model", CAMERA_MODELS)
def test_the_jacobian_is_the_derivative_of_the_projection(camera_model):
    means = torch.tensor([[[0.3, -0.2, 1.5], [0.0, 0.0, 2.0], [-0.6, 0.4, 0.9]]], dtype=torch.float64)
    Ks = torch.tensor([[[100.0, 0, 64], [0, 90.0, 48], [0, 0, 1]]], dtype=torch.float64)
    covars = torch.eye(3, dtype=torch.float64).expand(1, 3, 3, 3)

    def on_image(point):
        return ours.proj(point[None, None], covars[:, :1], Ks, 128, 96, camera_model)[0][0, 0]

    _, found = ours.proj(means, covars, Ks, 128, 96, camera_model)
    for k, point in enumerate(means[0]):
        jacobian = torch.autograd.functional.jacobian(on_image, point)
        assert torch.allclose(found[0, k], jacobian @ jacobian.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("camera_model", ["ortho", "fisheye"])
def test_other_cameras_see_a_splat_where_it_is(camera_model):
    values, Ks = scene(count=1, views=1)
    values["viewmats"][:] = torch.eye(4)
    values["means"][0] = torch.tensor([0.5, 0.25, 2.0])
    Ks[0, 0, 0] = Ks[0, 1, 1] = 8.0
    _, alpha, meta = render(values, Ks, camera_model=camera_model)
    distance = math.hypot(0.5, 0.25)
    scale = 8.0 if camera_model == "ortho" else 8.0 * math.atan2(distance, 2.0) / distance
    assert torch.allclose(meta["means2d"][0], torch.tensor([10 + 0.5 * scale, 7 + 0.25 * scale], dtype=torch.float64))
    row, column = divmod(int(alpha.argmax()), WIDTH)
    assert abs(column + 0.5 - 10 - 0.5 * scale) <= 0.5 and abs(row + 0.5 - 7 - 0.25 * scale) <= 0.5


def test_nan_is_not_drawn_and_has_no_gradient_in_torch():
    values, Ks = scene()
    values["means"][2] = math.nan
    values["colors"][3] = math.nan
    values["scales"][4] = 0.0
    values = {name: value.requires_grad_() for name, value in values.items()}
    image, _, _ = render(values, Ks)
    assert image.isfinite().all()
    gradients = torch.autograd.grad(image.square().sum(), list(values.values()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][[2, 3]] == 0).all()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("case", ["f64", "covars", "ortho", "fisheye"])
def test_a_view_of_nothing_has_gradients_of_0(case, packed):
    values, Ks = scene(dtype=torch.float64 if case == "f64" else torch.float32)
    values["means"][:, 2] = -5.0
    options = {"camera_model": case} if case in ("ortho", "fisheye") else {}
    values = covars_of(values) if case == "covars" else values
    del values["backgrounds"]
    for count in (8, 0):
        own = {k: v[:count] if v is not None and k != "viewmats" else v for k, v in values.items()}
        leaves = {k: v.clone().requires_grad_() for k, v in own.items() if v is not None}
        for mode in ("RGB+ED", "D"):
            image, alpha, meta = render({**own, **leaves}, Ks, packed=packed, render_mode=mode, **options)
            meta["means2d"].retain_grad()
            (image.sum() + alpha.sum()).backward()
            assert not image.any() and not meta["means2d"].grad.any()
        for name, value in leaves.items():
            assert value.grad is not None and torch.equal(value.grad, torch.zeros_like(value)), name


def test_the_lists_of_tiles_name_each_splat_in_each_tile_that_its_box_touches():
    values, Ks = scene(count=30, dtype=torch.float32)
    lens = {"width": 50, "height": 40}
    Ks[:, 0, 2], Ks[:, 1, 2] = 25, 20
    dense, packed = (render(values, Ks, packed=packed, **lens)[2] for packed in (False, True))
    assert "isect_ids" in dense and "isect_id" not in dense and dense.get("nothing", 5) == 5
    columns, rows = dense["tile_width"], dense["tile_height"]
    assert dense["isect_offsets"].shape == (2, rows, columns) and dense["tiles_per_gauss"].shape == (2, 30)
    starts = dense["isect_offsets"].flatten().tolist() + [len(dense["flatten_ids"])]
    for image in range(2):
        for tile in range(rows * columns):
            row, column = divmod(tile, columns)
            k = image * rows * columns + tile
            listed = dense["flatten_ids"][starts[k] : starts[k + 1]].tolist()
            low = dense["means2d"][image] - dense["radii"][image]
            high = dense["means2d"][image] + dense["radii"][image]
            corner = torch.tensor([column * 16, row * 16])
            touches = (high > corner).all(-1) & (low < corner + 16).all(-1) & (dense["radii"][image] > 0).all(-1)
            expected = torch.where(touches)[0]
            order = dense["depths"][image][expected].argsort()
            assert listed == (image * 30 + expected[order]).tolist()
    # Rows of packed tensors stand for the same splats.
    splats = packed["camera_ids"] * 30 + packed["gaussian_ids"]
    assert torch.equal(splats[packed["flatten_ids"].long()], dense["flatten_ids"].long())
    assert torch.equal(packed["isect_offsets"], dense["isect_offsets"])


def test_pixels_indices_and_sums_agree():
    values, Ks = scene(count=30)
    _, _, meta = render(values, Ks, packed=False)
    colors = values["colors"].expand(2, 30, 3)
    screen = (meta["means2d"], meta["conics"], meta["opacities"])
    lists = (WIDTH, HEIGHT, 16, meta["isect_offsets"], meta["flatten_ids"])
    image, alpha = ours.rasterize_to_pixels(*screen[:2], colors, screen[2], *lists)
    left = torch.ones(2, HEIGHT, WIDTH, dtype=torch.float64)
    splats, pixels, images = ours.rasterize_to_indices_in_range(0, 10**9, left, *screen, *lists)
    again, alpha_again = ours.accumulate(*screen, colors, splats, pixels, images, WIDTH, HEIGHT)
    assert (image - again).abs().max() < 1e-12 and (alpha - alpha_again).abs().max() < 1e-12
    shown = torch.zeros_like(meta["isect_offsets"], dtype=torch.bool)
    background = torch.ones(2, 3, dtype=torch.float64)
    hidden, _ = ours.rasterize_to_pixels(*screen[:2], colors, screen[2], *lists, background, shown)
    assert torch.equal(hidden, torch.ones_like(hidden))


def test_sparse_gradients_are_the_rows_of_splats_in_view():
    values, Ks = scene(count=12, dtype=torch.float32)
    values["means"][3, 2] = -5.0
    found = {}
    for sparse in (False, True):
        own = {name: value.clone().requires_grad_() for name, value in values.items()}
        image, _, _ = render(own, Ks, sparse_grad=sparse)
        image.square().sum().backward()
        found[sparse] = own
    for name in ("means", "quats", "scales"):
        gradient = found[True][name].grad
        assert gradient.is_sparse and 3 not in gradient.coalesce().indices()
        assert torch.equal(gradient.to_dense(), found[False][name].grad)
    assert not found[True]["colors"].grad.is_sparse


def test_spherical_harmonics_are_orthonormal():
    # Points of a product rule that is exact for polynomials of degree 8 on the sphere.
    z, weights = map(torch.tensor, __import__("numpy").polynomial.legendre.leggauss(8))
    angles = torch.arange(16, dtype=torch.float64) * (math.pi / 8)
    ring = (1 - z * z).sqrt()[:, None]
    points = torch.stack([ring * angles.cos(), ring * angles.sin(), z[:, None].expand(8, 16)], -1)
    values = _sh.basis(points, 4)
    products = torch.einsum("ijk,ijl,i->kl", values, values, weights) * (math.pi / 8)
    assert torch.allclose(products, torch.eye(25, dtype=torch.float64), atol=1e-12)


def test_degree_4_and_other_channels_extend_the_kernel():
    values, Ks = scene(count=20, dtype=torch.float32)
    coeffs = torch.randn(20, 25, 3, generator=torch.Generator().manual_seed(4)) * 0.3
    values["colors"] = coeffs
    expected, _, _ = render(values, Ks, sh_degree=3)
    coeffs[:, 16:] = 0
    found, _, _ = render(values, Ks, sh_degree=4)
    assert (found - expected).abs().max() < 1e-6
    wide = torch.cat([coeffs, coeffs[..., :1]], -1)
    found, _, _ = render({**values, "colors": wide, "backgrounds": torch.zeros(2, 4)}, Ks, sh_degree=2)
    assert found.shape[-1] == 4 and torch.equal(found[..., 3], found[..., 0])


def test_spherical_harmonics_of_packed_rows_are_those_of_views():
    values, _ = scene(count=20, dtype=torch.float32)
    coeffs = torch.randn(20, 16, 3, generator=torch.Generator().manual_seed(4))
    dense = ours.spherical_harmonics(3, values["means"], values["viewmats"], coeffs)
    cameras, splats = torch.tensor([0, 0, 1, 1]), torch.tensor([3, 7, 2, 7])
    ids = {"batch_ids": torch.zeros_like(cameras), "camera_ids": cameras, "gaussian_ids": splats}
    rows = ours.spherical_harmonics(3, values["means"], values["viewmats"], coeffs[splats], **ids)
    assert (rows - dense[cameras, splats]).abs().max() < 1e-6
    two = torch.stack([values["means"], values["means"]]), torch.stack([values["viewmats"], values["viewmats"]])
    assert torch.equal(ours.spherical_harmonics(3, *two, coeffs)[1], dense)
    low = ours.spherical_harmonics_l0(coeffs[:, :1])
    high = ours.spherical_harmonics_l1_plus(3, values["means"], values["viewmats"], coeffs[:, 1:])
    assert (low + high - dense).abs().max() < 1e-5


def test_extra_signals_are_more_channels():
    values, Ks = scene(count=20, dtype=torch.float32)
    random = torch.Generator().manual_seed(5)
    signals = torch.randn(20, 2, generator=random)
    expected, _, _ = render(values, Ks, packed=False)
    image, _, meta = render(values, Ks, extra_signals=signals, render_mode="RGB+D", packed=False)
    assert image.shape[-1] == 4 and torch.allclose(image[..., :3], expected, atol=1e-6)
    alone, _, _ = render({**values, "colors": signals, "backgrounds": None}, Ks)
    assert torch.allclose(meta["render_extra_signals"], alone, atol=1e-6)
    # Of spherical harmonics, the sum + ½ as it is.
    coefficients = torch.randn(20, 4, 5, generator=random)
    sums = gausset.spherical_harmonics(1, values["means"], values["viewmats"], coefficients) + 0.5
    _, _, meta = render(values, Ks, extra_signals=coefficients, extra_signals_sh_degree=1)
    alone, _, _ = render({**values, "colors": sums, "backgrounds": None}, Ks)
    assert torch.allclose(meta["render_extra_signals"], alone, atol=1e-5) and alone.min() < 0
    with pytest.raises(gausset.ArgumentError, match="extra_signals: shape"):
        render(values, Ks, extra_signals=signals[:3])


def test_packed_projections_are_rows_of_dense_ones():
    values, Ks = scene(count=20, views=3)
    values["means"][4, 2] = -3.0
    covars, _ = ours.quat_scale_to_covar_preci(values["quats"], values["scales"], compute_preci=False, triu=True)
    call = (values["means"], covars, None, None, values["viewmats"], Ks, WIDTH, HEIGHT)
    dense = ours.fully_fused_projection(*call, calc_compensations=True)
    batches, cameras, splats, indptr, *rows = ours.fully_fused_projection(*call, packed=True, calc_compensations=True)
    assert (batches == 0).all() and 4 not in splats
    assert indptr.tolist() == [0, *torch.bincount(cameras, minlength=3).cumsum(0).tolist()]
    for a, b in zip(rows, dense):
        assert torch.equal(a, b[cameras, splats])
    with pytest.raises(gausset.ArgumentError, match="are required"):
        ours.fully_fused_projection(values["means"], None, None, None, *call[4:])


def test_autocast_changes_nothing():
    values, Ks = scene(count=20, dtype=torch.float32)
    coeffs = torch.randn(20, 9, 3, generator=torch.Generator().manual_seed(6))
    directions = values["means"]
    binoms = torch.tensor([[float(math.comb(n, k)) for k in range(8)] for n in range(8)])

    def everything():
        covars, precis = ours.quat_scale_to_covar_preci(values["quats"], values["scales"])
        means, turned = ours.world_to_cam(values["means"], covars, values["viewmats"])
        upper = covars.reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
        lens, views = (WIDTH, HEIGHT), (values["means"], values["viewmats"])
        radii, *screen, _ = ours.fully_fused_projection(views[0], upper, None, None, views[1], Ks, *lens)
        means2d, depths, conics = screen
        counts, ids, flat = ours.isect_tiles(means2d, radii, depths, 16, 2, 1)
        lists = (*lens, 16, ours.isect_offset_encode(ids, 2, 2, 1), flat)
        opacities, colors = (values[name].expand(2, *values[name].shape) for name in ("opacities", "colors"))
        clear = torch.ones(2, HEIGHT, WIDTH)
        listed = ours.rasterize_to_indices_in_range(0, 9, clear, means2d, conics, opacities, *lists)
        found = [covars, precis, means, turned, radii, *screen, counts, ids, *listed]
        found += ours.proj(means, turned, Ks, *lens)
        found += ours.rasterize_to_pixels(means2d, conics, colors, opacities, *lists)
        found += ours.accumulate(means2d, conics, opacities, colors, *listed, *lens)
        found += ours.compute_relocation(values["opacities"], values["scales"], torch.full((20,), 3), binoms)
        found.append(ours.spherical_harmonics(2, *views, coeffs))
        found.append(ours.spherical_harmonics_l0(coeffs[:, :1]))
        found.append(ours.spherical_harmonics_l1_plus(2, *views, coeffs[:, 1:]))
        found.append(spherical_harmonics_of_directions(2, directions, coeffs))
        leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
        loss = 0.0
        for options in ({"colors": coeffs, "sh_degree": 2}, {"camera_model": "fisheye"}):
            images, alphas, _ = render({**leaves, **options}, Ks, render_mode="RGB+ED")
            found += [images, alphas]
            loss = loss + images.square().sum()
        return found, loss, leaves

    expected, loss, leaves = everything()
    expected += torch.autograd.grad(loss, list(leaves.values()))
    with torch.autocast("cpu", torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        found, loss, leaves = everything()
        # The output of a network.
        halved = {name: values[name].bfloat16() for name in ("quats", "scales", "opacities", "colors")}
        image, _, _ = render({**values, **halved}, Ks)
    found += torch.autograd.grad(loss, list(leaves.values()))
    for k, (a, b) in enumerate(zip(found, expected)):
        assert a.dtype == b.dtype and torch.equal(a, b), k
    assert torch.equal(image, render({**values, **{name: v.float() for name, v in halved.items()}}, Ks)[0])
