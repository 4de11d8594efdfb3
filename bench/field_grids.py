#!/usr/bin/env python3
"""Trilinear grids with as many parameters as a Gaussian field, for comparison.

    python bench/field_grids.py VOLUME.npy SPACING --parameters 10000,50000,200000 [--seeds 0,1,2]

VOLUME.npy is indexed [x][y][z]; SPACING is `dx,dy,dz`. Two grids each: nodes fitted by least squares to 90 % of the
voxels (conjugate gradients with a smoothness term of 1e-3 where nothing is known), and plain down-sampling. PSNR in dB on
values scaled to 0..1 over the other 10 %. Needs numpy and scipy.
"""
import argparse
import json

import numpy as np
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import cg


def weights(points, shape, size):
    """Rows of trilinear weights of points in 0..size on a grid of `shape` nodes."""
    at = points / size * (np.array(shape) - 1)
    low = np.clip(np.floor(at).astype(int), 0, np.maximum(np.array(shape) - 2, 0))
    t = at - low
    rows, columns, values = [], [], []
    for corner in range(8):
        bits = np.array([corner & 1, corner >> 1 & 1, corner >> 2])
        node = np.minimum(low + bits, np.array(shape) - 1)
        rows.append(np.arange(len(points)))
        columns.append((node[:, 0] * shape[1] + node[:, 1]) * shape[2] + node[:, 2])
        values.append(np.prod(np.where(bits, t, 1 - t), axis=1))
    n = int(np.prod(shape))
    return coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (len(points), n)
    ).tocsr()


def shape_of(parameters, extent):
    cell = (np.prod(extent) / parameters) ** (1 / 3)
    return [max(2, int(round(e / cell))) for e in extent]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("volume")
    parser.add_argument("spacing")
    parser.add_argument("--parameters", default="10000,50000,200000")
    parser.add_argument("--seeds", default="0,1,2")
    args = parser.parse_args()
    v = np.load(args.volume).astype(np.float64)
    v = (v - v.min()) / (v.max() - v.min())
    spacing = np.array([float(s) for s in args.spacing.split(",")])
    index = np.stack(np.meshgrid(*map(np.arange, v.shape), indexing="ij"), -1).reshape(-1, 3)
    points, values = index * spacing, v.reshape(-1)
    size = np.maximum((np.array(v.shape) - 1) * spacing, 1e-9)
    out = []
    for parameters in map(int, args.parameters.split(",")):
        shape = shape_of(parameters, np.array(v.shape) * spacing)
        a = weights(points, shape, size)
        fitted, plain = [], []
        for seed in map(int, args.seeds.split(",")):
            test = np.random.default_rng(seed).random(len(values)) < 0.1
            train = a[~test]
            normal = train.T @ train + 1e-3 * identity(a.shape[1])
            nodes, _ = cg(normal, train.T @ values[~test], maxiter=200, rtol=1e-6)
            psnr = lambda f: float(-10 * np.log10(np.mean((f - values[test]) ** 2)))
            fitted.append(psnr(a[test] @ nodes))
            # Down-sampling: the mean of the known voxels whose nearest node it is.
            grid = np.rint(points / size * (np.array(shape) - 1)).astype(int)
            node = (grid[:, 0] * shape[1] + grid[:, 1]) * shape[2] + grid[:, 2]
            n = a.shape[1]
            count = np.bincount(node[~test], minlength=n)
            mean = np.bincount(node[~test], values[~test], minlength=n) / np.maximum(count, 1)
            plain.append(psnr(a[test] @ mean))
        out.append({
            "parameters": parameters, "shape": shape,
            "least_squares_db": round(float(np.mean(fitted)), 2), "down_sampled_db": round(float(np.mean(plain)), 2),
        })
        print(json.dumps(out[-1]), flush=True)


if __name__ == "__main__":
    main()
