"""`gausset.field` against the formula in torch in f64, written below, and against the program."""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading

import gausset
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gausset.field import GaussianField  # noqa: E402
from torch.autograd import grad, gradcheck, gradgradcheck  # noqa: E402

MODES = ("raw", "softplus", "sigmoid")
NAMES = ("means", "chol", "weights")


def parameters(count=7, seed=2, dtype=torch.float64):
    random = np.random.default_rng(seed)
    chol = random.normal(size=(count, 6)) * 0.2
    chol[:, [0, 2, 5]] += np.log(0.6)
    values = (random.uniform(-1, 1, (count, 3)), chol, random.normal(size=count))
    return [torch.tensor(value, dtype=dtype) for value in values]


def points_in_box(count=11, seed=4, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).uniform(-1.5, 1.5, (count, 3)), dtype=dtype)


def field_of(mode="raw", covariance="full", dtype=torch.float64, **kwargs):
    return GaussianField.from_parameters(
        *parameters(dtype=dtype, **kwargs), weight_mode=mode, covariance=covariance
    )


def reference(points, means, chol, weights, mode):
    """The sum over `w exp(-½ dᵀ (L Lᵀ)⁻¹ d)`, with the inverse of the covariance by torch."""
    factor = torch.zeros(len(means), 3, 3, dtype=means.dtype)
    rows, columns = [0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2]
    diagonal = torch.tensor([True, False, True, False, False, True])
    factor[:, rows, columns] = torch.where(diagonal, chol.exp(), chol)
    precision = torch.linalg.inv(factor @ factor.transpose(1, 2))
    weights = {
        "raw": lambda raw: raw,
        "softplus": lambda raw: (1 + raw.exp()).log(),
        "sigmoid": lambda raw: 1 / (1 + (-raw).exp()),
    }[mode](weights)
    d = points[:, None] - means
    return (weights * torch.exp(-0.5 * torch.einsum("bni,nij,bnj->bn", d, precision, d))).sum(1)


def reference_derivatives(points, *rest):
    points = points.clone().requires_grad_()
    values = reference(points, *rest)
    (gradients,) = grad(values.sum(), points, create_graph=True)
    rows = [grad(gradients[:, k].sum(), points, create_graph=True)[0] for k in range(3)]
    return values, gradients, torch.stack(rows, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_values_gradients_and_hessians_are_those_of_the_formula(mode, dtype, tolerance):
    raw, points = parameters(dtype=dtype), points_in_box(dtype=dtype)
    field = GaussianField.from_parameters(*raw, weight_mode=mode)
    wanted = reference_derivatives(points.double(), *(value.double() for value in raw), mode)
    for found, want in zip((field(points), field.gradient(points), field.hessian(points)), wanted):
        assert found.dtype == dtype
        assert (found - want).abs().max() < tolerance * want.abs().max()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", ["forward", "gradient"])
def test_first_derivatives_of_a_loss_are_those_of_the_formula(mode, call):
    raw, points = parameters(), points_in_box()
    field = GaussianField.from_parameters(*raw, weight_mode=mode)
    inputs = [value.clone().requires_grad_() for value in (points, *raw)]
    order = {"forward": 0, "gradient": 1}[call]
    values = reference(*inputs, mode)
    wanted = values if order == 0 else grad(values.sum(), inputs[0], create_graph=True)[0]
    upstream = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = grad(wanted, inputs, upstream)

    own = points.clone().requires_grad_()
    getattr(field, call)(own).backward(upstream)
    for found, want in zip((own.grad, *(getattr(field, name).grad for name in NAMES)), wanted):
        assert (found - want).abs().max() < 1e-11 * want.abs().max()


def of_inputs(mode, call):
    """The field as a function of points and parameters."""

    def run(points, means, chol, weights):
        field = field_of(mode)
        for name, value in zip(NAMES, (means, chol, weights)):
            delattr(field, name)
            setattr(field, name, value)
        return getattr(field, call)(points)

    return run


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", ["forward", "gradient", "hessian"])
def test_gradcheck_and_gradgradcheck(mode, call):
    inputs = [value.requires_grad_() for value in (points_in_box(4), *parameters(3))]
    assert gradcheck(of_inputs(mode, call), inputs)
    assert gradgradcheck(of_inputs(mode, call), inputs)


def test_points_that_depend_on_the_parameters_count_once():
    """Points at the means: each derivative is a partial one, and torch adds them."""
    mode, raw = "raw", [value.requires_grad_() for value in parameters(4)]

    def second(f):
        (first,) = grad(f(raw[0] * 1.1 + 0.1, *raw).sin().sum(), raw[0], create_graph=True)
        return grad((first**2).sum(), raw)

    ours = second(of_inputs(mode, "forward"))
    for found, want in zip(ours, second(lambda *inputs: reference(*inputs, mode))):
        assert (found - want).abs().max() < 1e-10 * want.abs().max()


def test_diag_has_no_gradients_off_the_diagonal():
    field = field_of(covariance="diag")
    field(points_in_box()).sum().backward()
    off, on = [1, 3, 4], [0, 2, 5]
    assert (field.chol.grad[:, off] == 0).all() and (field.chol.grad[:, on] != 0).all()
    raw = [value.clone() for value in parameters()]
    raw[1][:, off] = 0
    assert torch.equal(field(points_in_box()), GaussianField.from_parameters(*raw)(points_in_box()))


def test_shapes_of_points_are_kept():
    field, points = field_of(), points_in_box(12)
    grid = points.reshape(2, 6, 3)
    assert torch.equal(field(grid).reshape(12), field(points)) and field(points[0]).shape == ()
    assert field.gradient(grid).shape == (2, 6, 3) and field.hessian(grid).shape == (2, 6, 3, 3)
    empty = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    field(empty).sum().backward()
    assert empty.grad.shape == (0, 3) and (field.means.grad == 0).all()
    # Strides other than those of C order.
    assert torch.equal(field(points.t().contiguous().t()), field(points))


def three_bumps(count=1500):
    means = [[-1.0, 0.0, 0.2], [0.9, 0.4, -0.3], [0.1, -0.9, 0.5]]
    random = np.random.default_rng(6)
    points = random.uniform(-2, 2, (count, 3))
    values = sum(
        w * np.exp(-0.5 * ((points - m) ** 2).sum(1) / s**2) for m, w, s in zip(means, (1, -0.7, 0.5), (0.4, 0.5, 0.6))
    )
    return points, values, np.array(means)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_a_fit_finds_three_bumps(kind):
    points, values, means = three_bumps()
    steps = []
    field = GaussianField.fit(
        kind(points), kind(values), gaussians=3, seed=1, progress=lambda *now: steps.append(now)
    )
    distances = np.linalg.norm(field.means.detach().numpy()[:, None] - means, axis=2)
    assert (distances.min(0) < 1e-4).all() and field.metrics["test"]["psnr"] > 80
    assert [now[0] for now in steps] == list(range(1, field.metrics["steps"] + 1))
    assert field.bounds[0] == points.min(0).tolist()


def program(*arguments):
    command = [sys.executable, "-m", "gausset", "field", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_fits_and_values_are_those_of_the_program(tmp_path, covariance):
    points, values, _ = three_bumps()
    values = values + 7.5
    np.savetxt(tmp_path / "samples.csv", np.column_stack([points, values]), fmt="%.17g")
    program("fit", tmp_path / "samples.csv", "-o", tmp_path / "a.safetensors", "-n", 3, "--cov", covariance)
    fitted = GaussianField.fit(points, values, gaussians=3, covariance=covariance, dtype=torch.float64)
    fitted.save(tmp_path / "b.safetensors")
    a, b = ((tmp_path / name).read_bytes() for name in ("a.safetensors", "b.safetensors"))
    assert a == b

    field = GaussianField.load(tmp_path / "a.safetensors", dtype=torch.float64)
    assert field.covariance == covariance and field.offset > 7 and field.bounds == fitted.bounds
    np.savetxt(tmp_path / "points.csv", points[:50], fmt="%.17g")
    program(
        "query", tmp_path / "a.safetensors", tmp_path / "points.csv", "-o", tmp_path / "o.csv", "--grad", "--f64"
    )
    wanted = np.loadtxt(tmp_path / "o.csv", delimiter=",", comments=["#", "v"])
    own = torch.tensor(points[:50])
    found = torch.cat([field(own)[:, None], field.gradient(own)], 1).detach().numpy()
    assert abs(found - wanted).max() < 1e-9


@pytest.mark.parametrize("mode", MODES)
def test_a_saved_field_is_loaded_again(tmp_path, mode):
    field, path = field_of(mode, dtype=torch.float32), tmp_path / "field.safetensors"
    assert field.save(path) == path.stat().st_size
    again = GaussianField.load(path)
    assert again.weight_mode == mode and again.bounds is None and "7, covariance='full'" in repr(again)
    points = points_in_box(dtype=torch.float32)
    assert torch.equal(again(points), field(points))
    with pytest.raises(gausset.FileError) as caught:
        field.save(path)
    assert caught.value.code == "write" and "field.safetensors" in str(caught.value)
    field.save(path, force=True)
    for twin in (copy.deepcopy(field), pickle.loads(pickle.dumps(field))):
        assert torch.equal(twin(points), field(points))


def test_a_file_without_gaussians_is_the_field_0(tmp_path):
    shapes = {"means": [0, 3], "chol": [0, 6], "weights": [0]}
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    text = json.dumps(header).encode()
    (tmp_path / "none.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    field = GaussianField.load(tmp_path / "none.safetensors")
    # More points than one task of the gradient takes.
    points = torch.rand(20_000, 3, requires_grad=True)
    (field(points).sum() + field.gradient(points).sum()).backward()
    assert len(field) == 0 and (points.grad == 0).all() and field.means.grad.shape == (0, 3)


def train(field, loss, steps=400, rate=0.03):
    optimizer = torch.optim.Adam(field.parameters(), rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        now = loss()
        now.backward()
        optimizer.step()
        losses.append(float(now))
    return losses


def test_a_loss_on_gradients_trains():
    points, _, means = three_bumps(400)
    points = torch.tensor(points, dtype=torch.float32)
    truth = GaussianField.from_parameters(
        torch.tensor(means, dtype=torch.float32), torch.full((3, 6), -0.5), torch.tensor([1.0, -0.7, 0.5])
    )
    wanted = truth.gradient(points).detach()
    for gradients in (
        lambda field: field.gradient(points),
        lambda field: grad(field(own := points.clone().requires_grad_()).sum(), own, create_graph=True)[0],
    ):
        field = GaussianField(20, ([-2] * 3, [2] * 3), seed=3)
        losses = train(field, lambda: ((gradients(field) - wanted) ** 2).mean(), steps=300)
        assert losses[-1] < 0.02 * losses[0]


def test_one_and_two_threads_give_the_same_bytes():
    count, before = 5000, gausset.num_threads()
    results = []
    try:
        for threads in (1, 2):
            gausset.set_num_threads(threads)
            field = field_of("softplus", dtype=torch.float32, count=300)
            points = points_in_box(count, dtype=torch.float32).requires_grad_()
            values, gradients, hessians = field(points), field.gradient(points), field.hessian(points)
            (values.sum() + (gradients**2).sum()).backward()
            found = [values, gradients, hessians, points.grad, *(getattr(field, name).grad for name in NAMES)]
            fitted = GaussianField.fit(*three_bumps()[:2], gaussians=40, steps=30)
            found += [getattr(fitted, name) for name in NAMES]
            results.append([value.detach().numpy().tobytes() for value in found])
    finally:
        gausset.set_num_threads(before)
    assert results[0] == results[1]


@pytest.mark.skipif(os.name == "nt", reason="Windows sends SIGINT to consoles only")
def test_ctrl_c_and_an_exception_of_the_callback_stop_a_fit():
    points, values, _ = three_bumps()
    calls = []

    def interrupt(step, steps, loss):
        if not calls:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        calls.append(step)

    def fail(step, steps, loss):
        raise LookupError("enough")

    settings = {"gaussians": 200, "steps": 1_000_000, "validation": 0}
    with pytest.raises(KeyboardInterrupt):
        GaussianField.fit(points, values, progress=interrupt, **settings)
    with pytest.raises(LookupError, match="enough"):
        GaussianField.fit(points, values, progress=fail, **settings)


BOX = ([0.0] * 3, [1.0] * 3)
ZEROS = (torch.zeros(2, 3), torch.zeros(2, 6), torch.zeros(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianField(0, BOX), "num_gaussians: 0 (expected a whole number, 1 to"),
        (lambda: GaussianField(2, (BOX[1], BOX[0])), "bounds: [[1.0, 1.0, 1.0], [0.0"),
        (lambda: GaussianField(2, (BOX[0], BOX[0])), "(expected lo < hi)"),
        (lambda: GaussianField(2, None), "bounds: "),
        (lambda: GaussianField(2, BOX, "round"), "covariance: 'round' (expected one of full, diag)"),
        (lambda: GaussianField(2, BOX, weight_mode="exp"), "weight_mode: 'exp' (expected one of raw,"),
        (lambda: GaussianField(2, BOX, dtype=torch.float16), "dtype: torch.float16"),
        (lambda: GaussianField.from_parameters(*ZEROS[:2], torch.zeros(3)), "weights: shape [3] (expected [N]"),
        (lambda: GaussianField.from_parameters(*(value[:0] for value in ZEROS)), "N at least 1"),
        (lambda: GaussianField.from_parameters(ZEROS[0], ZEROS[1].double(), ZEROS[2]), "chol: torch.float64"),
        (lambda: GaussianField.from_parameters(ZEROS[0] / 0, *ZEROS[1:]), "means: not finite"),
        (lambda: field_of()(points_in_box(dtype=torch.float32)), "points: torch.float32 on cpu (expected"),
        (lambda: field_of()(np.zeros((2, 3))), "points: ndarray (expected a tensor)"),
        (lambda: field_of()(points_in_box()[:, :2]), "points: shape [11, 2] (expected [..., 3])"),
        (lambda: field_of().gradient(points_in_box() / 0), "points: row 0: unusable point"),
        (lambda: field_of().half()(points_in_box()), "means: torch.float16"),
        (lambda: field_of().save("field.ply"), "path: 'field.ply' (expected a name that ends in .safetensors)"),
        (lambda: GaussianField.fit(np.zeros((0, 3)), np.zeros(0)), "samples: too few (expected at least 2, found 0)"),
        (lambda: GaussianField.fit(np.zeros((4, 3)), np.zeros(5)), "samples: different numbers"),
        (lambda: GaussianField.fit(np.zeros((4, 2)), np.zeros(4)), "points: shape (4, 2) (expected (n, 3))"),
        (lambda: GaussianField.fit(np.zeros((4, 3)), [1, 2, 3, np.nan]), "sample 3: not finite"),
        (lambda: GaussianField.fit("points", np.zeros(4)), "points: not an array of numbers"),
        (lambda: GaussianField.fit(*three_bumps()[:2], gaussians=-1), "gaussians: -1 (expected a whole number"),
        (lambda: GaussianField.fit(*three_bumps()[:2], max_gaussians=5), "max_gaussians: unusable value"),
        (lambda: GaussianField.fit(*three_bumps()[:2], solver="sgd"), "solver: `sgd` (expected auto, adam or lm)"),
        (lambda: GaussianField.fit(*three_bumps()[:2], gaussians=3, batches=2), "batches: Levenberg-Marquardt"),
        (lambda: GaussianField.fit(*three_bumps()[:2], holdout=1), "holdout: unusable value (expected a share"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(call, message):
    with pytest.raises(gausset.ArgumentError) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value) and "⟨" not in str(caught.value)


def test_a_parameter_that_became_nan_is_named():
    field = field_of()
    field.chol.data[3, 1] = torch.nan
    with pytest.raises(gausset.ArgumentError, match="chol: row 3: unusable value"):
        field(points_in_box())


def test_files_that_are_no_fields_are_refused(tmp_path):
    for name, content in (("none.safetensors", None), ("text.safetensors", b"no field")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(gausset.FileError) as caught:
            GaussianField.load(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)
