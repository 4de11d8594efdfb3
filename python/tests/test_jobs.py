"""Trainings in a thread, events, and objects that are pickled."""

import copy
import json
import pickle
import subprocess
import sys
import textwrap
import threading

import gausset
import numpy as np
import pytest
from gausset import _events, _train



@pytest.fixture
def settings(tmp_path):
    return {"device": "cpu", "init": tmp_path / "start.ply", "max_splats": 400, "threads": 2, "test_every": 5}


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_training_in_a_thread_is_watched_and_finishes(photographs, tmp_path, settings):
    with gausset.start(photographs, tmp_path / "run", steps=60, **settings) as training:
        run = training.wait()
    assert run.finished and training.step == training.steps == 60 and training.loss >= 0
    assert not training.running and "step 60 of 60" in repr(training)


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_the_end_of_a_block_stops_a_training_that_goes_on_later(photographs, tmp_path, settings):
    with gausset.start(photographs, tmp_path / "run", steps=100_000, **settings) as training:
        assert training.wait(0.01) is None and training.running
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(training)
    run = training.wait()
    assert not run.finished and list((run.path / "checkpoints").glob("*.ckpt"))


def bytes_of(run):
    return (run.path / "splats.ply").read_bytes()


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_training_that_is_advanced_by_calls_gives_the_same_bytes(photographs, tmp_path, settings):
    whole = gausset.train(photographs, tmp_path / "whole", steps=60, report=False, **settings)
    camera = gausset.Dataset(photographs, test_every=5).cameras[0]
    events = []
    with gausset.Trainer(photographs, tmp_path / "run", steps=60, on_event=events.append, **settings) as trainer:
        assert (trainer.step, trainer.steps) == (0, 60) and np.isnan(trainer.loss)
        steps = []
        while trainer.advance(25):
            steps.append(trainer.step)
            splats = trainer.splats()
            seen = camera.transformed(splats.dataset_transform)
            image, again = trainer.render(seen, (0, 0, 1)), gausset.render(splats, seen, (0, 0, 1))
            assert abs(image.color - again.color).max() < 1e-2 and abs(image.alpha - again.alpha).max() < 1e-2
            assert abs(image.depth - again.depth).max() < 1e-2 * again.depth.max()
        assert steps == [25, 50] and trainer.step == 60 and trainer.loss >= 0
        assert not trainer.advance()
    assert trainer.run.finished and bytes_of(trainer.run) == bytes_of(whole)
    assert trainer.run.metrics["psnr"] == whole.metrics["psnr"] and (trainer.run.path / "report.html").is_file()
    assert trainer.render(seen).color.shape == image.color.shape
    assert len(trainer.splats()) == trainer.run.metrics["splats"]
    assert [event.step for event in events if isinstance(event, _events.Progress)][-1] == 60


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_training_by_calls_stops_and_resumes(photographs, tmp_path, settings):
    whole = gausset.train(photographs, tmp_path / "whole", steps=60, report=False, **settings)
    with gausset.Trainer(photographs, tmp_path / "run", steps=60, **settings) as trainer:
        assert trainer.advance(17)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(trainer)
    assert not trainer.run.finished and not trainer.advance() and trainer.step == 17
    again = gausset.Trainer.resume(trainer.run, report=False)
    assert (again.step, again.steps) == (17, 60)
    with pytest.raises(gausset.FileError, match="in use"):
        gausset.resume(trainer.run)
    assert again.advance(3)
    again.save()
    assert any("20" in path.name for path in (trainer.run.path / "checkpoints").iterdir())
    thread = threading.Thread(target=again.stop)
    thread.start()
    while again.advance():
        pass
    thread.join()
    assert 20 <= again.step <= 60
    assert bytes_of(gausset.resume(trainer.run)) == bytes_of(whole)


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_the_run_in_a_folder_is_resumed_and_read(photographs, tmp_path, settings):
    gausset.Trainer(photographs, tmp_path / "scene" / "run", steps=60, **settings).stop()
    with gausset.Trainer.resume(tmp_path / "scene") as trainer:
        trainer.advance(1)
        assert len(trainer.splats()) > 0
    run = gausset.Run(tmp_path / "scene")
    assert not run.finished and run.metrics["steps"] == 1


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_an_exception_of_a_callback_saves_a_training_by_calls(photographs, tmp_path, settings):
    def fail_at_20(event):
        if isinstance(event, _events.Progress) and event.step == 20:
            raise ValueError("enough")

    trainer = gausset.Trainer(photographs, tmp_path / "run", steps=60, on_event=fail_at_20, **settings)
    assert trainer.advance(10)
    with pytest.raises(ValueError, match="enough"):
        trainer.advance(10)
    assert not trainer.advance() and not trainer.run.finished
    again = gausset.Trainer.resume(trainer.run)
    assert again.step == trainer.step >= 20
    again.stop()


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_what_is_due_after_a_step_is_done_in_its_call(photographs, tmp_path, settings):
    events = []
    options = {**settings, "eval_every": 20, "checkpoint_every": 20}
    with gausset.Trainer(photographs, tmp_path / "run", steps=60, on_event=events.append, **options) as trainer:
        trainer.advance(20)
        assert any(type(event).__name__ == "Evaluated" for event in events), events
        assert any("20" in path.name for path in (tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_failed_write_does_not_end_a_training_by_calls(photographs, tmp_path, settings):
    with gausset.Trainer(photographs, tmp_path / "run", steps=60, **settings) as trainer:
        trainer.advance(10)
        (tmp_path / "run" / "splats.ply").mkdir()
        with pytest.raises(gausset.FileError):
            trainer.splats()
        (tmp_path / "run" / "splats.ply").rmdir()
        assert trainer.advance(10) and trainer.step == 20 and len(trainer.splats()) > 0
        del trainer  # It has no cycle of references: the folder is free at once.
    gausset.Trainer(photographs, tmp_path / "run", steps=60, force=True, **settings).stop()


def test_arguments_of_a_training_by_calls_are_checked(photographs, tmp_path, settings):
    with pytest.raises(gausset.ArgumentError, match="blocks"):
        gausset.Trainer(photographs, tmp_path / "run", steps=60, blocks=2, **settings)
    with gausset.Trainer(photographs, tmp_path / "run", steps=60, report=False, **settings) as trainer:
        for steps in (0, -1, 1.5):
            with pytest.raises(gausset.ArgumentError, match="steps"):
                trainer.advance(steps)
        with pytest.raises(gausset.ArgumentError, match="background"):
            trainer.render(gausset.Camera(8, 8, 8, 8, 4, 4), (0, 0))


def test_what_ends_a_training_is_raised(tmp_path):
    with pytest.raises(gausset.FileError), gausset.start(tmp_path / "no", tmp_path / "run", device="cpu") as training:
        training.wait()


def test_what_ends_a_stopped_training_is_raised(tmp_path):
    def work(progress):
        raise _train._Stopped

    training = _train.Training(tmp_path / "no", work)
    with pytest.raises(gausset.FileError):
        training.wait(60)


def test_the_end_of_python_saves_a_training(photographs, tmp_path):
    code = f"""
        import gausset
        gausset.start({str(photographs)!r}, {str(tmp_path / "run")!r}, steps=100_000, device="cpu",
                      init={str(tmp_path / "start.ply")!r}, max_splats=400)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, timeout=60, check=True, capture_output=True, text=True)
    assert done.stdout == done.stderr == ""
    run = gausset.Run(tmp_path / "run")
    assert not run.finished and list((run.path / "checkpoints").glob("*.ckpt"))


def test_a_line_of_json_becomes_an_event():
    line = {"schema": 1, "event": "progress", "step": 20, "steps": 60, "loss": 0.25, "splats": 9, "it_per_s": 5.0}
    line |= {"memory": None, "budget": None, "seconds_left": 8.0, "report": {"visible": 3}}
    event = _events.event_of(json.dumps(line))
    assert isinstance(event, _events.Progress) and (event.step, event.loss, event.seconds_left) == (20, 0.25, 8.0)
    assert event.event == "progress" and event.fields == {"budget": None, "report": {"visible": 3}}
    other = _events.event_of('{"schema":1,"event":"paused","step":5}')
    assert type(other) is _events.Event and other == _events.Event("paused", {"step": 5})


def test_a_callback_receives_events():
    events = []
    progress, on_event = _train._callbacks(None, events.append)
    on_event('{"schema":1,"event":"checkpointed","step":5,"bytes":7,"seconds":0.5}')
    assert progress is None and events == [_events.Checkpointed("checkpointed", step=5, bytes=7, seconds=0.5)]


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_training_tells_its_events(photographs, tmp_path, settings):
    events = []
    gausset.train(photographs, tmp_path / "run", steps=60, on_event=events.append, **settings)
    kinds = [event.event for event in events]
    assert kinds[0] == "started" and kinds[-1] == "finished" and events[-1].steps == 60
    assert any(isinstance(event, _events.Progress) and event.splats > 0 for event in events)

    def refuse(event):
        raise LookupError(event.event)

    with pytest.raises(LookupError, match="started"):
        gausset.train(photographs, tmp_path / "other", steps=60, on_event=refuse, **settings)


def test_splats_are_pickled_with_what_their_file_says(splats, tmp_path):
    gausset.save(splats, tmp_path / "a.ply")
    read = gausset.load(tmp_path / "a.ply")
    read.means[3] = np.nan
    for again in (pickle.loads(pickle.dumps(read)), copy.deepcopy(read)):
        for name in ("means", "log_scales", "quats", "opacity_logits", "sh"):
            assert getattr(again, name).tobytes() == getattr(read, name).tobytes()
        assert again.antialiased == read.antialiased and again.means is not read.means
    assert len(pickle.loads(pickle.dumps(splats[:0]))) == 0


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_finished_run_keeps_its_transform_when_it_is_pickled(photographs, tmp_path, settings):
    run = pickle.loads(pickle.dumps(gausset.train(photographs, tmp_path / "run", steps=5, **settings)))
    splats = run.splats()
    again = pickle.loads(pickle.dumps(splats))
    assert np.array_equal(again.dataset_transform, splats.dataset_transform)
    assert again.antialiased == splats.antialiased and np.array_equal(again.up, splats.up)


@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_dataset_is_opened_again(photographs):
    data = gausset.Dataset(photographs, test_every=3)
    again = pickle.loads(pickle.dumps(data))
    assert again.names == data.names and again.test.tolist() == data.test.tolist()
    assert np.array_equal(again.image(2), data.image(2))


def test_splats_on_a_device_are_not_pickled(splats):
    with pytest.raises(TypeError, match="Renderer"):
        pickle.dumps(gausset.Renderer(splats))
