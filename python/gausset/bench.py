"""`python -m gausset.bench`: this package against PyTorch on this machine.

    python -m gausset.bench [--json] [--threads N] [--case NAME] [--rounds N]

Each case computes outputs and all gradients in rounds that alternate with the peer; times are medians after a first
round. `ratio` is CPU time of the peer by ours.

    random      10,000 random splats, SH 3, 256x256
    garden01    gsplat's test scene, scales times 0.1, 648x420; GSPLAT_CHECKOUT names a checkout of gsplat
    garden05    the same, scales times 0.5
    overhead    165,751 random splats, SH 3, 516x344: the whole call by its part in the compiled extension
    field       a Gaussian field, 1,000 Gaussians, 500 points

The peer of splats is gsplat's renderer in PyTorch, or without gsplat the one of this package in torch; that of a field
is its formula in PyTorch, and `torch.compile` of it where torch has it and a compiler is there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gausset

from . import _gausset

CASES = ("random", "garden01", "garden05", "overhead", "field")
Call = Callable[[], object]


def measure(calls: dict[str, Call], rounds: int) -> dict[str, tuple[float, float]]:
    """Median CPU and wall seconds of each call; the calls alternate."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            found[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    # The first round allocates, and compiles.
    return {name: _medians(times[1:]) for name, times in found.items()}


def _medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    cpu, wall = zip(*times)
    return statistics.median(cpu), statistics.median(wall)


def random_scene(count: int, width: int, height: int) -> dict[str, Any]:
    """Splats in a box before one camera, with SH of degree 3."""
    import torch

    random = np.random.default_rng(0)
    focal = 0.8 * width
    values = {
        "means": random.uniform([-1, -1, 2], [1, 1, 6], (count, 3)),
        "quats": random.normal(size=(count, 4)),
        "scales": random.uniform(0.005, 0.05, (count, 3)),
        "opacities": random.uniform(0.05, 0.95, count),
        "colors": random.normal(size=(count, 16, 3)) * 0.3,
        "viewmats": np.eye(4)[None],
        "Ks": np.array([[[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]]),
    }
    tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()}
    return {**tensors, "width": width, "height": height, "sh_degree": 3}


def garden_scene(scale: float) -> dict[str, Any] | None:
    """The first view of gsplat's test scene, within 2 units of the origin; None if it is not there."""
    import torch

    path = os.path.join(os.environ.get("GSPLAT_CHECKOUT", ""), "assets", "test_garden.npz")
    if not os.path.exists(path):
        return None
    data, random = np.load(path), np.random.default_rng(0)
    inside = (np.abs(data["means3d"]) <= 2).all(1)
    means, colors = data["means3d"][inside], data["colors"][inside] / 255
    values = {
        "means": means,
        "quats": random.normal(size=(len(means), 4)),
        "scales": random.uniform(size=(len(means), 3)) * 0.02 * scale,
        "opacities": random.uniform(size=len(means)),
        "colors": colors,
        "viewmats": data["viewmats"][:1],
        "Ks": data["Ks"][:1],
    }
    tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()}
    return {**tensors, "width": int(data["width"]), "height": int(data["height"])}


def both_ways(render: Callable[..., Any], scene: dict[str, Any]) -> Call:
    """A call that renders and computes the gradients of everything but the cameras."""
    import torch

    leaves = {
        name: scene[name].clone().requires_grad_() for name in ("means", "quats", "scales", "opacities", "colors")
    }
    weights = torch.rand(1, scene["height"], scene["width"], 3, generator=torch.Generator().manual_seed(0))

    def call() -> None:
        image = render(**{**scene, **leaves})[0]
        torch.autograd.grad((image * weights).sum(), list(leaves.values()))

    return call


def peer_renderer() -> tuple[str, Callable[..., Any]]:
    """A renderer in PyTorch: gsplat's with what it lacks without CUDA, or that of this package."""
    import torch

    from . import gsplat as functions

    try:
        import gsplat
        from gsplat.rendering import _rasterization
    except ImportError:
        pass
    else:
        functions.install()
        return f"gsplat {gsplat.__version__} in PyTorch", _rasterization

    def composed(quats: Any, scales: Any, **rest: Any) -> Any:
        covars, _ = functions.quat_scale_to_covar_preci(quats, scales, compute_preci=False)
        return gausset.rasterization(quats=None, scales=None, covars=covars, **rest)

    return f"gausset in torch {torch.__version__}", composed


def splats(scene: dict[str, Any], rounds: int) -> dict[str, Any]:
    name, peer = peer_renderer()
    times = measure({"ours": both_ways(gausset.rasterization, scene), "peer": both_ways(peer, scene)}, rounds)
    return result(len(scene["means"]), scene["width"], scene["height"], times, name)


def overhead(rounds: int) -> dict[str, Any]:
    """CPU time of a call by that within the compiled extension."""
    scene = random_scene(165_751, 516, 344)
    inside = 0.0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal inside
            start = time.process_time()
            try:
                return function(*args)
            finally:
                inside += time.process_time() - start

        return call

    class Timed:
        """The extension, with a clock around what `rasterization` calls."""

        def __getattr__(self, name: str) -> Any:
            return timed(getattr(_gausset, name))

        @staticmethod
        def project(*args: Any) -> Any:
            view, *rest = timed(_gausset.project)(*args)
            return TimedView(view), *rest

    class TimedView:
        def __init__(self, view: _gausset.View) -> None:
            self._view = view

        def __getattr__(self, name: str) -> Any:
            return timed(getattr(self._view, name))

    from . import _rasterization, _shade

    modules: list[Any] = [_rasterization, _shade]
    call, shares = both_ways(gausset.rasterization, scene), []
    for module in modules:
        module._gausset = Timed()
    try:
        for _ in range(rounds + 1):
            inside, start = 0.0, time.process_time()
            call()
            shares.append((time.process_time() - start) / inside)
    finally:
        for module in modules:
            module._gausset = _gausset
    found = result(165_751, 516, 344, measure({"ours": call}, rounds), "its part in the extension")
    return {**found, "ratio": statistics.median(shares[1:])}


def field(rounds: int) -> dict[str, Any]:
    import torch

    from .field import GaussianField

    count, points = 1000, 500
    torch.manual_seed(0)
    field = GaussianField(count, bounds=([0.0] * 3, [10.0] * 3))
    with torch.no_grad():
        field.weights.uniform_(-1, 1)
    x = torch.rand(points, 3) * 10
    parameters = (field.means, field.chol, field.weights)

    def formula(means: Any, chol: Any, weights: Any, x: Any) -> Any:
        scales = [torch.exp(-chol[:, k]) for k in (0, 2, 5)]
        d = x[:, None, :] - means
        v0 = d[..., 0] * scales[0]
        v1 = (d[..., 1] - chol[:, 1] * v0) * scales[1]
        v2 = (d[..., 2] - chol[:, 3] * v0 - chol[:, 4] * v1) * scales[2]
        return (torch.exp(-0.5 * (v0 * v0 + v1 * v1 + v2 * v2)) * weights).sum(-1)

    def gradients(function: Callable[..., Any]) -> Call:
        return lambda: torch.autograd.grad(function(*parameters, x).sum(), parameters)

    calls = {"ours": gradients(lambda *_: field(x)), "peer": gradients(formula)}
    assert torch.allclose(field(x), formula(*parameters, x), atol=1e-4)
    if hasattr(torch, "compile"):
        try:
            compiled = gradients(torch.compile(formula))
            compiled()
            calls["compiled"] = compiled
        except Exception as error:  # without a C++ compiler, for example
            print(f"torch.compile: {str(error).splitlines()[0]}", file=sys.stderr)
    return result(count, 0, 0, measure(calls, rounds), f"PyTorch {torch.__version__}")


def result(count: int, width: int, height: int, times: dict[str, tuple[float, float]], peer: str) -> dict[str, Any]:
    cpu, wall = times["ours"]
    found: dict[str, Any] = {"n": count, "width": width, "height": height, "cpu_s": cpu, "wall_s": wall}
    found |= {"ratio": None, "peer": peer}
    for name, key in (("peer", ""), ("compiled", "compiled_")):
        if name in times:
            found |= {f"{key}ratio": times[name][0] / cpu, f"{key or 'peer_'}cpu_s": times[name][0]}
    return found


def versions() -> dict[str, str]:
    import torch

    info = gausset.build_info()
    found = {"gausset": info["version"], "simd": info["simd"], "torch": torch.__version__}
    return {**found, "numpy": np.__version__, "python": platform.python_version()}


def main(arguments: list[str] | None = None) -> int:
    """Runs cases; returns the exit code: 2 if one cannot run here."""
    parser = argparse.ArgumentParser(prog="python -m gausset.bench", description="Gausset against PyTorch.")
    parser.add_argument("--json", action="store_true", help="one JSON line a case")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of both (default 1)")
    parser.add_argument("--case", choices=CASES, action="append", help="default: all that can run here")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="measured rounds (default 5)")
    given = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        print("gausset.bench: torch is not installed", file=sys.stderr)
        return 2
    if given.threads < 1 or given.rounds < 1:
        parser.error("--threads, --rounds: expected 1 or more")
    torch.set_num_threads(given.threads)
    gausset.set_num_threads(given.threads)
    code = 0
    for case in given.case or CASES:
        if case.startswith("garden"):
            scene = garden_scene(0.1 if case == "garden01" else 0.5)
            if scene is None:
                print(f"{case}: no assets/test_garden.npz in GSPLAT_CHECKOUT, a checkout of gsplat", file=sys.stderr)
                code = 2
                continue
            found = splats(scene, given.rounds)
        elif case == "random":
            found = splats(random_scene(10_000, 256, 256), given.rounds)
        else:
            found = overhead(given.rounds) if case == "overhead" else field(given.rounds)
        line = {"case": case, **found, "threads": given.threads, "versions": versions()}
        if given.json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{case}: {1e3 * line['cpu_s']:.2f} ms CPU; {line['peer']}: {line['ratio']:.1f} times", flush=True)
    return code if given.case else 0


if __name__ == "__main__":
    sys.exit(main())
