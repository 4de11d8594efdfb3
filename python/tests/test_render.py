import threading
import zlib

import gausset
import numpy as np
import pytest

from conftest import HEIGHT, WIDTH, camera_at


def one_splat(**changes):
    arrays = {
        "means": [[0.0, 0.0, 2.0]],
        "log_scales": [[-1.5, -1.5, -1.5]],
        "quats": [[1.0, 0.0, 0.0, 0.0]],
        "opacity_logits": [4.0],
        "sh": [[[1.7, -1.7, -1.7]]],
    }
    return gausset.Splats(**{**arrays, **changes})


def test_a_red_splat_ahead_is_red_in_the_centre():
    camera = gausset.Camera(64, 48, 50.0, 50.0, 32.0, 24.0)
    view = gausset.render(one_splat(), camera, background=(0.0, 0.0, 1.0))
    assert view.color.shape == (48, 64, 3) and view.color.dtype == np.float32
    assert view.alpha.shape == view.depth.shape == view.count.shape == (48, 64)
    red, green, blue = view.color[24, 32]
    assert red > 0.9 and green < 0.1 and blue < 0.1
    np.testing.assert_allclose(view.color[0, 0], [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(view.depth[24, 32] / view.alpha[24, 32], 2.0, rtol=1e-5)
    assert view.count[24, 32] == 1 and view.count[0, 0] == 0


def test_a_renderer_gives_the_same_bytes_from_several_threads(splats):
    renderer = gausset.Renderer(splats, threads=1)
    cameras = [camera_at([4 * np.sin(a), 0.5, -4 * np.cos(a)]) for a in np.linspace(0, 6, 6)]
    alone = [gausset.render(splats, camera, threads=2).color for camera in cameras]
    found = [None] * len(cameras)

    def work(k):
        found[k] = renderer.render(cameras[k]).color

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(cameras))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(alone, found):
        np.testing.assert_array_equal(a, b)
    assert alone[0].any()


def test_a_lower_sh_degree_is_that_of_splats_without_the_others(splats):
    camera = camera_at([1.0, 0.5, -4.0])
    low = gausset.Splats(
        splats.means, splats.log_scales, splats.quats, splats.opacity_logits, splats.sh[:, :1]
    )
    a = gausset.render(splats, camera, sh_degree=0).color
    np.testing.assert_array_equal(a, gausset.render(low, camera).color)
    assert (a != gausset.render(splats, camera).color).any()


def test_a_camera_that_moves_with_the_splats_sees_the_same(splats):
    camera = camera_at([1.0, 0.5, -4.0])
    moved = splats[:]
    moved.means = 2 * splats.means + np.array([1.0, 2.0, 3.0], np.float32)
    moved.log_scales = splats.log_scales + np.float32(np.log(2))
    similarity = np.diag([2.0, 2.0, 2.0, 1.0])
    similarity[:3, 3] = [1, 2, 3]
    a = gausset.render(splats, camera)
    b = gausset.render(moved, camera.transformed(similarity))
    assert np.abs(a.color - b.color).mean() < 1e-4
    np.testing.assert_allclose(2 * a.depth.mean(), b.depth.mean(), rtol=1e-3)


def test_a_camera_says_where_it_is_and_halves_its_size():
    camera = camera_at([1.0, 0.5, -4.0])
    np.testing.assert_allclose(camera.position, [1.0, 0.5, -4.0])
    half = camera.resized(WIDTH // 2, HEIGHT // 2)
    np.testing.assert_allclose(half.K, [[22.5, 0, 12], [0, 22.5, 9], [0, 0, 1]])
    assert gausset.render(one_splat(), half).alpha.shape == (HEIGHT // 2, WIDTH // 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 48, 50.0, 50.0, 32.0, 24.0), "image size is 0x48 px"),
        ((-1, 48, 50.0, 50.0, 32.0, 24.0), "image size is -1x48 px"),
        ((64, 48, 0.0, 50.0, 32.0, 24.0), "focal length"),
        ((64, 48, 50.0, 50.0, float("nan"), 24.0), "principal point"),
        ((64, 48, 50.0, 50.0, 32.0, 24.0, np.eye(3)), r"world_to_camera: shape \(3, 3\)"),
        ((64, 48, 50.0, 50.0, 32.0, 24.0, np.diag([-1.0, 1, 1, 1])), "world_to_camera: rotation"),
        ((64, 48, 50.0, 50.0, 32.0, 24.0, np.ones((4, 4))), "world_to_camera: the last row"),
    ],
)
def test_numbers_that_are_no_camera_are_refused(arguments, message):
    with pytest.raises(gausset.ArgumentError, match=message):
        gausset.Camera(*arguments)


def test_a_device_that_does_not_exist_is_named():
    camera = gausset.Camera(8, 8, 8.0, 8.0, 4.0, 4.0)
    with pytest.raises(gausset.ArgumentError, match="auto|cpu|gpu"):
        gausset.render(one_splat(), camera, device="cuda")


def test_a_notebook_shows_the_colours(splats, tmp_path):
    color = np.full((3, 5, 3), [0.0, 0.5, 7.0], np.float32)
    color[0, 0, 0] = np.nan
    shown = gausset.Rendering(color, color[..., 0], color[..., 0], np.zeros((3, 5), np.uint32))._repr_png_()
    assert shown[:8] == b"\x89PNG\r\n\x1a\n" and shown[16:24] == bytes([0, 0, 0, 5, 0, 0, 0, 3])
    start = shown.index(b"IDAT") + 4
    assert zlib.decompress(shown[start:-16]) == 3 * (b"\0" + 5 * bytes([0, 128, 255]))
