import math
import pickle
import pydoc
import subprocess
import sys

import gausset
import gausset.selftest
import numpy as np
import pytest


def test_the_self_test_passes(capsys):
    assert gausset.selftest.main() == 0
    assert capsys.readouterr().out.count("ok ") == len(gausset.selftest.CHECKS)


def test_the_build_is_described():
    info = gausset.build_info()
    assert info["version"].startswith(gausset.__version__)
    assert info["threads"] == gausset.num_threads() and info["simd"]
    assert set(info["features"]) <= {"gpu", "masks", "onnxruntime"}


NEED_TORCH = {"rasterization", "spherical_harmonics", "DefaultStrategy", "MCMCStrategy"}


def test_help_and_completion_know_every_name():
    try:
        import torch  # noqa: F401

        assert NEED_TORCH <= set(gausset.__all__)
    except ImportError:
        assert not NEED_TORCH & {*gausset.__all__, *dir(gausset)}
    assert set(gausset.__all__) <= set(dir(gausset))
    assert "Starts the program's viewer" in pydoc.render_doc(gausset)


def test_without_torch_there_are_no_names_that_need_it():
    code = f"""
import sys
sys.modules["torch"] = None  # as if it were not installed
from gausset import *
import gausset
assert train and view and not {NEED_TORCH} & {{*globals(), *dir(gausset)}}
assert not any(hasattr(gausset, name) for name in {NEED_TORCH})
try:
    gausset.rasterization
except AttributeError as error:
    assert "it needs torch" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_is_converted(tmp_path, splats):
    source = tmp_path / "splats.ply"
    gausset.save(splats, source)
    found = gausset.convert(source, tmp_path / "half.spz", max_splats=100, sh_degree=0, report=True)
    assert found["input_splats"] == 200 and found["splats"] == 100
    assert found["bytes"] == (tmp_path / "half.spz").stat().st_size
    assert found["psnr"] >= found["worst_psnr"] > 10
    half = gausset.load(tmp_path / "half.spz")
    assert len(half) == 100 and half.sh_degree == 0
    with pytest.raises(gausset.FileError, match="half.spz"):
        gausset.convert(source, tmp_path / "half.spz")
    gausset.convert(source, tmp_path / "half.spz", scale=2.0, force=True)
    assert np.allclose(gausset.load(tmp_path / "half.spz").means, 2 * splats.means, atol=2e-3)


def test_a_streamed_sog_has_levels_and_gives_the_finest_again(tmp_path, splats):
    source, city = tmp_path / "splats.ply", tmp_path / "city"
    gausset.save(splats, source)
    found = gausset.convert(source, city / "lod-meta.json", levels=3)
    assert (found["splats"], len(gausset.load(city))) == (200, 200)
    assert [len(gausset.load(city / f"{level}_0/meta.json")) for level in range(3)] == [200, 100, 50]


@pytest.mark.parametrize(
    "options, part",
    [
        ({"format": "ksplat"}, "format"),
        ({"up": "w"}, "up"),
        ({"up": "auto"}, "up"),
        ({"device": "cuda"}, "device"),
        ({"scale": 1e30}, "scale"),
        ({"min_psnr": math.nan}, "min_psnr"),
        ({"min_opacity": math.nan}, "min_opacity"),
        ({"sh_degree": 9}, "sh_degree"),
        ({"levels": 0}, "levels"),
        ({"translate": (0, 0, math.inf)}, "translate"),
    ],
)
def test_wrong_options_are_named(tmp_path, splats, options, part):
    gausset.save(splats, tmp_path / "splats.ply")
    with pytest.raises(gausset.ArgumentError, match=part):
        gausset.convert(tmp_path / "splats.ply", tmp_path / "out.spz", **options)


def test_a_camera_is_pickled():
    camera = gausset.Camera(64, 48, 50.0, 50.0, 32.0, 24.0)
    again = pickle.loads(pickle.dumps(camera))
    assert again.width == 64 and np.array_equal(again.world_to_camera, camera.world_to_camera)
