import gausset
import numpy as np
import pytest

ARRAYS = ["means", "log_scales", "quats", "opacity_logits", "sh"]


def test_the_package_has_a_version():
    assert gausset.__version__.count(".") == 2


def test_a_ply_keeps_every_bit(tmp_path, splats):
    gausset.save(splats, tmp_path / "a.ply")
    again = gausset.load(tmp_path / "a.ply")
    for name in ARRAYS:
        array = getattr(again, name)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, getattr(splats, name))


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
@pytest.mark.parametrize("extension", ["spz", "sog", "splat", "compressed.ply", "glb"])
def test_other_formats_keep_the_splats_roughly(tmp_path, splats, extension):
    path = tmp_path / f"a.{extension}"
    gausset.save(splats, str(path))
    again = gausset.load(path)
    assert len(again) == len(splats)
    # Formats may sort the splats.
    np.testing.assert_allclose(again.means.mean(axis=0), splats.means.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(again.scales.mean(), 0.12, rtol=0.1)


def test_what_a_format_cannot_keep_is_a_warning(tmp_path, splats):
    with pytest.warns(gausset.GaussetWarning, match="SH"):
        gausset.save(splats, tmp_path / "a.splat")


def test_a_file_is_replaced_only_on_request(tmp_path, splats):
    path = tmp_path / "a.ply"
    gausset.save(splats, path)
    with pytest.raises(gausset.FileError) as caught:
        gausset.save(splats, path)
    assert isinstance(caught.value, OSError) and str(path) in str(caught.value)
    gausset.save(splats[:10], path, force=True)
    assert len(gausset.load(path)) == 10


def test_a_file_that_is_not_there_has_the_line_and_code_of_the_program(tmp_path):
    with pytest.raises(gausset.GaussetError) as caught:
        gausset.load(tmp_path / "no.ply")
    assert caught.value.code == "splats"
    assert str(caught.value).startswith(str(tmp_path / "no.ply")) and "\n" not in str(caught.value)


def test_masks_slices_and_indices_select_copies(splats):
    mask = splats.means[:, 0] > 0
    assert len(splats[mask]) == mask.sum()
    np.testing.assert_array_equal(splats[[5, 2]].means, splats.means[[5, 2]])
    part = splats[10:20]
    part.means[:] = 0
    assert splats.means[10:20].any() and part.sh.shape == (10, 4, 3)
    assert len(splats[np.zeros(len(splats), bool)]) == 0
    with pytest.raises(TypeError):
        splats[3]
    with pytest.raises(TypeError):
        iter(splats)
    with pytest.raises(IndexError):
        splats[[len(splats)]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("means", np.zeros((3, 4)), r"means: shape \(3, 4\) \(expected \(n, 3\)\)"),
        ("log_scales", np.zeros((2, 3)), r"log_scales: shape \(2, 3\) \(expected \(3, 3\)\)"),
        ("quats", np.zeros((3, 3)), r"quats: shape \(3, 3\) \(expected \(3, 4\)\)"),
        ("opacity_logits", np.zeros((3, 1)), "opacity_logits: shape"),
        ("sh", np.zeros((3, 5, 3)), "sh: 5 coefficients"),
        ("means", "text", "means: not an array of numbers"),
    ],
)
def test_wrong_shapes_are_named(name, value, message):
    arrays = {
        "means": np.zeros((3, 3)),
        "log_scales": np.zeros((3, 3)),
        "quats": np.ones((3, 4)),
        "opacity_logits": np.zeros(3),
        "sh": np.zeros((3, 1, 3)),
    }
    assert len(gausset.Splats(**arrays)) == 3
    with pytest.raises(ValueError, match=message) as caught:
        gausset.Splats(**{**arrays, name: value})
    assert caught.value.code == "argument"


def test_arrays_are_kept_and_changed_in_place(tmp_path):
    means = np.zeros((2, 3), np.float32)
    splats = gausset.Splats(means, np.zeros((2, 3)), np.ones((2, 4)), [0.0, 200.0], np.zeros((2, 16, 3)))
    assert splats.means is means and splats.sh_degree == 3
    splats.means[1] = 5
    gausset.save(splats, tmp_path / "a.ply")
    np.testing.assert_array_equal(gausset.load(tmp_path / "a.ply").means[1], [5, 5, 5])
    np.testing.assert_array_equal(splats.opacities, [0.5, 1.0])
    np.testing.assert_array_equal(splats.scales, np.ones((2, 3)))
    with pytest.raises(ValueError, match="means: shape"):
        splats.means = np.zeros((3, 3))
