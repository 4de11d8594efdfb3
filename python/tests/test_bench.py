import json
import sys

import gausset
import pytest

pytest.importorskip("torch")

from gausset import bench  # noqa: E402


@pytest.fixture(autouse=True)
def threads():
    import torch

    before = torch.get_num_threads(), gausset.num_threads()
    yield
    torch.set_num_threads(before[0])
    gausset.set_num_threads(before[1])


def test_a_case_prints_a_line_of_json(capsys):
    assert bench.main(["--json", "--case", "field", "--rounds", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert {"case", "n", "width", "height", "cpu_s", "wall_s", "ratio", "versions"} <= set(found)
    assert found["case"] == "field" and found["n"] == 1000 and found["cpu_s"] > 0
    assert found["ratio"] == pytest.approx(found["peer_cpu_s"] / found["cpu_s"])


def test_the_peer_renders_the_same(monkeypatch):
    import torch

    monkeypatch.setitem(sys.modules, "gsplat", None)
    name, peer = bench.peer_renderer()
    scene = bench.random_scene(100, 40, 30)
    found, expected = peer(**scene)[0], gausset.rasterization(**scene)[0]
    assert name.startswith("gausset in torch") and torch.allclose(found, expected, atol=1e-4)


def test_a_scene_that_is_not_there_is_said_in_a_line(capsys, monkeypatch):
    monkeypatch.delenv("GSPLAT_CHECKOUT", raising=False)
    assert bench.main(["--case", "garden01"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
