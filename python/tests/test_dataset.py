import gausset
import numpy as np
import pytest

from conftest import HEIGHT, WIDTH


def test_a_dataset_has_images_cameras_and_a_split(photographs, splats):
    data = gausset.Dataset(photographs, test_every=5)
    assert len(data) == len(data.cameras) == len(data.names) == 10
    assert sorted([*data.train, *data.test]) == list(range(10)) and len(data.test) == 2
    assert data.points.shape[1:] == data.colors.shape[1:] == (3,)
    image = data.image(3)
    assert image.shape == (HEIGHT, WIDTH, 3) and image.dtype == np.uint8
    np.testing.assert_array_equal(data.image(-7), image)
    assert data.mask(3) is None


def test_cameras_of_a_dataset_see_what_the_images_show(photographs, splats):
    data = gausset.Dataset(photographs)
    for k in (0, 7):
        color = gausset.render(splats, data.cameras[k]).color
        assert np.abs(np.clip(color, 0, 1) * 255 - data.image(k)).mean() < 1.0


def test_an_index_beyond_the_images_and_a_folder_without_any_are_errors(photographs, tmp_path):
    data = gausset.Dataset(photographs)
    with pytest.raises(IndexError, match="image 10 of 10"):
        data.image(10)
    (tmp_path / "empty").mkdir()
    with pytest.raises(gausset.FileError) as caught:
        gausset.Dataset(tmp_path / "empty")
    assert caught.value.code == "dataset"
