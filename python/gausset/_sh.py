"""Real spherical harmonics in torch: degree 0 to 4, any number of channels, any float type.

The kernel is faster; it takes degrees 0 to 3 of three channels in f32.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST_DEGREE = 4


def basis(directions: Tensor, degree: int) -> Tensor:
    """The `(degree + 1)²` basis functions (..., K) at unit vectors (..., 3), in the order and with the signs of 3D
    Gaussian splatting (Kerbl et al. 2023, released code)."""
    x, y, z = directions.unbind(-1)
    b = [torch.full_like(x, 0.28209479177387814)]
    if degree > 0:
        b += [-0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x]
    xx, yy, zz = x * x, y * y, z * z
    if degree > 1:
        b += [1.0925484305920792 * x * y, -1.0925484305920792 * y * z]
        b += [0.31539156525252005 * (3 * zz - 1), -1.0925484305920792 * x * z]
        b += [0.5462742152960396 * (xx - yy)]
    if degree > 2:
        b += [-0.5900435899266435 * y * (3 * xx - yy), 2.890611442640554 * x * y * z]
        b += [-0.4570457994644658 * y * (5 * zz - 1), 0.3731763325901154 * z * (5 * zz - 3)]
        b += [-0.4570457994644658 * x * (5 * zz - 1), 1.445305721320277 * z * (xx - yy)]
        b += [-0.5900435899266435 * x * (xx - 3 * yy)]
    if degree > 3:
        b += [2.5033429417967046 * x * y * (xx - yy), -1.7701307697799304 * y * z * (3 * xx - yy)]
        b += [0.9461746957575601 * x * y * (7 * zz - 1), -0.6690465435572892 * y * z * (7 * zz - 3)]
        b += [0.10578554691520431 * ((35 * zz - 30) * zz + 3), -0.6690465435572892 * x * z * (7 * zz - 3)]
        b += [0.47308734787878004 * (xx - yy) * (7 * zz - 1), -1.7701307697799304 * x * z * (xx - 3 * yy)]
        b += [0.6258357354491761 * (xx * (xx - 3 * yy) - yy * (3 * xx - yy))]
    return torch.stack(b, -1)


def sums(degree: int, directions: Tensor, coefficients: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sums (..., D) of basis functions: `directions` (..., 3) of any length, `coefficients` (..., K, D); 0 where `mask`
    (...) is false."""
    count = (degree + 1) ** 2
    unit = torch.nn.functional.normalize(directions, dim=-1)
    found = (basis(unit, degree)[..., None] * coefficients[..., :count, :]).sum(-2)
    return found if mask is None else found.where(mask[..., None], found.new_zeros(()))
