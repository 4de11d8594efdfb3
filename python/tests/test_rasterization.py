"""`rasterization` against a dense renderer in f64, written in torch below."""

import copy
import sys
import weakref

import gausset
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gausset import _rasterization  # noqa: E402

WIDTH, HEIGHT = 40, 28
NAMES = ("means", "quats", "scales", "opacities", "colors", "viewmats", "backgrounds")


def scene(count=40, views=2, sh_degree=3, seed=3, channels=3):
    random = np.random.default_rng(seed)
    poses = np.tile(np.eye(4), (views, 1, 1))
    for k, pose in enumerate(poses):
        c, s = np.cos(0.1 * k + 0.05), np.sin(0.1 * k + 0.05)
        pose[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        pose[:3, 3] = [0.1 * k, -0.05, 0.2]
    means = random.uniform([-1.2, -0.9, 1.5], [1.2, 0.9, 4.0], (count, 3))
    if sh_degree is None:
        colors = random.normal(size=(count, channels))
    else:
        colors = random.normal(size=(count, (sh_degree + 1) ** 2, 3)) * 0.4
    values = {
        "means": means,
        "quats": random.normal(size=(count, 4)),
        "scales": random.uniform(0.03, 0.3, (count, 3)),
        "opacities": random.uniform(0.05, 0.95, count),
        "colors": colors,
        "viewmats": poses,
        "backgrounds": random.uniform(size=(views, channels)),
    }
    K = np.array([[35.0, 0, WIDTH / 2 + 0.3], [0, 33.0, HEIGHT / 2 - 0.2], [0, 0, 1]])
    values = {name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()}
    return values, torch.tensor(np.tile(K, (views, 1, 1)), dtype=torch.float32)


def basis(d, degree):
    x, y, z = d.unbind(-1)
    b = [torch.full_like(x, 0.28209479177387814)]
    if degree > 0:
        b += [-0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x]
    if degree > 1:
        b += [1.0925484305920792 * x * y, -1.0925484305920792 * y * z]
        b += [0.31539156525252005 * (3 * z * z - 1), -1.0925484305920792 * x * z]
        b += [0.5462742152960396 * (x * x - y * y)]
    if degree > 2:
        b += [-0.5900435899266435 * y * (3 * x * x - y * y), 2.890611442640554 * x * y * z]
        b += [-0.4570457994644658 * y * (5 * z * z - 1), 0.3731763325901154 * z * (5 * z * z - 3)]
        b += [-0.4570457994644658 * x * (5 * z * z - 1), 1.445305721320277 * z * (x * x - y * y)]
        b += [-0.5900435899266435 * x * (x * x - 3 * y * y)]
    return torch.stack(b, -1)


def reference(v, Ks, sh_degree, antialiased=False, alpha_max=0.99, least=0.005, eps2d=0.3):
    """Colours, alphas, depths of every view, and which pixels are far from every threshold."""
    outputs = []
    w, x, y, z = torch.nn.functional.normalize(v["quats"], dim=-1).unbind(-1)
    R = torch.stack(
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
        + [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
        + [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        -1,
    ).reshape(-1, 3, 3)
    cov = R @ torch.diag_embed(v["scales"] ** 2) @ R.transpose(1, 2)
    px = torch.stack(torch.meshgrid(torch.arange(WIDTH), torch.arange(HEIGHT), indexing="xy"), -1) + 0.5
    for k, pose in enumerate(v["viewmats"]):
        W, t = pose[:3, :3], pose[:3, 3]
        fx, fy, cx, cy = (Ks[k, i, j] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
        p = v["means"] @ W.T + t
        u, s = p[:, 0] / p[:, 2], p[:, 1] / p[:, 2]
        mx, my = 0.15 * WIDTH / fx, 0.15 * HEIGHT / fy
        tx = u.clamp(float(-cx / fx - mx), float((WIDTH - cx) / fx + mx))
        ty = s.clamp(float(-cy / fy - my), float((HEIGHT - cy) / fy + my))
        o = torch.zeros_like(u)
        J = torch.stack([fx / p[:, 2], o, -fx * tx / p[:, 2], o, fy / p[:, 2], -fy * ty / p[:, 2]], -1)
        T = J.reshape(-1, 2, 3) @ W
        c2 = T @ cov @ T.transpose(1, 2)
        blurred = c2 + eps2d * torch.eye(2, dtype=c2.dtype)
        opacity = v["opacities"]
        if antialiased:
            ratio = torch.linalg.det(c2) / torch.linalg.det(blurred)
            opacity = opacity * ratio.clamp(min=least**2).sqrt()
        mean2d = torch.stack([fx * u + cx, fy * s + cy], -1)
        if sh_degree is None:
            color = v["colors"]
        else:
            d = torch.nn.functional.normalize(v["means"] + W.T @ t, dim=-1)
            color = ((basis(d, sh_degree)[..., None] * v["colors"]).sum(1) + 0.5).clamp(min=0)
        order = torch.argsort(p[:, 2])
        delta = px.to(p.dtype)[:, :, None] - mean2d[order]
        sigma = 0.5 * torch.einsum("hwni,nij,hwnj->hwn", delta, torch.linalg.inv(blurred)[order], delta)
        raw = opacity[order] * torch.exp(-sigma)
        alpha = torch.where(raw >= 1 / 255, raw.clamp(max=alpha_max), torch.zeros_like(raw))
        T_after = torch.cumprod(1 - alpha, -1)
        alpha = torch.where(T_after > 1e-4, alpha, torch.zeros_like(alpha))
        T_before = torch.cat([torch.ones_like(T_after[..., :1]), T_after[..., :-1]], -1)
        weight = alpha * T_before
        total = weight.sum(-1, keepdim=True)
        image = weight @ color[order] + (1 - total) * v["backgrounds"][k]
        robust = ((raw * 255 - 1).abs() > 1e-3).all(-1) & ((T_after * 1e4 - 1).abs() > 1e-3).all(-1)
        outputs.append((image, total, weight @ p[order, 2:3], robust[..., None]))
    return tuple(torch.stack(parts) for parts in zip(*outputs))


def gradients(values, loss):
    leaves = {name: values[name] for name in NAMES}
    return dict(zip(NAMES, torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)))


def on_manifold(gradient, poses):
    """Twists: the gradient off the rotations differs by how the centre of a camera is computed."""
    a = gradient[:, :3, :3].double() @ poses[:, :3, :3].double().transpose(1, 2)
    a = a + gradient[:, :3, 3:].double() @ poses[:, :3, 3:].double().transpose(1, 2)
    return torch.cat([gradient[:, :3, 3].double(), (a - a.transpose(1, 2)).flatten(1)], 1)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize(("sh_degree", "channels"), [(0, 3), (3, 3), (None, 1), (None, 3), (None, 5)])
def test_images_and_gradients_are_those_of_the_reference(sh_degree, channels, antialiased, packed):
    values, Ks = scene(sh_degree=sh_degree, channels=channels)
    exact = {name: value.double().requires_grad_() for name, value in values.items()}
    image, alpha, depth, robust = reference(exact, Ks.double(), sh_degree, antialiased)
    values = {name: value.requires_grad_() for name, value in values.items()}
    found, alphas, _ = gausset.rasterization(
        Ks=Ks,
        width=WIDTH,
        height=HEIGHT,
        sh_degree=sh_degree,
        packed=packed,
        render_mode="RGB+D",
        rasterize_mode="antialiased" if antialiased else "classic",
        **values,
    )
    expected = torch.cat([image, depth], -1)
    assert robust.double().mean() > 0.8
    for a, b in ((found, expected), (alphas, alpha)):
        assert ((a - b).abs() * robust).max() < 5e-5
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)) * robust
    of_alpha = torch.randn(alpha.shape, generator=torch.Generator().manual_seed(2)) * robust
    ours = gradients(values, (found * weights).sum() + (alphas * of_alpha).sum())
    theirs = gradients(exact, (expected * weights).sum() + (alpha * of_alpha).sum())
    for name in NAMES:
        a, b = ours[name], theirs[name]
        if name == "viewmats":
            a, b = (on_manifold(g, values["viewmats"].detach()) for g in (a, b))
        error = ((a - b).norm() / b.norm()).item()
        assert error < 5e-5, f"{name}: {error}"


def call(values, Ks, **options):
    options = {"sh_degree": 3, **options}
    return gausset.rasterization(Ks=Ks, width=WIDTH, height=HEIGHT, **{**values, **options})


def test_means2d_is_in_the_graph_and_absgrad_is_at_least_its_gradient():
    for packed in (True, False):
        values, Ks = scene()
        values["means"].requires_grad_()
        image, _, meta = call(values, Ks, packed=packed, absgrad=True)
        meta["means2d"].retain_grad()
        (image**2).sum().backward()
        gradient = meta["means2d"].grad
        assert gradient.shape == meta["means2d"].shape and gradient.abs().sum() > 0
        assert (meta["means2d"].absgrad >= gradient.abs() * (1 - 1e-4) - 1e-6).all()


def test_packed_and_dense_meta_agree_and_backward_repeats():
    values, Ks = scene()
    found = {}
    for packed in (True, False):
        values["means"] = values["means"].detach().requires_grad_()
        image, _, meta = call(values, Ks, packed=packed)
        loss = (image**2).sum()
        loss.backward(retain_graph=True)
        once = values["means"].grad.clone()
        values["means"].grad = None
        loss.backward()
        assert torch.equal(once, values["means"].grad)
        found[packed] = (image, once, meta)
    assert torch.equal(found[True][0], found[False][0]) and torch.equal(found[True][1], found[False][1])
    packed, dense = found[True][2], found[False][2]
    at = (packed["camera_ids"], packed["gaussian_ids"])
    for key in ("means2d", "conics", "depths", "opacities", "radii"):
        assert torch.equal(packed[key], dense[key][at]), key
    assert dense["radii"].shape == (2, 40, 2) and dense["radii"].dtype == torch.int32


def test_the_backward_pass_frees_what_the_renderer_keeps(monkeypatch):
    alive = weakref.WeakSet()
    project = _rasterization._gausset.project

    class View:
        """Of the extension's class there are no weak references."""

        def __init__(self, view):
            self.blend, self.blend_vjp, self.project_vjp = view.blend, view.blend_vjp, view.project_vjp
            alive.add(self)

    def wrapped(*arguments):
        view, *rest = project(*arguments)
        return View(view), *rest

    monkeypatch.setattr(_rasterization._gausset, "project", wrapped)
    values, Ks = scene()
    call(values, Ks)
    assert len(alive) == 0
    values["means"].requires_grad_()
    image, _, meta = call(values, Ks)
    loss = image.square().sum() + meta["conics"].sum()
    loss.backward(retain_graph=True)
    assert len(alive) == 2
    loss.backward()
    assert len(alive) == 0
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_hooks_on_saved_tensors_may_render_again_or_keep():
    from torch.utils.checkpoint import checkpoint

    values, Ks = scene()
    values = {name: value.requires_grad_() for name, value in values.items()}

    def loss():
        image, alpha, _ = call(values, Ks)
        return image.square().sum() + alpha.sum()

    expected = gradients(values, loss())
    with torch.autograd.graph.save_on_cpu():
        kept = loss()
    for found in (checkpoint(loss, use_reentrant=False), kept):
        assert all(torch.equal(value, expected[name]) for name, value in gradients(values, found).items())
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
        copied = loss()
    with pytest.raises(gausset.ArgumentError, match="a hook on saved tensors copied"):
        copied.backward()


def test_batches_are_single_calls():
    values, Ks = scene()
    two = {name: torch.stack([value, value]) for name, value in values.items() if name != "colors"}
    images, alphas, meta = call({**two, "colors": values["colors"]}, torch.stack([Ks, Ks]), packed=False)
    image, alpha, _ = call(values, Ks)
    assert images.shape == (2, 2, HEIGHT, WIDTH, 3) and meta["means2d"].shape == (2, 2, 40, 2)
    assert torch.equal(images[1], image) and torch.equal(alphas[0], alpha)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meta_of_batches_is_in_the_graph(dtype):
    values, Ks = scene()
    values = {name: value.to(dtype).requires_grad_() for name, value in values.items()}
    two = {name: torch.stack([value, value]) for name, value in values.items()}
    absgrad = dtype == torch.float32
    names = ("means2d", "conics", "depths", "opacities")
    image, _, meta = call(two, torch.stack([Ks, Ks]), packed=False, absgrad=absgrad, render_mode="RGB+D")
    single, _, expected = call(values, Ks, packed=False, absgrad=absgrad, render_mode="RGB+D")
    for images, found in ((image, meta), (single, expected)):
        for name in names:
            found[name].retain_grad()
        images.square().sum().backward()
    for name in names:
        assert torch.equal(meta[name].grad, torch.stack([expected[name].grad] * 2)), name
        assert meta[name].grad.any()
    if absgrad:
        assert torch.equal(meta["means2d"].absgrad, torch.stack([expected["means2d"].absgrad] * 2))
    assert meta["tiles_per_gauss"].shape == (2, 2, 40) and meta["isect_offsets"].shape == (2, 2, 2, 3)


def test_copies_of_meta_have_what_it_has():
    values, Ks = scene()

    def made():
        return call(values, Ks)[2]

    expected = {name: made()[name] for name in ("tiles_per_gauss", "isect_ids", "flatten_ids", "isect_offsets")}
    updated = {}
    updated.update(made())
    copies = [dict(made()), {**made()}, made().copy(), copy.copy(made()), dict(made().items()), updated, made() | {}]
    copies += [{} | made(), dict(zip(made().keys(), made().values())), {name: made()[name] for name in made()}]
    for found in copies:
        assert len(found) == len(made()) and set(found) == set(made())
        assert all(torch.equal(found[name], value) for name, value in expected.items())
    meta = made()
    assert torch.equal(meta.pop("isect_ids"), expected["isect_ids"])
    assert "isect_ids" not in meta and meta.get("isect_ids") is None and meta.pop("isect_ids", 1) == 1
    meta = made()
    meta["flatten_ids"] = 5
    del meta["isect_ids"]
    assert dict(meta)["flatten_ids"] == 5 and "isect_ids" not in meta


def test_opacity_0_and_1_and_scale_0_have_finite_gradients_and_nan_is_not_drawn():
    values, Ks = scene()
    values["opacities"][:3] = torch.tensor([0.0, 1.0, 1.0])
    values["scales"][3] = 0.0
    values["means"][4] = float("nan")
    values["colors"][5] = float("nan")
    values = {name: value.requires_grad_() for name, value in values.items()}
    image, _, _ = call(values, Ks)
    assert image.isfinite().all()
    for name, gradient in gradients(values, (image**2).sum()).items():
        assert gradient.isfinite().all(), name
        if name in ("quats", "scales", "means"):
            assert (gradient[4] == 0).all() and (gradient[5] == 0).all()


def test_spherical_harmonics_are_sums_of_the_basis():
    values, _ = scene()
    values = {name: value.double() for name, value in values.items()}
    pose = values["viewmats"]
    found = gausset.spherical_harmonics(2, values["means"].float(), pose.float(), values["colors"].float())
    for k in range(2):
        d = values["means"] + pose[k, :3, :3].T @ pose[k, :3, 3]
        d = torch.nn.functional.normalize(d, dim=-1)
        expected = (basis(d, 2)[..., None] * values["colors"][:, :9]).sum(1)
        assert (found[k] - expected).abs().max() < 2e-6


@pytest.mark.parametrize("mode", ["D", "ED"])
def test_depth_alone_has_no_background_whatever_its_size(mode):
    values, Ks = scene()
    signals = torch.rand(40, 2)
    expected, _, _ = call({**values, "backgrounds": None}, Ks, render_mode=mode)
    for size in (1, 3, 5):
        own = {**values, "backgrounds": torch.rand(2, size)}
        found, _, _ = call(own, Ks, render_mode=mode)
        with_signals, _, meta = call(own, Ks, render_mode=mode, extra_signals=signals)
        assert torch.equal(found, expected) and torch.equal(with_signals, expected)
        assert (meta["render_extra_signals"][:, 0, 0] == 0).all()
    with pytest.raises(gausset.ArgumentError, match=r"backgrounds: shape \[3, 3\] \(expected \[2, 'D'\]\)"):
        call({**values, "backgrounds": torch.rand(3, 3)}, Ks, render_mode=mode)


def test_nothing_in_view_is_the_background():
    values, Ks = scene()
    values["means"][:, 2] = -5.0
    image, alpha, meta = call(values, Ks)
    assert len(meta["gaussian_ids"]) == 0 and (alpha == 0).all()
    assert torch.equal(image[1, 3, 4], values["backgrounds"][1])
    none = {name: value[:0] if name in NAMES[:5] else value for name, value in values.items()}
    assert torch.equal(call(none, Ks)[0], image)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quats": torch.zeros(40, 3)}, r"quats: shape \[40, 3\] \(expected \[..., 40, 4\]\)"),
        ({"scales": torch.zeros(39, 3)}, "scales: shape"),
        ({"means": torch.zeros(40, 3, dtype=torch.int32)}, "means: torch.int32"),
        ({"colors": None}, "colors: None"),
        ({"sh_degree": 5}, r"sh_degree: 5 \(expected 0..4\)"),
        ({"colors": torch.zeros(40, 4, 3)}, "at least 16"),
        ({"tile_size": 8}, "tile_size: 8"),
        ({"with_ut": True}, "with_ut=True is not supported"),
        ({"covars": torch.zeros(40, 6)}, r"covars: shape \[40, 6\]"),
        ({"covars": torch.zeros(40, 3, 3), "absgrad": True}, "absgrad=True is not supported"),
        ({"sparse_grad": True, "packed": False}, "sparse_grad=True is not supported"),
        ({"camera_model": "ftheta"}, "camera_model: 'ftheta'"),
        ({"render_mode": "d"}, "render_mode: 'd'"),
        ({"width": 0}, r"width: 0 \(expected 1..32768\)"),
        ({"near_plane": 3.0, "far_plane": 2.0}, "near_plane, far_plane"),
        ({"Ks": torch.full((2, 3, 3), float("nan"))}, "Ks: view 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(changes, message):
    values, Ks = scene()
    with pytest.raises(gausset.ArgumentError, match=message) as error:
        gausset.rasterization(**{**values, "Ks": Ks, "width": WIDTH, "height": HEIGHT, "sh_degree": 3, **changes})
    assert "\n" not in str(error.value) and error.value.code == "argument"


def test_an_equirectangular_view_sees_what_is_behind():
    values, Ks = scene(views=1)
    values["means"] = -values["means"]
    size = {"width": 64, "height": 32}
    image, alpha, _ = gausset.rasterization(
        **values, Ks=Ks, sh_degree=3, camera_model="equirectangular", **size
    )
    assert image.shape == (1, 32, 64, 3) and alpha.max() > 0.5


def test_the_loss_has_the_gradient_of_finite_differences():
    from gausset.losses import l1_ssim

    random = torch.Generator().manual_seed(4)
    a, b = torch.rand(20, 24, 3, generator=random), torch.rand(20, 24, 3, generator=random)
    a.requires_grad_()
    l1_ssim(a, b).backward()
    direction = torch.randn(a.shape, generator=random)
    step = 1e-3
    with torch.no_grad():
        slope = (l1_ssim(a + step * direction, b) - l1_ssim(a - step * direction, b)) / (2 * step)
    assert abs((a.grad * direction).sum() - slope) < 2e-3 * direction.abs().mean()
    assert l1_ssim(b, b) < 1e-6


def test_torch_is_imported_on_first_use():
    import subprocess

    code = "import gausset, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
