"""The driver with a program that answers as told, and Ray or a stand-in for it."""

import json
import stat
import sys
import types
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import gausset_ray

PROGRAM = """#!{python}
import json, sys
from pathlib import Path
run = Path(sys.argv[sys.argv.index("--resume") + 1] if "--resume" in sys.argv else sys.argv[2])
state = json.loads((run / "state.json").read_text()) if "info" in sys.argv else None
if state is not None:
    done = lambda k: (run / f"done{{k}}").exists()
    blocks = [dict(is_finished=done(k), steps=100 * done(k), total_steps=100) for k in range(1, state + 1)]
    print(json.dumps(dict(blocks=dict(blocks=blocks) if (run / "divided").exists() else dict(blocks=[]))))
elif "--until" in sys.argv:
    (run / "divided").write_text("")
    (run / "blocks").mkdir()
    (run / "blocks" / "commands.txt").write_text("gausset train --resume r --block 2\\ngausset train --block 1\\n"
        "gausset train --block 3\\n")
elif "--block" in sys.argv:
    block = sys.argv[sys.argv.index("--block") + 1]
    with open(run / f"calls{{block}}", "a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\\n")
    codes = json.loads((run / "codes.json").read_text()).get(block, [0])
    number = len((run / f"calls{{block}}").read_text().splitlines()) - 1
    code = codes[min(number, len(codes) - 1)]
    print("block", block, "is in use by process 7" if code == 22 else "says", code)
    code = 2 if code == 22 else code
    if code == 0:
        (run / f"done{{block}}").write_text("")
    sys.exit(code)
else:
    (run / "merged").write_text(" ".join(sys.argv[1:]))
"""


class StandIn(types.ModuleType):
    """What the driver uses of Ray, with threads."""

    class exceptions:
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            pass

    def __init__(self):
        super().__init__("ray")
        self.cpus = 1

    def init(self, **options):
        self.pool = ThreadPoolExecutor(2)

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": float(self.cpus)}}]

    def remote(self, **options):
        def wrap(function):
            return types.SimpleNamespace(remote=lambda *arguments: self.pool.submit(function, *arguments))

        return wrap

    def wait(self, references, num_returns, timeout):
        done, rest = wait(references, timeout, FIRST_COMPLETED)
        return list(done)[:num_returns], [*list(done)[num_returns:], *rest]

    def get(self, reference):
        try:
            return reference.result()
        except OSError as error:
            raise self.exceptions.RayTaskError(str(error)) from error

    def shutdown(self):
        self.pool.shutdown()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of three blocks, and a function that drives it with exit codes per block and call."""
    monkeypatch.setitem(sys.modules, "ray", StandIn())
    folder = tmp_path / "a run"
    folder.mkdir()
    (folder / "state.json").write_text("3")
    program = tmp_path / "gausset"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def drive(codes, *options):
        (folder / "codes.json").write_text(json.dumps(codes))
        return gausset_ray.main([str(folder), "--gausset", str(program), "--threads", "1", *options])

    return folder, drive


def calls(folder, block):
    path = folder / f"calls{block}"
    return path.read_text().splitlines() if path.exists() else []


def test_blocks_that_were_stopped_are_sent_again_and_the_rest_is_done_once(run):
    folder, drive = run
    assert drive({"1": [143, 137, 0]}) == 0
    assert [len(calls(folder, block)) for block in (1, 2, 3)] == [3, 1, 1]
    assert calls(folder, 2)[0] == f"train --resume {folder} --block 2 --quiet --threads 1"
    assert (folder / "merged").read_text() == f"train --resume {folder}"
    # Once more: nothing is left but the last command, which finds all of it done.
    assert drive({}) == 0
    assert [len(calls(folder, block)) for block in (1, 2, 3)] == [3, 1, 1]


def test_a_block_that_fails_is_reported_and_nothing_is_merged(run, capsys):
    folder, drive = run
    assert drive({"2": [2], "3": [1]}) == 2
    assert "block 2: exit code 2: block 2 says 2" in capsys.readouterr().err
    assert len(calls(folder, 2)) == 1 and len(calls(folder, 1)) == 1
    assert not (folder / "merged").exists()
    # The others were done; block 2 alone is left.
    assert drive({}) == 0
    assert [len(calls(folder, block)) for block in (1, 2, 3)] == [1, 2, 2]


def test_a_block_is_sent_twenty_times_at_most(run):
    folder, drive = run
    assert drive({"3": [137]}) == 2
    assert len(calls(folder, 3)) == gausset_ray.MOST_ATTEMPTS


def test_a_block_that_another_process_holds_is_sent_again_after_a_pause(run, monkeypatch):
    folder, drive = run
    pauses = []
    monkeypatch.setattr(gausset_ray.time, "sleep", pauses.append)
    assert drive({"1": [137, 22, 0]}) == 0
    assert len(calls(folder, 1)) == 3
    assert sorted(pauses) == [0.0, 0.0, 0.0, 0.0, gausset_ray.IN_USE_SECONDS]


def test_a_dry_run_prints_the_commands_longest_first(run, capsys):
    folder, drive = run
    drive({})
    for path in folder.glob("done*"):
        path.unlink()
    capsys.readouterr()
    assert drive({}, "--dry-run", "--data", "data") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("--block ")[1][0] for line in lines] == ["2", "1", "3"]
    assert f"--resume {folder} {Path('data').absolute()} --block 2" in lines[0]


def test_what_cannot_run_is_reported_once(run, capsys):
    folder, drive = run
    assert drive({}, "--threads", "2") == 2
    assert "no machine has 2 CPUs (expected at most 1)" in capsys.readouterr().err
    # Exit code 1, skipped images, is a finished block; `info` does not say so of this stand-in.
    assert drive({"3": [1]}) == 0


def test_what_is_no_run_in_blocks_is_named(run, tmp_path):
    folder, drive = run
    program = tmp_path / "gausset"
    program.write_text(f"#!{sys.executable}\nprint('{{}}')\n")
    with pytest.raises(SystemExit, match="not a run in blocks"):
        drive({})
