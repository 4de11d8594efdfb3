"""`gausset.DefaultStrategy` and `gausset.MCMCStrategy`: against gsplat's, and what each step does."""

import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import gausset  # noqa: E402
import gausset.gsplat  # noqa: E402
from gausset.optim import Adam, SelectiveAdam  # noqa: E402

SIZE = 48


@pytest.fixture
def gsplat():
    """gsplat with Gausset's functions in place of CUDA."""
    module = pytest.importorskip("gsplat", reason="gsplat is not installed: nothing to compare with")
    gausset.gsplat.install()
    yield module
    gausset.gsplat.uninstall()


def make(count=300, optimizer=torch.optim.Adam, rate=0.01, container=dict):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    values = {
        "means": normal(count, 3) * 0.6,
        "scales": normal(count, 3) * 0.5 - 3.0,
        "quats": normal(count, 4),
        "opacities": normal(count) * 2,
        "colors": normal(count, 3).sigmoid(),
    }
    params = container({name: torch.nn.Parameter(value) for name, value in values.items()})
    return params, {name: optimizer([params[name]], lr=rate) for name in values}


def made_up(step, params, views=2):
    """An `info` with random gradients: every 17th splat grows, every 19th is large on the screen, every 43rd too large."""
    generator, count = torch.Generator().manual_seed(step), len(params["means"])
    row = torch.arange(count)
    means2d = torch.zeros(views, count, 2, requires_grad=True)
    lengths = torch.where(row % 17 == 0, 3e-6, 4e-7)[:, None]
    means2d.grad = torch.randn(views, count, 2, generator=generator) * lengths
    sizes = 12 * (row % 19 == 0) + 20 * (row % 43 == 0)
    radii = torch.randint(-5, 5, (views, count, 2), generator=generator) + sizes[:, None]
    radii = radii.clamp(min=0).int()
    return {"means2d": means2d, "radii": radii, "width": 120, "height": 90, "n_cameras": views, "gaussian_ids": None}


def train(strategy, steps, rest, scene_scale=None, optimizer=torch.optim.Adam):
    """Trains on made-up gradients. Returns what is to compare."""
    torch.manual_seed(5)
    params, optimizers = make(optimizer=optimizer)
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state() if scene_scale is None else strategy.initialize_state(scene_scale)
    counts = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(1000 + step)
        for name, each in optimizers.items():
            params[name].grad = torch.randn(params[name].shape, generator=generator)
            each.step()
            each.zero_grad(set_to_none=True)
        strategy.step_post_backward(params, optimizers, state, step, made_up(step, params), **rest)
        counts.append(len(params["means"]))
    return params, optimizers, state, counts


def assert_equal(ours, theirs):
    """Bytes of splats and of optimizers."""
    assert ours[3] == theirs[3]
    for name, value in theirs[0].items():
        assert torch.equal(ours[0][name], value), name
        mine, other = ours[1][name].state[ours[0][name]], theirs[1][name].state[value]
        assert mine.keys() == other.keys() and len(other) == 3
        for key in other:
            assert torch.equal(mine[key], other[key]), (name, key)


def resetting(gsplat):
    """gsplat's strategy with the resets of 1.6: 1.5.3 never resets (gsplat's pull request 776)."""

    class Resetting(gsplat.DefaultStrategy):
        def step_post_backward(self, params, optimizers, state, step, info, packed=False):
            super().step_post_backward(params, optimizers, state, step, info, packed)
            if 0 < step < self.refine_stop_iter and step % self.reset_every == 0 and gsplat.__version__ == "1.5.3":
                gsplat.strategy.ops.reset_opa(params, optimizers, state, self.prune_opa * 2.0)

    return Resetting


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"revised_opacity": True},
        {"refine_scale2d_stop_iter": 250},
        {"pause_refine_after_reset": 30, "refine_stop_iter": 270},
    ],
)
def test_growth_is_that_of_gsplat(gsplat, options):
    common = {"refine_start_iter": 10, "refine_every": 20, "reset_every": 100, **options}
    ours, theirs = (
        train(cls(**common), 320, {}, scene_scale=2.0) for cls in (gausset.DefaultStrategy, resetting(gsplat))
    )
    assert_equal(ours, theirs)
    assert len(set(ours[3])) > 5 and torch.equal(ours[2]["grad2d"], theirs[2]["grad2d"])


def test_relocation_and_noise_are_those_of_gsplat(gsplat):
    options = {"cap_max": 600, "refine_start_iter": 10, "refine_every": 20, "refine_stop_iter": 310}
    ours, theirs = (train(cls(**options), 320, {"lr": 1e-6}) for cls in (gausset.MCMCStrategy, gsplat.MCMCStrategy))
    assert_equal(ours, theirs)
    assert ours[3][-1] == 600 and torch.equal(ours[2]["binoms"], theirs[2]["binoms"])


def test_training_on_images_is_that_of_gsplat(gsplat):
    """300 steps through the renderer, where any difference would grow."""
    pose = torch.eye(4).repeat(2, 1, 1)
    pose[:, 2, 3], pose[1, 0, 3] = 3.0, 0.3
    lens = torch.tensor([[50.0, 0, SIZE / 2], [0, 50.0, SIZE / 2], [0, 0, 1]]).repeat(2, 1, 1)
    target = torch.rand(2, SIZE, SIZE, 3, generator=torch.Generator().manual_seed(7))

    def run(strategy, packed):
        torch.manual_seed(1)
        params, optimizers = make(60, container=torch.nn.ParameterDict)
        state = strategy.initialize_state()
        for step in range(300):
            scales, opacities = params["scales"].exp(), params["opacities"].sigmoid()
            splats = (params["means"], params["quats"], scales, opacities, params["colors"])
            image, _, info = gausset.rasterization(*splats, pose, lens, SIZE, SIZE, packed=packed, absgrad=True)
            strategy.step_pre_backward(params, optimizers, state, step, info)
            (image - target).abs().mean().backward()
            for optimizer in optimizers.values():
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            rest = {"lr": 1e-6} if packed is None else {"packed": packed}
            strategy.step_post_backward(params, optimizers, state, step, info, **rest)
        return params, optimizers, state, len(params["means"])

    options = {"refine_start_iter": 20, "refine_every": 40, "reset_every": 120, "grow_grad2d": 1e-3, "absgrad": True}
    ours, theirs = (run(cls(**options), True) for cls in (gausset.DefaultStrategy, resetting(gsplat)))
    assert_equal(ours, theirs)
    assert ours[3] > 70
    options = {"cap_max": 90, "refine_start_iter": 20, "refine_every": 40}
    assert_equal(*(run(cls(**options), None) for cls in (gausset.MCMCStrategy, gsplat.MCMCStrategy)))


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, Adam, SelectiveAdam])
def test_moments_follow_their_splats(optimizer):
    """Splats are recognised by a tensor that nothing changes."""
    count = 40
    params, optimizers = make(count)
    params["id"] = torch.nn.Parameter(torch.arange(count, dtype=torch.float32), requires_grad=False)
    for name in optimizers:
        optimizers[name] = optimizer([params[name]], lr=0.0)
        params[name].grad = torch.rand_like(params[name]) + 0.1
        optimizers[name].step(*([torch.ones(count)] if optimizer is SelectiveAdam else []))
    before = {name: optimizers[name].state[params[name]]["exp_avg"].clone() for name in optimizers}
    strategy = gausset.DefaultStrategy(refine_start_iter=0, refine_every=1, prune_opa=0.3)
    state = strategy.initialize_state(scene_scale=5.0)
    info = made_up(0, params)
    info["radii"] = torch.ones_like(info["radii"])
    # 0 to 9 grow: the even ones are large.
    with torch.no_grad():
        params["scales"][:] = math.log(0.04)
        params["scales"][0:10:2, 1] = math.log(0.06)
        params["opacities"][:] = 0.0
        params["opacities"][30:] = -2.0
        info["means2d"].grad[:] = 0.0
        info["means2d"].grad[:, :10] = 1.0
    strategy.step_post_backward(params, optimizers, state, 1, info)
    ids = params["id"].tolist()
    kept = [1, 3, 5, 7, 9, *range(10, 30)]
    assert ids == [*kept, 1, 3, 5, 7, 9, 0, 2, 4, 6, 8, 0, 2, 4, 6, 8]
    assert params["id"].requires_grad is False
    for name, each in optimizers.items():
        assert each.param_groups[0]["params"] == [params[name]] and list(each.state) == [params[name]]
        moments = each.state[params[name]]
        assert torch.equal(moments["exp_avg"][:25], before[name][kept]) and not moments["exp_avg"][25:].any()
        assert moments["exp_avg_sq"].shape == params[name].shape and not moments["exp_avg_sq"][25:].any()
        # The next step works on the new parameters.
        params[name].grad = torch.ones_like(params[name])
        each.step(*([torch.ones(len(ids))] if optimizer is SelectiveAdam else []))
    assert torch.allclose(params["scales"][30:, 1], torch.tensor(math.log(0.06 / 1.6)))
    assert len(state["grad2d"]) == len(ids) and not state["grad2d"].any()


def test_halves_of_a_split_are_spread_as_the_splat():
    count = 20_000
    torch.manual_seed(0)
    params, optimizers = make(count, rate=0.0)
    turn = torch.tensor([math.cos(math.pi / 8), 0.0, 0.0, math.sin(math.pi / 8)])
    with torch.no_grad():
        params["means"][:] = torch.tensor([1.0, 2.0, 3.0])
        params["quats"][:] = 3.0 * turn
        params["scales"][:] = torch.tensor([2.0, 0.5, 0.1]).log()
    strategy = gausset.DefaultStrategy(refine_start_iter=0, refine_every=1)
    info = made_up(0, params, views=1)
    info["means2d"].grad[:] = 1.0
    info["radii"][:] = 1
    strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, info)
    means = params["means"].detach()
    assert len(means) > 1.9 * count
    found = torch.cov(means.t())
    # x and y turned by 45 degrees: variances 4 and 0.25, covariance (4 - 0.25) / 2. Errors are about 4 / sqrt(n / 2).
    expected = torch.tensor([[2.125, 1.875, 0.0], [1.875, 2.125, 0.0], [0.0, 0.0, 0.01]])
    assert torch.allclose(found, expected, atol=0.1)
    assert torch.allclose(means.mean(0), torch.tensor([1.0, 2.0, 3.0]), atol=0.05)


def test_opacities_are_reset_to_twice_the_limit_of_pruning():
    params, optimizers = make(50)
    params["opacities"].grad = torch.ones(50)
    optimizers["opacities"].step()
    strategy = gausset.DefaultStrategy(reset_every=10)
    state = strategy.initialize_state()
    low = params["opacities"].detach().sigmoid().clamp(max=0.01)
    strategy.step_post_backward(params, optimizers, state, 0, made_up(0, params))
    assert params["opacities"].sigmoid().max() > 0.5
    strategy.step_post_backward(params, optimizers, state, 10, made_up(1, params))
    assert torch.allclose(params["opacities"].sigmoid(), low, rtol=1e-5)
    moments = optimizers["opacities"].state[params["opacities"]]
    assert not moments["exp_avg"].any() and moments["step"] == 1


def test_the_largest_radius_of_several_views_counts():
    params, optimizers = make(3)
    strategy = gausset.DefaultStrategy(refine_scale2d_stop_iter=10)
    for order in ([0, 1], [1, 0]):
        state = strategy.initialize_state()
        info = made_up(0, params)
        info["radii"] = torch.tensor([[[9, 3], [0, 5], [1, 1]], [[2, 2], [4, 4], [1, 6]]], dtype=torch.int32)[order]
        strategy.step_post_backward(params, optimizers, state, 1, info)
        assert torch.allclose(state["radii"], torch.tensor([9.0, 4.0, 6.0]) / 120)
        assert state["count"].tolist() == [2.0, 1.0, 2.0]
    # Radii without axes, of gsplat 1.4.
    state = strategy.initialize_state()
    strategy.step_post_backward(params, optimizers, state, 1, {**info, "radii": info["radii"].amax(-1)})
    assert state["count"].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("absgrad", [True, False])
def test_views_of_batches_count_as_those_of_one_call(packed, absgrad):
    pose = torch.eye(4).repeat(2, 1, 1)
    pose[:, 2, 3], pose[1, 0, 3] = 3.0, 0.3
    lens = torch.tensor([[50.0, 0, SIZE / 2], [0, 50.0, SIZE / 2], [0, 0, 1]]).repeat(2, 1, 1)
    states = []
    for batch, views in (((), (2,)), ((2,), (2, 1))):
        params, optimizers = make(60)
        strategy = gausset.DefaultStrategy(absgrad=absgrad, refine_start_iter=0, refine_every=2, grow_grad2d=1e-6)
        state = strategy.initialize_state()
        scales, opacities = params["scales"].exp(), params["opacities"].sigmoid()
        splats = (params["means"], params["quats"], scales, opacities, params["colors"])
        splats = (value.expand(*batch, *value.shape) for value in splats)
        cameras = pose.reshape(*views, 4, 4), lens.reshape(*views, 3, 3)
        image, _, info = gausset.rasterization(*splats, *cameras, SIZE, SIZE, packed=packed, absgrad=absgrad)
        strategy.step_pre_backward(params, optimizers, state, 1, info)
        image.mean().backward()
        strategy.step_post_backward(params, optimizers, state, 1, info, packed=packed)
        states.append({**state, "grad2d": state["grad2d"] / info["n_cameras"]})
        strategy.step_post_backward(params, optimizers, state, 2, info, packed=packed)
        assert len(params["means"]) > 60
    assert torch.equal(states[0]["count"], states[1]["count"])
    assert torch.allclose(states[0]["grad2d"], states[1]["grad2d"], rtol=1e-4) and states[0]["grad2d"].any()


def test_sums_are_where_the_splats_are():
    """`info` is on the CPU. The device `meta` has shapes only, and refuses to mix with another."""
    params = {name: torch.nn.Parameter(value.detach().to("meta")) for name, value in make(30)[0].items()}
    for packed in (True, False):
        strategy = gausset.DefaultStrategy(refine_scale2d_stop_iter=10)
        state, info = strategy.initialize_state(), made_up(0, params)
        if packed:
            info["gaussian_ids"] = torch.arange(60) % 30
            gradient = info["means2d"].grad.reshape(60, 2)
            info["means2d"] = torch.zeros(60, 2, requires_grad=True)
            info["means2d"].grad, info["radii"] = gradient, info["radii"].reshape(60, 2)
        strategy.step_post_backward(params, {}, state, 1, info, packed=packed)
        for name in ("grad2d", "count", "radii"):
            assert state[name].device.type == "meta" and len(state[name]) == 30, name


def test_relocated_splats_stand_where_living_ones_are():
    torch.manual_seed(0)
    params, optimizers = make(100)
    with torch.no_grad():
        params["opacities"][:] = 0.0
        params["opacities"][60:] = -8.0
    alive = {tuple(mean) for mean in params["means"][:60].tolist()}
    strategy = gausset.MCMCStrategy(cap_max=102, refine_start_iter=0, refine_every=1, noise_injection_stop_iter=0)
    strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, {}, lr=1.0)
    assert len(params["means"]) == 102
    assert {tuple(mean) for mean in params["means"].tolist()} == alive
    # Together, the splats of a place are as opaque as the one before: 1 - Π(1 - o) = 0.5.
    clear = {}
    for mean, opacity in zip(params["means"].tolist(), params["opacities"].sigmoid().tolist()):
        clear[tuple(mean)] = clear.get(tuple(mean), 1.0) * (1.0 - opacity)
    added = {tuple(mean) for mean in params["means"][100:].tolist()}
    assert all(abs(rest - 0.5) < 1e-5 for mean, rest in clear.items() if mean not in added)


def test_noise_has_the_covariance_of_the_splat_and_stops():
    count = 20_000
    params, optimizers = make(count)
    with torch.no_grad():
        params["means"][:] = 0.0
        params["scales"][:] = torch.tensor([1.0, 2.0, 3.0]).log()
        params["quats"][:] = torch.tensor([1.0, 0.0, 0.0, 0.0])
        params["opacities"][: count // 2] = torch.logit(torch.tensor(0.005))
        params["opacities"][count // 2 :] = 4.0
    strategy = gausset.MCMCStrategy(noise_lr=10.0, noise_injection_stop_iter=1)
    torch.manual_seed(0)
    strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 0, {}, lr=0.1)
    # Half of Σ times normal noise at the opacity noise_opacity_t.
    deviations = params["means"].detach()[: count // 2].std(0)
    assert torch.allclose(deviations, 0.5 * torch.tensor([1.0, 4.0, 9.0]), rtol=0.03)
    assert params["means"][count // 2 :].abs().max() < 1e-20
    before = params["means"].detach().clone()
    strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, {}, lr=0.1)
    assert torch.equal(params["means"], before)


def test_opacities_may_be_columns():
    for strategy, rest in (
        (gausset.DefaultStrategy(refine_start_iter=0, refine_every=1, reset_every=2, revised_opacity=True), {}),
        (gausset.MCMCStrategy(refine_start_iter=0, refine_every=1), {"lr": 1e-6}),
    ):
        params, optimizers = make(100)
        params["opacities"] = torch.nn.Parameter(params["opacities"].detach()[:, None] * 4)
        optimizers["opacities"] = torch.optim.Adam([params["opacities"]])
        state = strategy.initialize_state()
        for step in (1, 2):
            strategy.step_post_backward(params, optimizers, state, step, made_up(step, params), **rest)
        assert params["opacities"].shape == (len(params["means"]), 1) and len(params["means"]) != 100


def test_nothing_is_relocated_when_all_are_dead():
    params, optimizers = make(20)
    params["opacities"].data[:] = -9.0
    strategy = gausset.MCMCStrategy(cap_max=20, refine_start_iter=0, refine_every=1, noise_injection_stop_iter=0)
    before = params["means"].detach().clone()
    strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, {}, lr=1.0)
    assert torch.equal(params["means"], before)


def test_fields_in_the_order_of_gsplat():
    strategy = gausset.MCMCStrategy(123, 4.5, 6, 7, 8, 9, 0.1, True, 0.2, 30.0)
    assert (strategy.refine_stop_iter, strategy.noise_injection_stop_iter, strategy.refine_every) == (7, 8, 9)
    assert (strategy.noise_opacity_t, strategy.noise_opacity_k) == (0.2, 30.0)
    assert gausset.gsplat.DefaultStrategy is gausset.DefaultStrategy
    assert gausset.gsplat.MCMCStrategy is gausset.MCMCStrategy


def test_fields_and_defaults_are_those_of_gsplat(gsplat):
    from dataclasses import fields

    new = {"noise_injection_stop_iter", "noise_opacity_t", "noise_opacity_k"}
    for ours, theirs in (
        (gausset.DefaultStrategy, gsplat.DefaultStrategy),
        (gausset.MCMCStrategy, gsplat.MCMCStrategy),
    ):
        own = [(field.name, field.default) for field in fields(ours) if field.name not in new]
        assert own == [(field.name, field.default) for field in fields(theirs) if field.name not in new]


def test_importing_gausset_imports_no_torch():
    code = "import gausset, gausset.density, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def refusals():
    def sanity(change):
        params, optimizers = make(4)
        change(params, optimizers)
        gausset.DefaultStrategy().check_sanity(params, optimizers)

    def two_groups(_, optimizers):
        optimizers["means"].add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})

    def after(options, change):
        params, optimizers = make(4)
        info = made_up(0, params)
        change(info)
        strategy = gausset.DefaultStrategy(**options)
        strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, info)

    def draw_from_nan():
        params, optimizers = make(4)
        params["opacities"].data[:] = math.nan
        strategy = gausset.MCMCStrategy(refine_start_iter=0, refine_every=1)
        params["opacities"].data[0] = -9.0
        strategy.step_post_backward(params, optimizers, strategy.initialize_state(), 1, {}, lr=1.0)

    return [
        (lambda: sanity(lambda p, o: p.pop("quats")), "params: 'quats' is missing"),
        (lambda: sanity(lambda p, o: o.pop("colors")), "optimizers: colors .expected one for each trained parameter"),
        (lambda: sanity(two_groups), "optimizers: 'means' has 2 groups"),
        (lambda: after({}, lambda info: info.pop("radii")), "info: 'radii' is missing"),
        (lambda: after({"absgrad": True}, lambda info: None), "no absgrad .pass absgrad=True to rasterization"),
        (lambda: after({}, lambda info: info["means2d"].__setattr__("grad", None)), "call step_pre_backward before"),
        (lambda: gausset.DefaultStrategy().step_pre_backward({}, {}, {}, 0, {}), "info: 'means2d' is missing"),
        (draw_from_nan, "opacities: NaN or all 0"),
    ]


@pytest.mark.parametrize(("call", "message"), refusals())
def test_what_does_not_fit_is_refused_in_one_line(call, message):
    with pytest.raises(gausset.ArgumentError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
