"""Runs gsplat's own tests on the CPU against `gausset.gsplat.install()`.

    python gsplat_tests.py CHECKOUT [--full] [ARGUMENTS OF PYTEST]

CHECKOUT is a checkout or the unpacked source distribution of gsplat 1.4 to 1.6. Its package and tests are copied and
made to use the CPU; the functions that need CUDA are those of Gausset, the expected values those of gsplat's code in
PyTorch. Source distributions lack the scene of the tests: a made one replaces it.

`--full` adds cases that take minutes or many GB. The last line is JSON: passed, failed, refused (what Gausset does not
have; reasons are listed, a module counts once), skipped. The exit code is 1 if one failed.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gausset

# Modules whose cases are run.
MODULES = ("test_basic", "test_mcmc_perturb", "test_rasterization", "test_relocation", "test_strategy")
# Parts of names, and why such cases and modules are not run.
REFUSED = {
    "2dgs": "2D Gaussian splatting",
    "eval3d": "rays through 3D Gaussians",
    "ftheta": "F-theta cameras",
    "_ut": "unscented transform",
    "lidar": "lidar",
    "rolling": "rolling shutter",
    "compression": "gsplat's compression, in PyTorch and other packages",
    "contributing": "queries of contributing splats",
    "distributed": "several processes",
}
OTHER_MODULE = "not a test of 3D Gaussian splatting by EWA"
# Cases of `--full`: gsplat's code in PyTorch takes minutes or many GB.
LONG = ("test_rasterization.py::test_rasterization", "test_rasterize_to_pixels[")
CPU = (
    ('"cuda:0"', '"cpu"'),
    ('"cuda"', '"cpu"'),
    # Also before fixtures, which newer releases of pytest refuse.
    ('@pytest.mark.skipif(not torch.cuda.is_available(), reason="No CUDA device")\n', ""),
    ("not torch.cuda.is_available()", "False"),
    ("_C is None", "False"),
    ("torch.cuda.synchronize()", "pass"),
    # Older releases of it, as that of Debian 12, lack names that Python 3.11 has.
    ("from typing_extensions import", "from typing import"),
)


def refusal(name: str) -> str | None:
    """Why a case or module is not run."""
    return next((reason for part, reason in REFUSED.items() if part in name), None)


def copy(checkout: Path, folder: Path, found: list[Path]) -> list[Path]:
    """Copies package and tests, made to use the CPU; returns the files of tests."""
    shutil.copytree(checkout / "gsplat", folder / "gsplat", ignore=shutil.ignore_patterns("csrc", "*.so"))
    tests = folder / "tests"
    tests.mkdir()
    for path in found:
        text = path.read_text()
        for cuda, cpu in CPU:
            text = text.replace(cuda, cpu)
        (tests / path.name).write_text(text)
    assets = checkout / "assets" / "test_garden.npz"
    (folder / "assets").mkdir()
    if assets.exists():
        shutil.copy(assets, folder / "assets")
    else:
        print(f"{assets}: not there; a made scene of 20,000 points replaces it")
        np.savez(folder / "assets" / "test_garden.npz", **made_scene(20_000))
    return [tests / path.name for path in found]


def made_scene(count: int) -> dict[str, Any]:
    """Points on a disc with a ball, seen from three sides, in the form of gsplat's `test_garden.npz`."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    disc = random.uniform(-1.9, 1.9, size=(count, 3)) * [1, 1, 0.02] + [0, 0, 0.6]
    means = np.where(random.uniform(size=(count, 1)) < 0.4, 0.5 * directions, disc)
    poses = np.tile(np.eye(4), (3, 1, 1))
    for pose, angle in zip(poses, (0.0, 0.6, 2.0)):
        position = np.array([3.2 * np.sin(angle), -3.2 * np.cos(angle), -1.4])
        forward = -position / np.linalg.norm(position)
        right = np.cross(forward, [0.0, 0.0, -1.0])
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward])
        pose[:3, :3], pose[:3, 3] = rotation, -rotation @ position
    lens = [[480.0, 0, 324], [0, 480.0, 210], [0, 0, 1]]
    colors = random.integers(0, 256, size=(count, 3)).astype(np.uint8)
    return {
        "height": 420,
        "width": 648,
        "viewmats": poses.astype(np.float32),
        "Ks": np.tile(np.array(lens, np.float32), (3, 1, 1)),
        "means3d": means.astype(np.float32),
        "colors": colors,
    }


class Outcomes:
    """A plugin of pytest that chooses cases and counts."""

    def __init__(self, is_full: bool) -> None:
        self.is_full = is_full
        self.counts: Counter[str] = Counter(passed=0, failed=0, refused=0, skipped=0)
        self.reasons: Counter[str] = Counter()

    def refuse(self, reason: str) -> None:
        self.counts["refused"] += 1
        self.reasons[reason] += 1

    @pytest.fixture
    def dist_init(self) -> Iterator[None]:
        """Of gsplat 1.6: tests of one process need nothing."""
        yield

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            name = item.nodeid.rpartition("/")[2]
            if (reason := refusal(name)) is not None:
                self.refuse(reason)
            elif not self.is_full and any(part in name for part in LONG):
                self.counts["skipped"] += 1
            else:
                kept.append(item)
        items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.counts["failed"] += report.failed

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, gausset.ArgumentError) and "not supported" in str(error):
            report.outcome, report.longrepr = "skipped", (str(item.path), None, str(error))
            self.refuse(str(error))
        elif report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1


def install() -> None:
    """Puts Gausset's functions into the copied gsplat."""
    import gsplat
    import torch

    import gausset.gsplat

    if not hasattr(torch._C, "_dispatch_find_schema_or_throw"):

        def missing(*_: Any) -> Any:
            raise RuntimeError("no such operator")

        torch._C._dispatch_find_schema_or_throw = missing
    gausset.gsplat.install()
    for name, value in (("has_3dgs", True), ("has_3dgut", False), ("has_2dgs", False)):
        if hasattr(gsplat, name):
            setattr(gsplat, name, lambda value=value: value)
    print(f"gsplat {gsplat.__version__}, torch {torch.__version__}, gausset {gausset.__version__}")


def main(arguments: list[str]) -> int:
    if not arguments or not Path(arguments[0], "gsplat").is_dir():
        print(
            "usage: gsplat_tests.py CHECKOUT [--full] [ARGUMENTS OF PYTEST]; CHECKOUT has the folders gsplat and tests"
        )
        return 2
    is_full = "--full" in arguments
    outcomes = Outcomes(is_full)
    modules = sorted(Path(arguments[0]).glob("tests/**/test_*.py"))
    for path in modules:
        if path.stem not in MODULES:
            outcomes.refuse(refusal(path.stem) or OTHER_MODULE)
    with tempfile.TemporaryDirectory() as name:
        tests = copy(Path(arguments[0]), Path(name), [path for path in modules if path.stem in MODULES])
        sys.path.insert(0, name)
        install()
        options = [argument for argument in arguments[1:] if argument != "--full"]
        fixed = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", f"--rootdir={name}"]
        pytest.main([*fixed, "--continue-on-collection-errors", *options, *map(str, tests)], plugins=[outcomes])
    for reason, count in outcomes.reasons.items():
        print(f"refused {count:4}: {reason}")
    print(json.dumps(dict(outcomes.counts)))
    return 1 if outcomes.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
