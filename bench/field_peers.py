#!/usr/bin/env python3
"""Gaussian fields: Gausset against PyTorch, torch.compile, JAX and KeOps, paired in one run.

    python bench/field_peers.py [--gausset PATH] [--rounds 9] [--sizes 1000,10000] [--skip keops]

Every peer that is installed evaluates the same formula at the same sizes (B = 500 points), forward and
forward + backward to means, factors and weights, in f32, on one thread; CPU time, medians, in ms. Rounds of all
programs alternate, so that a busy machine is busy for all of them.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

POINTS = 500


def inputs(n, b):
    import random

    random.seed(1)
    u = random.random
    means = [[10 * u(), 10 * u(), 10 * u()] for _ in range(n)]
    log = lambda: math.log(0.5) + 0.6 * (u() - 0.5)
    off = lambda: 0.3 * (u() - 0.5)
    chol = [[log(), off(), log(), off(), off(), log()] for _ in range(n)]
    weights = [2 * u() - 1 for _ in range(n)]
    points = [[10 * u(), 10 * u(), 10 * u()] for _ in range(b)]
    return means, chol, weights, points


def formula(exp, means, chol, weights, x):
    """Element-wise forward substitution; broadcasting does the rest."""
    a0, a1, a2 = exp(-chol[:, 0]), exp(-chol[:, 2]), exp(-chol[:, 5])
    d = x[:, None, :] - means[None, :, :]
    v0 = d[..., 0] * a0
    v1 = (d[..., 1] - chol[:, 1] * v0) * a1
    v2 = (d[..., 2] - chol[:, 3] * v0 - chol[:, 4] * v1) * a2
    return (exp(-0.5 * (v0 * v0 + v1 * v1 + v2 * v2)) * weights).sum(-1)


def torch_peers(n, skip):
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    tensors = [torch.tensor(v, dtype=torch.float32) for v in inputs(n, POINTS)]
    *parameters, x = tensors
    for parameter in parameters:
        parameter.requires_grad_(True)

    def both(f):
        def run():
            for parameter in parameters:
                parameter.grad = None
            f(*parameters, x).sum().backward()

        return run

    plain = lambda m, c, w, p: formula(torch.exp, m, c, w, p)
    peers = {"torch": (lambda: plain(*parameters, x).detach(), both(plain))}
    try:
        compiled = torch.compile(plain)
        compiled(*parameters, x).sum().backward()
        peers["torch.compile"] = (lambda: compiled(*parameters, x).detach(), both(compiled))
    except Exception as error:  # no C++ compiler, for example
        print(f"torch.compile: {error}", file=sys.stderr)
    if "keops" in skip:
        return peers
    try:
        from pykeops.torch import LazyTensor

        def keops(m, c, w, p):
            x_i = LazyTensor(p[:, None, :].contiguous())
            g = [LazyTensor(t[None, :, None].contiguous()) for t in (*m.T, *c.T, w)]
            a0, a1, a2 = (-g[3]).exp(), (-g[5]).exp(), (-g[8]).exp()
            v0 = (x_i.elem(0) - g[0]) * a0
            v1 = (x_i.elem(1) - g[1] - g[4] * v0) * a1
            v2 = (x_i.elem(2) - g[2] - g[6] * v0 - g[7] * v1) * a2
            return ((-0.5 * (v0 * v0 + v1 * v1 + v2 * v2)).exp() * g[9]).sum(1)

        peers["KeOps"] = (lambda: keops(*parameters, x).detach(), both(keops))
    except ImportError:
        pass
    return peers


def jax_peers(n):
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    *parameters, x = [jnp.asarray(v, dtype=jnp.float32) for v in inputs(n, POINTS)]
    value = lambda p: formula(jnp.exp, *p, x)
    forward = jax.jit(value)
    both = jax.jit(jax.value_and_grad(lambda p: value(p).sum()))
    return {
        "JAX": (
            lambda: forward(parameters).block_until_ready(),
            lambda: jax.block_until_ready(both(parameters)),
        )
    }


def cpu_ms(call):
    started = time.process_time()
    call()
    return 1e3 * (time.process_time() - started)


def gausset(path, rounds):
    out = subprocess.run(
        [path, "bench", "field", "--threads", "1", "--rounds", str(rounds), "--json"],
        check=True, capture_output=True, text=True,
    )
    return {row["n"]: (row["forward_ms"], row["forward_backward_ms"]) for row in json.loads(out.stdout)["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gausset", default="target/release/gausset")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--skip", default="", help="keops: its modules take minutes to compile")
    args = parser.parse_args()
    rows = []
    for n in map(int, args.sizes.split(",")):
        peers = {**torch_peers(n, args.skip.lower().split(",")), **jax_peers(n)}
        if not peers:
            print("no peer is installed (looked for torch, jax, pykeops)", file=sys.stderr)
        times = {name: ([], []) for name in (*peers, "Gausset")}
        for _ in range(args.rounds):
            for name, calls in peers.items():
                for call, list_ in zip(calls, times[name]):
                    list_.append(cpu_ms(call))
            for value, list_ in zip(gausset(args.gausset, 5).get(n, (math.nan, math.nan)), times["Gausset"]):
                list_.append(value)
        # The first round compiles.
        median = {k: [statistics.median(v[1:] or v) for v in lists] for k, lists in times.items()}
        ours = median["Gausset"]
        for name, (forward, both) in median.items():
            rows.append({
                "n": n, "b": POINTS, "program": name, "forward_ms": forward, "forward_backward_ms": both,
                "forward_ratio": forward / ours[0], "forward_backward_ratio": both / ours[1],
            })
    print(json.dumps({"rows": rows}, indent=2))


if __name__ == "__main__":
    main()
