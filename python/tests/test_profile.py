import json
import subprocess
import sys
import threading

import gausset
import pytest
from gausset import profile


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by `clock.tick(ns)` only."""

    class Clock:
        now = 1_000

        def tick(self, ns):
            self.now += ns

    clock = Clock()
    monkeypatch.setattr(profile.time, "perf_counter_ns", lambda: clock.now)
    return clock


def pipeline(profiler, clock, steps=3):
    for step in range(steps):
        with profiler.span("step"):
            clock.tick(5)
            with profiler.span("render"):
                clock.tick(100 + step)
            with profiler.span("loss"):
                clock.tick(10)
        clock.tick(1)


def totals(profiler):
    return [(row.path, row.count, round(row.total_ms * 1e6)) for row in profiler.rows()]


def test_rows_add_up_to_the_wall_time_at_each_level(clock):
    with profile.Profiler() as profiler:
        clock.tick(7)
        pipeline(profiler, clock)
    clock.tick(1000)
    assert totals(profiler) == [
        ("step", 3, 348),
        ("step/render", 3, 303),
        ("step/loss", 3, 30),
        ("step/unattributed", 0, 15),
        ("unattributed", 0, 10),
    ]
    assert round(profiler.wall * 1e9) == 348 + 10
    assert profiler.rows()[0].self_ms == pytest.approx(15e-6)
    assert sum(row.share for row in profiler.rows() if row.depth == 0) == pytest.approx(1.0)


def test_each_call_has_a_value(clock):
    profiler = profile.Profiler()
    pipeline(profiler, clock)
    assert (profiler.values("step/render") * 1e9).round().tolist() == [100, 101, 102]
    assert len(profiler.values("render")) == 0
    row = profiler.rows()[1]
    found = [round(1e6 * v) for v in (row.mean_ms, row.std_ms, row.min_ms, row.median_ms, row.max_ms)]
    assert found == [101, 1, 100, 101, 102]


def test_a_span_decorates_functions_and_survives_exceptions(clock):
    profiler = profile.Profiler()

    @profiler.span("fall")
    def fall(depth):
        """Falls."""
        clock.tick(1)
        if depth == 0:
            raise LookupError
        fall(depth - 1)

    assert fall.__doc__ == "Falls."
    with pytest.raises(LookupError):
        fall(2)
    with profiler.span("after"):
        clock.tick(2)
    assert [(path, total) for path, _, total in totals(profiler)] == [
        ("fall", 3),
        ("fall/fall", 2),
        ("fall/fall/fall", 1),
        ("fall/fall/unattributed", 1),
        ("fall/unattributed", 1),
        ("after", 2),
        ("unattributed", 0),
    ]


def test_a_report_within_open_spans_still_adds_up(clock):
    profiler = profile.Profiler()
    with profiler.span("run"), profiler.span("step"):
        with profiler.span("render"):
            clock.tick(4)
        clock.tick(3)
        assert totals(profiler) == [
            ("run", 0, 7),
            ("run/step", 0, 7),
            ("run/step/render", 1, 4),
            ("run/step/unattributed", 0, 3),
            ("run/unattributed", 0, 0),
            ("unattributed", 0, 0),
        ]
        assert all(row.self_ms >= 0 for row in profiler.rows())


def test_a_profile_ends_with_its_block(clock):
    profiler = profile.Profiler()

    @profiler.span("step")
    def step():
        clock.tick(5)

    with profiler:
        step()
        over = profiler.span("over")
        over.__enter__()
        clock.tick(2)
    clock.tick(100)
    over.__exit__(None, None, None)
    step()
    assert totals(profiler) == [("step", 1, 5), ("over", 0, 2), ("unattributed", 0, 0)]
    assert [event["dur"] for event in profiler.trace()["traceEvents"] if event["ph"] == "X"] == [5e-3, 2e-3]
    with profiler:
        clock.tick(1)
    assert totals(profiler) == [("unattributed", 0, 1)]


def test_other_threads_have_rows_of_their_own(clock):
    profiler = profile.Profiler()

    def work():
        with profiler.span("decode"):
            clock.tick(50)

    with profiler.span("step"), profiler.span("decode"):
        # The second thread may get the identifier of the first.
        for name in ["loader", "writer"]:
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()
    assert totals(profiler)[:2] == [("step", 1, 100), ("step/decode", 1, 100)]
    found = profiler.as_dict()
    assert found["worker_threads"] == 2 and [row["path"] for row in found["worker_rows"]] == ["decode"]
    assert found["worker_rows"][0]["values_ms"] == [50e-6, 50e-6]
    assert "other threads" in str(profiler)
    names = [event["args"]["name"] for event in profiler.trace()["traceEvents"] if event["ph"] == "M"]
    assert names == ["main", "loader", "writer"]


def test_a_device_is_waited_for(clock):
    waits = []
    profiler = profile.Profiler(synchronize=lambda: (waits.append(1), clock.tick(2)))
    with profiler.span("kernel"):
        clock.tick(5)
    assert len(waits) == 2 and totals(profiler) == [("kernel", 1, 7), ("unattributed", 0, 2)]


def test_the_table_is_aligned(clock):
    with profile.Profiler() as profiler:
        pipeline(profiler, clock)
    lines = str(profiler).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["step", "render", "loss", "unattributed", "unattributed", "wall"]
    assert lines[2].startswith("  render") and lines[-1].endswith("100.0 %")


def test_the_program_shows_the_profile(tmp_path):
    with profile.Profiler() as profiler:
        for _ in range(2):
            with profiler.span("step"), profiler.span("render"):
                sum(range(1000))
    profiler.write(tmp_path / "profile")
    trace = json.loads((tmp_path / "profile" / "trace.json").read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in spans] == ["step", "render"] * 2
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in spans)
    command = [sys.executable, "-m", "gausset", "profile", "show", str(tmp_path / "profile")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "render" in shown and "step" in shown


def test_names_with_a_slash_are_refused():
    with pytest.raises(gausset.ArgumentError, match="name: 'a/b'"), profile.Profiler().span("a/b"):
        pass
