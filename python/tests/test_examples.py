"""The scripts of `examples`, on the small scene."""

import re
import subprocess
import sys
from pathlib import Path

import gausset
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_splat_before_the_subject_is_found(photographs, splats, tmp_path):
    pytest.importorskip("torch")
    dataset = gausset.Dataset(photographs)
    run = tmp_path / "run"
    (run / "depth").mkdir(parents=True)
    config = 'data = "{}"\nnear-plane = "auto"\nmax-resolution = 1600\n[run]\nnear-plane = 0.1\n'
    (run / "config.toml").write_text(config.format(photographs))
    for number, view in enumerate(dataset.train):
        found = gausset.render(splats, dataset.cameras[view])
        depth = np.where(found.alpha > 0.9, found.depth, np.nan).astype(np.float32)
        np.save(run / "depth" / f"{number:04}_{view}.npy", depth)
    # Half of the way from the first training camera to the ball, which it sees 3 units away.
    first = dataset.cameras[dataset.train[0]].position
    veil = gausset.Splats(
        means=np.concatenate([splats.means, [first * (1 - 1.5 / np.linalg.norm(first))]]),
        log_scales=np.concatenate([splats.log_scales, np.full((1, 3), np.log(0.1))]),
        quats=np.concatenate([splats.quats, [[1, 0, 0, 0]]]),
        opacity_logits=np.append(splats.opacity_logits, 0.0),
        sh=np.concatenate([splats.sh, np.zeros((1, 4, 3))]),
    )
    gausset.save(veil, run / "splats.ply")

    def show(*views):
        command = [sys.executable, EXAMPLES / "veils.py", run, *views]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    name = dataset.names[dataset.train[0]]
    found = show(name)
    assert found.returncode == 0, found.stderr
    listed = re.search(r"splat +(\d+): +(\d+\.\d) %, at (\d\.\d+) of the way", found.stdout)
    assert listed and int(listed[1]) == len(splats), found.stdout
    assert float(listed[2]) > 90 and 0.45 < float(listed[3]) < 0.55, found.stdout
    # No other view has so much in front.
    of_views = dict(re.findall(r"(\S+): (\d+\.\d) % of the weight", show().stdout))
    assert len(of_views) == len(dataset.train)
    assert max(of_views, key=lambda view: float(of_views[view])) == name
    assert "no such view" in show("nothing").stderr
