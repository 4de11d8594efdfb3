"""`gausset.optim`: the optimizers against torch's and against plain loops."""

import copy
import math
import pickle

import pytest

torch = pytest.importorskip("torch")

import gausset  # noqa: E402
from gausset.optim import Adam, SelectiveAdam  # noqa: E402


def parameters(count=50):
    generator = torch.Generator().manual_seed(0)
    shapes = [(count, 3), (count,), (count, 9, 3), (100_001,)]
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def set_gradients(params, step):
    generator = torch.Generator().manual_seed(step)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator) * 10.0 ** (step % 5 - 3)


def test_adam_is_that_of_torch():
    ours, theirs = parameters(), parameters()
    options = {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-15}
    optimizers = Adam(ours, **options), torch.optim.Adam(theirs, **options)
    for step in range(100):
        for params, optimizer in zip((ours, theirs), optimizers):
            set_gradients(params, step)
            optimizer.step()
    # Sums in another order: a few times the last bit of f32, of values of about 1 and of gradients up to 40.
    for mine, other in zip(ours, theirs):
        assert torch.allclose(mine, other, rtol=1e-6, atol=1e-6)
        for name in ("step", "exp_avg", "exp_avg_sq"):
            state = optimizers[1].state[other]
            assert torch.allclose(optimizers[0].state[mine][name], state[name], rtol=1e-5, atol=1e-5), name


def test_adam_goes_on_from_a_state_of_torch():
    ours, theirs = parameters(), parameters()
    other = torch.optim.Adam(theirs, lr=0.01)
    for step in range(5):
        set_gradients(theirs, step)
        other.step()
    for mine, value in zip(ours, theirs):
        mine.data.copy_(value.data)
    optimizer = Adam(ours, lr=0.5)
    optimizer.load_state_dict(other.state_dict())
    for params, each in ((ours, optimizer), (theirs, other)):
        set_gradients(params, 9)
        each.step()
    assert all(torch.allclose(mine, value, atol=1e-6) for mine, value in zip(ours, theirs))


def test_torch_goes_on_from_a_state_of_adam():
    ours, theirs = parameters(), parameters()
    optimizers = Adam(ours, lr=0.01), torch.optim.Adam(theirs, lr=0.5)
    for step in range(5):
        set_gradients(ours, step)
        optimizers[0].step()
    for mine, value in zip(ours, theirs):
        value.data.copy_(mine.data)
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for params, each in zip((ours, theirs), optimizers):
        set_gradients(params, 9)
        each.step()
    assert all(torch.allclose(mine, value, atol=1e-6) for mine, value in zip(ours, theirs))


def test_a_state_that_adam_would_not_follow_is_refused_and_one_of_before_is_read():
    for option, value in (("weight_decay", 0.1), ("amsgrad", True), ("maximize", True)):
        state = torch.optim.Adam(parameters(), lr=0.5, **{option: value}).state_dict()
        optimizer = Adam(parameters(), lr=0.01)
        with pytest.raises(gausset.ArgumentError, match=f"{option}: {value} .expected (0|False)"):
            optimizer.load_state_dict(state)
        assert optimizer.param_groups[0]["lr"] == 0.01 and not optimizer.param_groups[0][option]
        with pytest.raises(gausset.ArgumentError, match=option):
            Adam([{"params": parameters(), option: value}])
    old = Adam(parameters(), lr=0.5).state_dict()
    for name in ("weight_decay", "amsgrad", "maximize"):
        del old["param_groups"][0][name]
    optimizer.load_state_dict(old)
    assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.param_groups[0]["weight_decay"] == 0
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.param_groups[0]["lr"] == 0.5 and again.defaults == optimizer.defaults


def test_a_parameter_that_is_not_contiguous_is_updated():
    values = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.nn.Parameter(values.t()), torch.nn.Parameter(values.clone().t())
    assert not ours.is_contiguous()
    for param, optimizer in ((ours, Adam([ours], lr=0.1)), (theirs, torch.optim.Adam([theirs], lr=0.1))):
        param.square().sum().backward()
        optimizer.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_adam_skips_what_has_no_gradient_and_calls_the_closure():
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = Adam([used, unused], lr=0.1)

    def closure():
        loss = used.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert torch.allclose(used, torch.full((2,), 0.9)) and torch.equal(unused, torch.ones(2))
    assert unused not in optimizer.state


def test_selective_adam_touches_visible_rows_only():
    visible = torch.zeros(50, dtype=torch.bool)
    visible[::3] = True
    for param in parameters()[:3]:
        before = param.detach().clone()
        optimizer = SelectiveAdam([{"params": [param], "lr": 0.1}], 1e-15, (0.9, 0.999))
        for step in range(3):
            set_gradients([param], step)
            optimizer.step(visible)
        state = optimizer.state[param]
        for now, old in (
            (param.detach(), before),
            (state["exp_avg"], torch.zeros_like(before)),
            (state["exp_avg_sq"], torch.zeros_like(before)),
        ):
            assert torch.equal(now[~visible], old[~visible])
            assert (now[visible] != old[visible]).all()


def test_selective_adam_is_adam_without_bias_correction():
    param = torch.nn.Parameter(torch.tensor([[1.0], [2.0]]))
    optimizer = SelectiveAdam([param], eps=1e-8, betas=(0.9, 0.999), lr=0.1)
    value, first, second = 2.0, 0.0, 0.0
    for gradient in (0.5, -0.2, 0.9):
        param.grad = torch.tensor([[7.0], [gradient]])
        optimizer.step(visibility=torch.tensor([0.0, 1.0]))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        value -= 0.1 * first / (math.sqrt(second) + 1e-8)
    assert param[:, 0].tolist() == pytest.approx([1.0, value], rel=1e-6)


def test_gsplats_selective_adam_gives_the_same_bytes():
    gsplat = pytest.importorskip("gsplat")
    from gsplat.optimizers import SelectiveAdam as Theirs

    import gausset.gsplat

    gausset.gsplat.install()
    try:
        found = []
        for cls in (SelectiveAdam, Theirs):
            param = parameters()[2]
            optimizer = cls([{"params": [param], "lr": 0.01}], eps=1e-15, betas=(0.9, 0.999))
            for step in range(10):
                set_gradients([param], step)
                optimizer.step(torch.arange(50) % 4 != step % 4)
            found.append(param)
        assert torch.equal(*found), gsplat.__version__
    finally:
        gausset.gsplat.uninstall()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: Adam([p], lr=-1.0), r"lr: -1.0 \(expected 0 or more\)"),
        (lambda p: Adam([p], betas=(0.9, 1.0)), r"betas: \(0.9, 1.0\)"),
        (lambda p: SelectiveAdam([p, torch.nn.Parameter(torch.ones(2))]), "params: 2 in a group"),
        (lambda p: SelectiveAdam([p]).step(torch.ones(5)), r"visibility: shape \[5\] \(expected \[4\]\)"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(call, message):
    param = torch.nn.Parameter(torch.ones(4, 2))
    param.grad = torch.ones(4, 2)
    with pytest.raises(gausset.ArgumentError, match=message) as caught:
        call(param)
    assert "\n" not in str(caught.value)
