"""`gausset.gsplat`: the functions that an installed gsplat lacks on a CPU."""

import importlib.util
import math
import sys

import pytest

torch = pytest.importorskip("torch")

import gausset.gsplat as ours  # noqa: E402
from gausset import optim  # noqa: E402


def test_covariances_are_those_of_the_axes():
    torch.manual_seed(0)
    quats, scales = torch.randn(5, 4, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64) + 0.1
    covars, precis = ours.quat_scale_to_covar_preci(quats, scales)
    assert torch.allclose(covars @ precis, torch.eye(3, dtype=torch.float64).expand(5, 3, 3), atol=1e-9)
    values = torch.linalg.eigvalsh(covars)
    assert torch.allclose(values, scales.square().sort().values)
    # A quarter turn about z exchanges x and y.
    turn = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])
    covar, none = ours.quat_scale_to_covar_preci(turn, torch.tensor([1.0, 2.0, 3.0]), compute_preci=False)
    assert none is None and torch.allclose(covar, torch.diag(torch.tensor([4.0, 1.0, 9.0])), atol=1e-6)
    upper, _ = ours.quat_scale_to_covar_preci(turn, torch.tensor([1.0, 2.0, 3.0]), triu=True)
    assert torch.allclose(upper, torch.tensor([4.0, 0.0, 0.0, 1.0, 0.0, 9.0]), atol=1e-6)


def test_relocated_splats_are_as_opaque_together():
    most = 51
    binoms = torch.tensor([[math.comb(n, k) for k in range(most)] for n in range(most)], dtype=torch.float64)
    opacities, ratios = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64), torch.tensor([1, 2, 5])
    scales = torch.ones(3, 3, dtype=torch.float64)
    found, sizes = ours.compute_relocation(opacities, scales, ratios, binoms)
    assert torch.allclose(1 - (1 - found) ** ratios, opacities)
    assert torch.allclose(sizes[0], scales[0])
    # Equation 9 term by term.
    for n, (old, new) in enumerate(zip(opacities.tolist(), found.tolist())):
        total = sum(
            math.comb(i - 1, k) * (-1) ** k * new ** (k + 1) / math.sqrt(k + 1)
            for i in range(1, int(ratios[n]) + 1)
            for k in range(i)
        )
        assert sizes[n, 0].item() == pytest.approx(old / total, rel=1e-9)


def test_relocated_splats_have_a_least_opacity_that_their_scales_fit():
    binoms = torch.tensor([[float(math.comb(n, k)) for k in range(8)] for n in range(8)])
    opacities, ratios, scales = torch.tensor([1e-6, 2e-3, 0.2]), torch.tensor([8, 4, 2]), torch.ones(3, 3)
    found, sizes = ours.compute_relocation(opacities, scales, ratios, binoms)
    assert torch.allclose(found[:2], torch.tensor(0.005)) and found[2] > 0.1
    clamped = 1 - (1 - found.double()) ** ratios
    as_is = ours.compute_relocation(clamped, scales, ratios, binoms, min_opacity=None)[1] * (opacities / clamped)[:, None]
    assert torch.allclose(sizes, as_is.float(), rtol=1e-4)
    assert ours.compute_relocation(opacities, scales, ratios, binoms, min_opacity=None)[0][0] < 1e-6


def test_adam_moves_the_valid_rows_only():
    param, gradient = torch.ones(3, 2), torch.full((3, 2), 0.5)
    first, second = torch.zeros(3, 2), torch.zeros(3, 2)
    ours.adam(param, gradient, first, second, torch.tensor([True, False, True]), 0.1, 0.9, 0.999, 1e-15)
    assert torch.equal(param[1], torch.ones(2)) and torch.equal(first[1], torch.zeros(2))
    step = 0.1 * 0.05 / math.sqrt(0.001 * 0.25)
    assert torch.allclose(param[0], torch.full((2,), 1 - step), atol=1e-6) and torch.allclose(param[0], param[2])


def test_without_gsplat_there_is_a_package_of_that_name(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "gsplat"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gsplat", None)  # as if it were not installed
    ours.install()
    ours.install()
    try:
        import gsplat
        import gsplat.cuda._wrapper as wrapper
        import gsplat.rendering
        import gsplat.strategy as strategies

        from gsplat import rendering
        from gsplat.optimizers import SelectiveAdam
        from gsplat.relocation import compute_relocation
        from gsplat.rendering import rasterization
        from gsplat.strategy import DefaultStrategy

        assert gsplat is not ours and gsplat.__version__ == "1.6.0" and importlib.util.find_spec("gsplat.rendering")
        assert rendering is gsplat.rendering and gsplat.rendering.rasterization is rasterization
        assert gsplat.rasterization is rasterization is ours.rasterization
        assert strategies.MCMCStrategy is ours.MCMCStrategy and DefaultStrategy is ours.DefaultStrategy
        assert SelectiveAdam is optim.SelectiveAdam and compute_relocation is ours.compute_relocation
        assert wrapper.fully_fused_projection is ours.fully_fused_projection
        assert not hasattr(gsplat, "install")
        with pytest.raises(ModuleNotFoundError, match="gsplat.exporter"):
            import gsplat.exporter  # noqa: F401
    finally:
        ours.uninstall()
    assert not [name for name in sys.modules if name.split(".")[0] == "gsplat"]
    ours.uninstall()


def test_an_installed_gsplat_trains_on_the_cpu():
    gsplat = pytest.importorskip("gsplat")
    before = gsplat.rasterization
    ours.install()
    try:
        torch.manual_seed(0)
        count, size = 60, 48
        splats = {
            "means": torch.randn(count, 3) * 0.5,
            "scales": torch.full((count, 3), -2.0),
            "quats": torch.randn(count, 4),
            "opacities": torch.zeros(count),
            "colors": torch.rand(count, 3),
        }
        splats = torch.nn.ParameterDict({k: torch.nn.Parameter(v) for k, v in splats.items()})
        optimizers = {k: torch.optim.Adam([{"params": [v], "lr": 0.01, "name": k}]) for k, v in splats.items()}
        viewmats = torch.eye(4)[None]
        viewmats[0, 2, 3] = 3.0
        Ks = torch.tensor([[[50.0, 0, size / 2], [0, 50.0, size / 2], [0, 0, 1]]])
        target = torch.rand(1, size, size, 3)
        strategies = [
            gsplat.DefaultStrategy(refine_start_iter=2, refine_every=3, grow_grad2d=1e-6, verbose=False),
            gsplat.MCMCStrategy(cap_max=300, refine_start_iter=2, refine_every=3, verbose=False),
        ]
        for strategy in strategies:
            strategy.check_sanity(splats, optimizers)
            state = (
                strategy.initialize_state(scene_scale=1.0)
                if isinstance(strategy, gsplat.DefaultStrategy)
                else strategy.initialize_state()
            )
            rest = {"packed": False} if isinstance(strategy, gsplat.DefaultStrategy) else {"lr": 1e-3}
            grown = len(splats["means"])
            losses = []
            for step in range(8):
                image, _, info = gsplat.rasterization(
                    splats["means"],
                    splats["quats"],
                    splats["scales"].exp(),
                    splats["opacities"].sigmoid(),
                    splats["colors"],
                    viewmats,
                    Ks,
                    size,
                    size,
                    packed=False,
                )
                if isinstance(strategy, gsplat.DefaultStrategy):
                    strategy.step_pre_backward(splats, optimizers, state, step, info)
                loss = (image - target).abs().mean()
                loss.backward()
                losses.append(loss.item())
                for optimizer in optimizers.values():
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                strategy.step_post_backward(splats, optimizers, state, step, info, **rest)
            assert losses[-1] < losses[0]
            assert len(splats["means"]) > grown
    finally:
        ours.uninstall()
    assert gsplat.rasterization is before
