"""What does not fit is refused in one line, by an exception of the right class."""

import inspect
import os
import signal
import sys
import threading
import types

import gausset
import numpy as np
import pytest

COUNT = 5


def splats(**changes):
    arrays = {
        "means": np.zeros((COUNT, 3)),
        "log_scales": np.zeros((COUNT, 3)),
        "quats": np.ones((COUNT, 4)),
        "opacity_logits": np.zeros(COUNT),
        "sh": np.zeros((COUNT, 1, 3)),
    }
    return gausset.Splats(**{**arrays, **changes})


def camera():
    return gausset.Camera(
        8, 8, 8.0, 8.0, 4.0, 4.0, np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1.0]])
    )


def refused(call, message, kind=gausset.ArgumentError):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "\n" not in str(caught.value) and not str(caught.value).startswith("bug in Gausset")
    return caught.value


@pytest.mark.parametrize(
    "array",
    [
        np.arange(15, dtype=">f4").reshape(5, 3),
        np.asfortranarray(np.arange(15, dtype=np.float32).reshape(5, 3)),
        np.arange(14, -1, -1, dtype=np.float32)[::-1].reshape(5, 3),
        np.arange(30, dtype=np.float32).reshape(10, 3)[:5],
        np.arange(15).reshape(5, 3).tolist(),
        np.frombuffer(b"x" + np.arange(15, dtype=np.float32).tobytes(), np.float32, offset=1).reshape(5, 3),
    ],
    ids=["big-endian", "fortran", "negative stride", "view", "list", "misaligned"],
)
def test_arrays_of_any_layout_are_taken(array):
    found = splats(means=array)
    assert np.array_equal(found.means, np.arange(15).reshape(5, 3)) and found.means.flags.c_contiguous
    del array
    assert gausset.render(found, camera()).color.shape == (8, 8, 3)


def test_an_array_that_is_read_only_is_rendered():
    means = np.zeros((COUNT, 3), np.float32)
    means.flags.writeable = False
    assert gausset.render(splats(means=means), camera()).alpha.max() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: splats(means=np.zeros((5, 3), complex)), "means: not an array of numbers .complex128"),
        (lambda: splats(means=[[1, 2], [3]]), "means: not an array of numbers"),
        (lambda: splats(quats=np.array([["a"] * 4] * 5)), "quats: not an array of numbers"),
        (lambda: gausset.set_num_threads(0), r"count: 0 \(expected 1..1024\)"),
        (lambda: gausset.set_num_threads(-1), "count: -1"),
        (lambda: gausset.set_num_threads(1.5), "count: 1.5 .expected a whole number"),
        (lambda: gausset.Renderer(splats(), threads=-1), "threads: -1"),
        (lambda: gausset.render(splats(), camera(), background=(0, 0)), "background: .0.0, 0.0. .expected 3"),
        (lambda: gausset.render(splats(), camera(), background=(0, 0, np.nan)), "background: .* finite"),
        (lambda: gausset.render(splats(), camera(), sh_degree=4), r"sh_degree: 4 \(expected 0..3\)"),
        (lambda: gausset.render(splats(), camera(), near_plane=np.nan), "near_plane: expected"),
        (lambda: gausset.render(splats(), camera(), near_plane=-10), "near_plane: expected"),
        (lambda: camera().transformed(np.zeros((4, 4))), "new_from_old"),
        (lambda: camera().transformed(np.eye(3)), r"new_from_old: shape \(3, 3\)"),
        (lambda: gausset.Dataset("here", test_every=-1), "test_every: -1"),
        (lambda: gausset.Dataset("here", max_resolution=-1), "max_resolution: -1"),
        (lambda: gausset.render(splats(), camera(), device="cuda"), "device: expected auto"),
    ],
)
def test_arguments(call, message):
    assert refused(call, message).code in ("argument", "option", "usage")


def test_no_splats_give_the_background():
    none = splats()[:0]
    assert np.array_equal(gausset.render(none, camera(), background=(0, 0, 1)).color[0, 0], [0, 0, 1])


def test_nan_is_not_drawn():
    some = splats()
    some.means[2] = np.nan
    assert np.isfinite(gausset.render(some, camera()).color).all()


@pytest.mark.parametrize("extension", ["ply", "compressed.ply", "splat", "spz", "sog", "glb", "gltf"])
@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_half_a_file_is_refused_by_name(tmp_path, extension):
    path = tmp_path / f"a.{extension}"
    gausset.save(splats(), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refused(lambda: gausset.load(path), f"a.{extension}", gausset.FileError).code == "splats"


@pytest.mark.parametrize("content", [b"", b"\xfe" * 1000], ids=["empty", "noise"])
@pytest.mark.parametrize("extension", ["ply", "splat", "ksplat", "spz", "sog", "glb", "html"])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, extension, content):
    path = tmp_path / f"a.{extension}"
    path.write_bytes(content)
    assert refused(lambda: gausset.load(path), f"a.{extension}", gausset.FileError).code == "splats"


def test_files_that_cannot_be_written(tmp_path):
    for path, message in ((tmp_path / "no" / "a.ply", "no/a.ply"), (tmp_path / "a.xyz", "no known splat format")):
        assert refused(lambda path=path: gausset.save(splats(), path), message, gausset.FileError).code == "write"


def test_a_file_that_grows_beyond_its_limit_does_not_appear(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        refused(lambda: gausset.save(splats(), tmp_path / "a.ply"), "a.ply", gausset.FileError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_trainings(photographs, tmp_path):
    def train(output="run", **options):
        return gausset.train(photographs, tmp_path / output, steps=5, device="cpu", **options)

    refused(lambda: train(noise=1.0, strategy="classic"), "noise: has no effect with strategy='classic'")
    refused(lambda: gausset.train(tmp_path / "no", tmp_path / "run", device="cpu"), "no: open", gausset.FileError)
    refused(lambda: train(max_splat=5), "did you mean `max_splats`")
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("")
    refused(lambda: train("file"), "file", gausset.FileError)
    with gausset.start(photographs, tmp_path / "run", steps=100_000, device="cpu") as training:
        while training.step == 0:
            assert training.wait(0.05) is None
        busy = refused(lambda: gausset.resume(tmp_path / "run", device="cpu"), "in use", gausset.FileError)
    assert busy.code == "in-use"


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_trainings_without_memory_disk_or_device(photographs, tmp_path):
    def train(output, device="cpu", **options):
        return lambda: gausset.train(
            photographs, tmp_path / output, steps=5, device=device, init=tmp_path / "start.ply", **options
        )

    few = train("run", max_memory="1MiB")
    assert refused(few, "max_memory: the run would need", gausset.MemoryLimitError).code == "memory"
    assert refused(train("run", "no such GPU"), "no such GPU", gausset.DeviceError).code == "device"
    (tmp_path / "file").write_text("")
    assert refused(train("file/run"), "file/run: look up", gausset.FileError).code == "write"
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        refused(train("full"), "larger than the system allows", gausset.FileError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_without_the_right_to_write(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.getuid() == 0:  # who may write everywhere
                os.setuid(65534)
            refused(lambda: gausset.save(splats(), tmp_path / "locked" / "a.ply"), "a.ply", gausset.FileError)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_renders_with_threads_of_its_own():
    renderer, threads = gausset.Renderer(splats(), threads=2), gausset.num_threads()
    gausset.set_num_threads(2)
    expected = renderer.render(camera()).color
    child = os.fork()
    if child == 0:
        is_equal = False
        try:
            signal.alarm(20)
            refused(lambda: renderer.render(camera()), "a Renderer from before the fork")
            del renderer
            gausset.set_num_threads(3)
            is_equal = np.array_equal(gausset.render(splats(), camera()).color, expected)
        finally:
            os._exit(0 if is_equal else 1)
    gausset.set_num_threads(threads)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("version", "message"), [("1.3.0", "gsplat 1.3.0"), ("2.0", "gsplat 2.0"), (None, "gsplat unknown")]
)
def test_an_unknown_gsplat_is_refused(monkeypatch, version, message):
    pytest.importorskip("torch")
    import gausset.gsplat

    package = types.ModuleType("gsplat")
    if version is not None:
        package.__version__ = version
    monkeypatch.setitem(sys.modules, "gsplat", package)
    refused(gausset.gsplat.install, message)


class TestRasterization:
    """The call with torch."""

    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")

    def call(self, torch, **changes):
        pose = torch.eye(4)[None].clone()
        pose[0, 2, 3] = 3.0
        values = {
            "means": torch.zeros(COUNT, 3),
            "quats": torch.ones(COUNT, 4),
            "scales": torch.full((COUNT, 3), 0.2),
            "opacities": torch.full((COUNT,), 0.5),
            "colors": torch.ones(COUNT, 3),
            "viewmats": pose,
            "Ks": torch.tensor([[[20.0, 0, 8], [0, 20.0, 8], [0, 0, 1]]]),
            "width": 16,
            "height": 16,
        }
        return gausset.rasterization(**{**values, **changes})

    def test_every_argument_of_an_installed_gsplat_is_known(self):
        gsplat = pytest.importorskip("gsplat")
        from gausset import _rasterization

        own = set(inspect.signature(gausset.rasterization).parameters) | set(_rasterization._REFUSED)
        assert set(inspect.signature(gsplat.rasterization).parameters) - own == set()

    def test_every_refused_argument_is_named(self, torch):
        from gausset import _rasterization

        for name in _rasterization._REFUSED:
            value = False if name == "global_z_order" else True
            refused(
                lambda name=name, value=value: self.call(torch, **{name: value}), f"{name}={value} is not supported"
            )

    def test_shapes_and_types(self, torch):
        for name, value, message in (
            ("means", torch.zeros(COUNT), "means: shape"),
            ("means", np.zeros((COUNT, 3), np.float32), "means: ndarray"),
            ("quats", torch.zeros(COUNT, 3), r"quats: shape \[5, 3\] .expected \[..., 5, 4\]"),
            ("scales", torch.zeros(4, 3), "scales: shape"),
            ("opacities", torch.zeros(COUNT, 1), "opacities: shape"),
            ("opacities", torch.zeros(1, COUNT), "opacities: shape"),
            ("colors", torch.zeros(COUNT, 3, dtype=torch.uint8), "colors: torch.uint8"),
            ("viewmats", torch.zeros(1, 3, 4), "viewmats: shape"),
            ("Ks", torch.zeros(2, 3, 3), "Ks: shape"),
            ("Ks", torch.eye(3)[None] * torch.tensor([0.0, 1, 1]), "Ks: view 0 has focal lengths 0"),
            ("backgrounds", torch.zeros(3), "backgrounds: shape"),
            ("width", 40_000, "width: 40000"),
            ("height", 8.5, "height: 8.5"),
            ("far_plane", float("nan"), "near_plane, far_plane"),
            ("eps2d", -1.0, "eps2d"),
            ("radius_clip", float("nan"), "radius_clip"),
        ):
            refused(lambda name=name, value=value: self.call(torch, **{name: value}), message)
        with pytest.raises(TypeError, match="unexpected keyword argument 'near'"):
            self.call(torch, near=1.0)
        assert self.call(torch, width=np.int64(16))[0].shape == (1, 16, 16, 3)

    def test_every_tensor_is_checked(self, torch):
        shapes = {"means": (COUNT, 3), "quats": (COUNT, 4), "scales": (COUNT, 3), "opacities": (COUNT,)}
        shapes |= {"colors": (COUNT, 3), "viewmats": (1, 4, 4), "Ks": (1, 3, 3), "covars": (COUNT, 3, 3)}
        shapes |= {"extra_signals": (COUNT, 2), "backgrounds": (1, 3)}
        for name, size in shapes.items():
            for value, message in (
                ("text", "str .expected a tensor"),
                (torch.ones(size, dtype=torch.int32), "torch.int32"),
                (torch.ones(()), "shape"),
                (torch.ones(size).to_sparse(), "torch.sparse_coo on cpu .expected a dense tensor"),
                (torch.ones(size, device="meta"), "torch.strided on meta"),
            ):
                refused(lambda name=name, value=value: self.call(torch, **{name: value}), f"{name}: {message}")
            if name != "means":
                batch = torch.ones(2, *size)
                refused(lambda name=name, batch=batch: self.call(torch, **{name: batch}), f"{name}: shape")
        empty = {name: torch.zeros(0, *size) for name, size in list(shapes.items())[:7]}
        refused(lambda: self.call(torch, **empty), "viewmats: shape .* .expected at least one view")
        refused(lambda: self.call(torch, viewmats=torch.zeros(0, 4, 4), Ks=torch.zeros(0, 3, 3)), "at least one view")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize(
        ("name", "fill"), [("means", 0.0), ("quats", 1.0), ("scales", 0.2), ("opacities", 0.5), ("colors", 0.5)]
    )
    def test_a_splat_that_is_not_finite_is_not_drawn(self, torch, name, fill, value):
        size = {"quats": (COUNT, 4), "opacities": (COUNT,)}.get(name, (COUNT, 3))
        leaf = torch.full(size, fill)
        leaf[2] = value
        leaf.requires_grad_()
        others = [0, 1, 3, 4]
        image, _, _ = self.call(torch, **{name: leaf})
        (gradient,) = torch.autograd.grad(image.sum(), leaf)
        assert (gradient[2] == 0).all() and gradient.isfinite().all()
        tensors = {"means": (COUNT, 3, 0.0), "quats": (COUNT, 4, 1.0), "scales": (COUNT, 3, 0.2), "colors": (COUNT, 3, 1.0)}
        four = {key: torch.full((rows, columns), same)[others] for key, (rows, columns, same) in tensors.items()}
        four["opacities"] = torch.full((4,), 0.5)
        assert torch.equal(image, self.call(torch, **{**four, name: leaf.detach()[others]})[0])

    def test_values_out_of_range_are_finite(self, torch):
        for name, value in (
            ("quats", torch.zeros(COUNT, 4)),
            ("opacities", torch.zeros(COUNT)),
            ("opacities", torch.ones(COUNT)),
            ("opacities", torch.full((COUNT,), 1.5)),
            ("opacities", torch.full((COUNT,), -0.1)),
            ("scales", torch.full((COUNT, 3), -0.2)),
            ("scales", torch.zeros(COUNT, 3)),
            ("means", torch.full((COUNT, 3), float("inf"))),
        ):
            value.requires_grad_()
            image, _, _ = self.call(torch, **{name: value})
            (gradient,) = torch.autograd.grad(image.sum(), value)
            assert image.isfinite().all() and gradient.isfinite().all(), name

    def test_graphs_that_do_not_work(self, torch):
        means = torch.zeros(COUNT, 3, requires_grad=True)
        image, _, _ = self.call(torch, means=means)
        (gradient,) = torch.autograd.grad(image.square().sum(), means, create_graph=True)
        refused(lambda: gradient.sum().backward(), "differentiate twice", RuntimeError)
        _, _, meta = self.call(torch, means=means, absgrad=True)
        assert not meta["means2d"].absgrad.any()  # before the backward pass
        with torch.no_grad():
            _, _, meta = self.call(torch, means=means)
        refused(lambda: meta["means2d"].retain_grad(), "requires_grad=False", RuntimeError)

    def test_inputs_changed_before_the_backward_pass_are_noticed_or_do_not_matter(self, torch):
        def gradients(change):
            leaf = torch.full((COUNT, 3), 0.01, requires_grad=True)
            means = leaf * 1.0
            image, _, _ = self.call(torch, means=means, colors=torch.ones(COUNT, 4, 3), sh_degree=1)
            if change:
                with torch.no_grad():
                    means.mul_(2.0)
            return torch.autograd.grad(image.sum(), leaf)

        gradients(False)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            gradients(True)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_a_forked_child_has_gradients(self, torch):
        def gradient():
            means = torch.zeros(COUNT, 3, requires_grad=True)
            return torch.autograd.grad(self.call(torch, means=means)[0].square().sum(), means)[0]

        expected = gradient()
        child = os.fork()
        if child == 0:
            is_equal = False
            try:
                is_equal = torch.equal(gradient(), expected)
            finally:
                os._exit(0 if is_equal else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_a_view_with_too_many_tiles_is_refused(self, torch):
        gausset.set_memory_limit(100)
        try:
            refused(lambda: self.call(torch), "tile entries .expected at most 1", gausset.MemoryLimitError)
        finally:
            gausset.set_memory_limit(2**40)

    def test_an_image_of_one_pixel(self, torch):
        assert self.call(torch, width=1, height=1)[0].shape == (1, 1, 1, 3)

    def test_ten_threads_render_the_same(self, torch):
        expected = self.call(torch)[0]
        found = [None] * 10

        def work(k):
            found[k] = self.call(torch)[0]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(torch.equal(image, expected) for image in found)

    def test_a_tensor_that_requires_gradients_is_no_array_of_numpy(self, torch):
        refused(lambda: splats(means=torch.zeros(COUNT, 3, requires_grad=True)), "means: not an array of numbers")
        refused(lambda: splats(means=torch.zeros(COUNT, 3, device="meta")), "means: not an array of numbers")
