import os
import shutil
import signal
import threading

import gausset
import numpy as np
import pytest


@pytest.fixture
def settings(tmp_path):
    """Options of a short training."""
    return {
        "device": "cpu",
        "init": tmp_path / "start.ply",
        "max_splats": 400,
        "threads": 2,
        "test_every": 5,
        "background": (0, 0, 0),
    }


def test_a_run_trains_reports_and_is_evaluated(photographs, tmp_path, settings):
    calls = []
    run = gausset.train(
        photographs,
        tmp_path / "run",
        steps=60,
        progress=lambda step, steps, loss: calls.append((step, steps, loss)),
        **settings,
    )
    assert run.path == tmp_path / "run" and run.finished
    assert calls[-1][:2] == (60, 60) and all(loss >= 0 for *_, loss in calls)
    assert run.metrics["steps"] == 60 and run.metrics["psnr"] > 15
    splats = run.splats()
    assert len(splats) == run.metrics["splats"]

    data = gausset.Dataset(photographs, test_every=5)
    camera = data.cameras[data.test[0]].transformed(splats.dataset_transform)
    color = gausset.render(splats, camera).color
    assert abs(color * 255 - data.image(data.test[0])).mean() < 30

    scores = gausset.evaluate(run, split="train", device="cpu")
    assert scores["split"] == "train" and scores["images"] == len(scores["per_image"]) == 8


def test_a_splat_file_is_evaluated_at_a_size_and_a_run_at_its_own(photographs, tmp_path, settings):
    start, folder = settings["init"], tmp_path / "scores"
    scores = gausset.evaluate(start, data=photographs, max_resolution=24, output=folder, device="cpu")
    data = gausset.Dataset(photographs, max_resolution=24)
    index = data.test[0]
    camera = data.cameras[index]
    assert (camera.width, camera.height) == (24, 18)
    rendered = gausset.render(gausset.load(start), camera, near_plane=0.01).color.clip(0, 1)
    expected = -10 * np.log10(((rendered - data.image(index)[..., :3] / 255) ** 2).mean())
    assert abs(scores["per_image"][0]["psnr"] - expected) < 0.05
    run = gausset.train(photographs, tmp_path / "run", steps=1, **settings)
    with pytest.raises(gausset.GaussetError, match="is evaluated at the size it was trained at"):
        gausset.evaluate(run, max_resolution=24, device="cpu")


def interrupt_once():
    """A progress callback that sends this process a Ctrl-C from another thread, once."""
    sent = []

    def progress(step, steps, loss):
        if not sent:
            sent.append(step)
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    return progress


@pytest.mark.skipif(os.name == "nt", reason="Windows sends SIGINT to consoles only")
def test_a_run_in_blocks_is_a_run(photographs, tmp_path, settings):
    del settings["init"]
    seen, events = [], []
    settings |= {"progress": lambda *step: seen.append(step), "on_event": events.append}
    run = gausset.train(photographs, tmp_path / "run", steps=60, blocks=2, **settings)
    names = [event.event for event in events]
    order = ["coarse_run", "block", "merged", "finished"]
    assert names.count("finished") == 1 and sorted(order, key=names.index) == order
    assert run.finished and run.metrics["psnr"] is not None
    assert len(run.splats()) == run.metrics["splats"]
    assert (run.path / "blocks" / "002" / "splats.ply").is_file()
    # The coarse run, then both blocks.
    assert sum(step == steps for step, steps, _ in seen) == 3
    with pytest.raises(gausset.GaussetError, match="blocks"):
        gausset.train(photographs, tmp_path / "other", steps=60, blocks=2, refine_poses=True, **settings)


def test_ctrl_c_saves_the_run_and_it_goes_on(photographs, tmp_path, settings):
    with pytest.raises(KeyboardInterrupt):
        gausset.train(photographs, tmp_path / "run", steps=5000, progress=interrupt_once(), **settings)
    run = gausset.Run(tmp_path / "run")
    assert not run.finished and list((run.path / "checkpoints").glob("*.ckpt"))
    assert len(run.splats()) > 0
    with pytest.raises(gausset.ArgumentError):
        gausset.resume(run, sh_degre=1)


@pytest.mark.skipif(os.name == "nt", reason="Windows sends SIGINT to consoles only")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_ctrl_c_in_the_callback_saves_the_run(photographs, tmp_path, settings, count):
    def progress(step, steps, loss):
        for _ in range(count):
            os.kill(os.getpid(), signal.SIGINT)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gausset.train(photographs, tmp_path / "run", steps=5000, progress=progress, **settings)
    assert list((tmp_path / "run" / "checkpoints").glob("*.ckpt"))


def test_an_exception_of_the_callback_stops_the_run_and_is_raised(photographs, tmp_path, settings):
    def progress(step, steps, loss):
        raise LookupError(f"no more than {step}")

    with pytest.raises(LookupError, match="no more than"):
        gausset.train(photographs, tmp_path / "run", steps=600, progress=progress, **settings)
    assert not gausset.Run(tmp_path / "run").finished
    run = gausset.resume(tmp_path / "run", device="cpu")
    assert run.finished and run.metrics["steps"] == 600


def test_a_state_that_cannot_be_saved_is_the_cause(photographs, tmp_path, settings):
    folder = tmp_path / "run" / "checkpoints"

    def progress(step, steps, loss):
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_text("in the way")
        raise LookupError

    with pytest.raises(LookupError) as caught:
        gausset.train(photographs, tmp_path / "run", steps=600, progress=progress, **settings)
    assert isinstance(caught.value.__cause__, gausset.FileError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_splat": 5}, "max_splat: no such option; did you mean `max_splats`?"),
        ({"steps": "many"}, "steps: expected"),
        ({"data_": 1}, "data_: no such option"),
        ({"quality": "good"}, "quality: expected"),
    ],
)
def test_options_that_do_not_exist_or_fit_are_named(photographs, tmp_path, options, message):
    with pytest.raises(ValueError) as caught:
        gausset.train(photographs, tmp_path / "run", device="cpu", **options)
    assert message in str(caught.value) and caught.value.code == "option"
    assert not (tmp_path / "run").exists()


def test_a_run_is_replaced_only_on_request(photographs, tmp_path, settings):
    gausset.train(photographs, tmp_path / "run", steps=5, **settings)
    with pytest.raises(gausset.FileError) as caught:
        gausset.train(photographs, tmp_path / "run", steps=5, **settings)
    assert caught.value.code == "exists" and "force" in str(caught.value) and "⟨" not in str(caught.value)
    assert gausset.train(photographs, tmp_path / "run", steps=6, force=True, **settings).metrics["steps"] == 6


def test_every_listed_option_is_a_keyword():
    names = gausset.option_names()
    assert "max_splats" in names and "data" not in names and all(name.isidentifier() for name in names)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(gausset.FileError) as caught:
        gausset.Run(tmp_path)
    assert caught.value.code == "not-a-run"
