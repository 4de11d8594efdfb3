"""`gausset.density`: the masks of a training loop, of numpy arrays and of torch tensors."""

import math

import numpy as np
import pytest

import gausset
from gausset.density import densification_mask, pruning_mask


def kinds():
    try:
        import torch
    except ModuleNotFoundError:
        return [np.asarray]
    return [np.asarray, torch.from_numpy]


def random_splats(count=2000):
    random = np.random.default_rng(3)
    grads = random.exponential(2e-4, count).astype(np.float32)
    log_scales = random.normal(-4.5, 1.0, (count, 3)).astype(np.float32)
    opacities = random.uniform(0, 0.02, count).astype(np.float32)
    radii = random.uniform(0, 40, count).astype(np.float32)
    grads[5], log_scales[6], opacities[7], radii[8] = (np.nan,) * 4
    return grads, log_scales, opacities, radii


@pytest.mark.parametrize("kind", kinds())
def test_densification_is_that_of_a_plain_loop(kind):
    grads, log_scales, _, _ = random_splats()
    clones, splits = densification_mask(kind(grads), kind(log_scales), 2e-4, 0.02)
    expected = []
    for grad, scales in zip(grads, log_scales):
        grows = grad > 2e-4
        large = any(math.exp(scale) > 0.02 for scale in scales)
        expected.append((grows and not large, grows and large))
    assert type(clones) is type(kind(grads)) and "bool" in str(clones.dtype)
    assert np.array_equal(np.stack([clones, splits], 1), np.array(expected))
    assert 0.1 < np.asarray(clones).mean() < 0.3 and 0.1 < np.asarray(splits).mean() < 0.3


@pytest.mark.parametrize("kind", kinds())
def test_pruning_is_that_of_a_plain_loop(kind):
    _, log_scales, opacities, radii = random_splats()
    mask = pruning_mask(kind(opacities), kind(log_scales), kind(radii), 0.005, 0.05, 35.0)
    expected = [
        opacity < 0.005 or any(math.exp(scale) > 0.05 for scale in scales) or radius > 35.0
        for opacity, scales, radius in zip(opacities, log_scales, radii)
    ]
    assert type(mask) is type(kind(radii)) and "bool" in str(mask.dtype)
    assert np.array_equal(np.asarray(mask), np.array(expected))
    # Without limits of size, opacity alone counts.
    assert np.array_equal(np.asarray(pruning_mask(kind(opacities), kind(log_scales))), opacities < 0.005)


def test_columns_count_as_values_and_gradients_of_two_axes_by_length():
    log_scales = np.full((3, 3), -6.0)
    grads = np.array([[3e-4, 4e-4], [-3e-4, 4e-4], [1e-4, 1e-4]])
    clones, _ = densification_mask(grads, log_scales, 4.9e-4)
    assert clones.tolist() == [True, True, False]
    assert densification_mask(np.array([[-1.0], [1.0], [0.0]]), log_scales)[0].tolist() == [True, True, False]
    opacities = np.array([[0.001], [0.5], [0.5]])
    mask = pruning_mask(opacities, log_scales, np.array([[1], [1], [30]]), max_radius=20)
    assert mask.tolist() == [True, False, True]


def test_an_empty_set_has_empty_masks():
    none = np.zeros(0), np.zeros((0, 3))
    assert densification_mask(*none)[1].shape == (0,) and pruning_mask(*none).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: densification_mask(np.zeros(4), np.zeros((3, 3))), r"grads: shape \[4\] \(expected \[3\]\)"),
        (lambda: densification_mask(np.zeros(3), np.zeros(3)), r"log_scales: shape \[3\] \(expected \[3, 3\]\)"),
        (lambda: densification_mask([0.0], np.zeros((1, 3))), "list, ndarray .expected numpy arrays or torch tensors"),
        (lambda: pruning_mask(np.full(2, -3.0), np.zeros((2, 3))), "values outside 0..1 .of logits, take the sigmoid"),
        (lambda: pruning_mask(np.full(2, 0.5), np.zeros((2, 3)), max_radius=20.0), "radii: None"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(call, message):
    with pytest.raises(gausset.ArgumentError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
