"""The annotations of the package: they are complete, fit each other, and describe the compiled extension."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import gausset
import pytest

pytest.importorskip("mypy")

PACKAGE = Path(__file__).parents[1]
# Differences that are none: torch is `Any` for mypy, so that the metaclass of its functions is not known; classes within
# functions.
ALLOWED = r"""
gausset\.\w+\._(Blend|Evaluate|L1Ssim|Project|Shade|SparseGradient|Vjp)
gausset\.bench\.\w+@\d+
"""


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Runs mypy or its `stubtest` on sources; their text must be as expected."""
    if Path(gausset.__file__).parents[1] != PACKAGE:
        pytest.skip("outside the repository")
    cache = tmp_path_factory.mktemp("mypy")

    def run(module, *arguments):
        environment = {**os.environ, "MYPY_CACHE_DIR": str(cache), "PYTHONPATH": str(PACKAGE)}
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=PACKAGE,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


def test_mypy_finds_nothing(check):
    done = check("mypy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_describes_the_extension(check, tmp_path):
    (tmp_path / "allowed").write_text(ALLOWED)
    arguments = ["--mypy-config-file", "pyproject.toml", "--ignore-disjoint-bases", "--concise"]
    arguments += ["--allowlist", tmp_path / "allowed", "--ignore-unused-allowlist"]
    try:
        import torch  # noqa: F401

        modules = ["gausset"]
    except ImportError:
        modules = ["gausset._gausset"]
    done = check("mypy.stubtest", *modules, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_callers_are_checked(check, tmp_path):
    """What is imported at the first use is typed, too; names that do not exist are found."""
    source = """
        from typing import assert_type

        import gausset
        import numpy as np
        from numpy.typing import NDArray

        run = gausset.train("photographs", "run", steps=5, max_splats=500_000)
        assert_type(run, gausset.Run)
        splats = run.splats()
        color = gausset.render(splats, gausset.Dataset("photographs").cameras[0]).color
        assert_type(color, NDArray[np.float32])
        assert_type(gausset.view(splats), gausset.View)
        options: gausset.TrainOptions = {"strategy": "classic", "background": (0, 0, 0), "init": "start.ply"}
        gausset.start("photographs", "run", steps=5, **options)
        gausset.train("photographs", "run", max_splat=5)  # expected: an error
        gausset.train("photographs", "run", strategy="clasic")  # expected: an error
        gausset.resume(run, sh_degree=1)  # expected: an error
        gausset.DefaultStrategy(absgrad=True)
        gausset.DefaultStrategy(abs_grad=True)  # expected: an error
        gausset.rasterization(near=0.1)  # expected: an error
        gausset.rasterisation  # expected: an error
    """
    path = tmp_path / "caller.py"
    path.write_text(textwrap.dedent(source))
    expected = {k for k, line in enumerate(path.read_text().splitlines(), 1) if "# expected" in line}
    done = check("mypy", "--config-file", "pyproject.toml", path)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert found == expected, done.stdout + done.stderr
