"""Trains the blocks of a Gausset run with Ray.

All state is in the run folder: this driver only decides which command runs where and when. Blocks are commands
`gausset train --resume RUN --block K`, which begin, resume, or find the block done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

AGAIN = {130, 137, 143}
"""Exit codes of a block that was stopped, and has saved its state or resumes from its last checkpoint."""
MOST_ATTEMPTS = 20
IN_USE = "in use by"
"""In the last line of a block that another process holds: one of a lost worker, for example, that still saves."""
IN_USE_SECONDS = 30.0
REPORT_SECONDS = 10.0
STOP_SECONDS = 60.0
"""A block that was asked to stop saves its state within this time."""


def end_with_parent() -> None:
    """Asks Linux to stop this process when its parent ends: Ray may kill the parent, and a block holds locks."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def run_command(command: list[str], pause: float = 0.0) -> tuple[int, str]:
    """Runs a command on the machine of this task, after a pause in seconds; returns its exit code and the last line that
    it printed.

    If the task is cancelled, the command is asked to stop and saves its state.
    """
    time.sleep(pause)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        output = process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        raise
    lines = output.decode(errors="replace").strip().splitlines()
    return exit_code(process), (lines[-1] if lines else "")


def run_here(command: list[str]) -> int:
    """Runs a command on this machine and shows its output. Ctrl-C is passed on once each time: it saves its state."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while True:
        try:
            process.wait()
            return exit_code(process)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)


def exit_code(process: subprocess.Popen[Any]) -> int:
    """The exit code that a shell gives, also to the end by a signal."""
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


class Driver:
    """The blocks of a run, and the tasks that train them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.run = Path(arguments.run).absolute()
        self.data = [str(Path(arguments.data).absolute())] if arguments.data else []

    def command(self, *more: str) -> list[str]:
        """A command that resumes the run."""
        threads = ["--threads", str(self.arguments.threads)] if self.arguments.threads else []
        return [self.arguments.gausset, "train", "--resume", str(self.run), *self.data, *more, *threads]

    def block_command(self, block: int) -> list[str]:
        return self.command("--block", str(block), "--quiet")

    def blocks(self) -> list[dict[str, Any]]:
        """What the folders say of each block."""
        command = [self.arguments.gausset, "info", str(self.run), "--json"]
        found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if found.returncode not in (0, 1):
            raise SystemExit(found.stderr.strip() or f"{' '.join(command)}: exit code {found.returncode}")
        blocks = json.loads(found.stdout).get("blocks")
        if blocks is None:
            raise SystemExit(f"{self.run}: not a run in blocks (expected one of `gausset train DATA -o RUN --blocks N`)")
        return list(blocks["blocks"])

    def unfinished(self) -> list[int]:
        """Blocks that are not finished, counted from 1, in the order of `commands.txt`: the longest first."""
        finished = [block["is_finished"] for block in self.blocks()]
        text = (self.run / "blocks" / "commands.txt").read_text()
        order = [int(found) for found in re.findall(r"--block (\d+)", text)]
        return [block for block in order if block <= len(finished) and not finished[block - 1]]

    def divide(self) -> int:
        """Trains the coarse run and divides the scene, unless that is done."""
        if self.blocks():
            return 0
        return run_here(self.command("--until", "division"))

    def train(self, ray: Any) -> int:
        """Trains all blocks; returns 0, or 2 if one failed."""
        cpus = self.arguments.threads or 1
        task = ray.remote(num_cpus=cpus, max_retries=0)(run_command)
        waiting = self.unfinished()
        attempts = dict.fromkeys(waiting, 1)
        running = {task.remote(self.block_command(block)): block for block in waiting}
        failed = False
        try:
            while running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=REPORT_SECONDS)
                for reference in ready:
                    block = running.pop(reference)
                    try:
                        code, line = ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        # The command could not be run.
                        code, line = 2, str(error).strip().splitlines()[-1]
                    except ray.exceptions.RayError as error:
                        # The machine or the worker is lost.
                        code, line = 137, str(error).strip().splitlines()[-1]
                    is_in_use = code == 2 and IN_USE in line
                    if (code in AGAIN or is_in_use) and attempts[block] < MOST_ATTEMPTS:
                        attempts[block] += 1
                        pause = IN_USE_SECONDS if is_in_use else 0.0
                        running[task.remote(self.block_command(block), pause)] = block
                    elif code not in (0, 1):
                        failed = True
                        print(f"block {block}: exit code {code}: {line}", file=sys.stderr, flush=True)
                self.report(len(running))
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for reference in running:
                ray.cancel(reference)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=STOP_SECONDS + 15)
            raise
        return 2 if failed else 0

    def report(self, left: int) -> None:
        """Prints one line of progress, if the folders can be read just now."""
        try:
            blocks = self.blocks()
        except (SystemExit, ValueError):
            return
        done = sum(block["is_finished"] for block in blocks)
        steps, total = (sum(block[key] for block in blocks) for key in ("steps", "total_steps"))
        line = f"{done} of {len(blocks)} blocks done, {left} left, {100 * steps / max(total, 1):.0f} % of the steps"
        print(line, flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gausset-ray", description="Train the blocks of a Gausset run with Ray.")
    parser.add_argument("run", metavar="RUN", help="run folder of `gausset train --blocks`, shared by all machines")
    parser.add_argument("--address", help="address of a Ray cluster, or auto [default: start Ray here]")
    parser.add_argument("--workers", type=int, default=2, help="blocks at a time if Ray is started here [default: 2]")
    parser.add_argument("--threads", type=int, default=0, help="threads of a block [default: CPUs / workers]")
    parser.add_argument("--data", metavar="DIR", help="path of the dataset [default: the path recorded by the run]")
    parser.add_argument("--gausset", metavar="PATH", default="gausset", help="the program [default: gausset]")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    found = parser.parse_args(arguments)
    if found.workers < 1 or found.threads < 0:
        parser.error("--workers and --threads: expected positive numbers")
    if not found.threads:
        found.threads = max(1, (os.cpu_count() or 1) // found.workers)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Trains all blocks, merges and evaluates; returns the exit code."""
    driver = Driver(parse(arguments))
    options = driver.arguments
    if options.dry_run:
        for block in driver.unfinished():
            print(" ".join(driver.block_command(block)))
        return 0
    # Batch systems stop a job by SIGTERM.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = driver.divide()
    if code not in (0, 1):
        return code
    import ray

    here = {} if options.address else {"num_cpus": options.workers * options.threads, "include_dashboard": False}
    try:
        ray.init(address=options.address, log_to_driver=False, logging_level="error", **here)
        if not options.address:
            print("Ray listens on all interfaces of this machine", file=sys.stderr, flush=True)
        most = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
        if most < options.threads:
            print(f"--threads: no machine has {options.threads} CPUs (expected at most {most})", file=sys.stderr)
            return 2
        code = driver.train(ray)
    except KeyboardInterrupt:
        return 130
    finally:
        ray.shutdown()
    if code:
        return code
    # Merges and evaluates, with all threads of this machine.
    options.threads = 0
    return run_here(driver.command())


if __name__ == "__main__":
    sys.exit(main())
