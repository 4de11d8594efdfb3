"""`gsplat_tests.py` on a made checkout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

CASES = """
import pytest, torch
from gsplat.rendering import rasterization

device = torch.device("cuda:0")

@pytest.mark.skipif(not torch.cuda.is_available(), reason="No CUDA device")
def test_good():
    assert torch.zeros(1, device=device).device.type == "cpu"

def test_bad():
    assert False

def test_unsupported():
    rasterization(*[None] * 7, 1, 1, with_ut=True)

def test_skips():
    pytest.skip("not here")

def test_projection_2dgs():
    pass

@pytest.mark.parametrize("k", range(2))
def test_rasterize_to_pixels(k):
    pass
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "gsplat").mkdir()
    (tmp_path / "gsplat" / "__init__.py").write_text('__version__ = "1.5.3"\n')
    (tmp_path / "gsplat" / "rendering.py").write_text("def rasterization(*args, **options): ...\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_basic.py").write_text(CASES)
    (tmp_path / "tests" / "test_lidar.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(("options", "long"), [([], "skipped"), (["--full"], "passed")])
def test_cases_are_counted(checkout, options, long):
    command = [sys.executable, str(Path(__file__).with_name("gsplat_tests.py")), str(checkout), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = {"passed": 1, "failed": 1, "refused": 3, "skipped": 1}
    expected[long] += 2
    assert json.loads(done.stdout.splitlines()[-1]) == expected, done.stdout + done.stderr
    assert done.returncode == 1 and "with_ut=True is not supported" in done.stdout


def test_a_folder_that_is_no_checkout(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("gsplat_tests.py")), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
