#!/usr/bin/env python3
"""What a viewer costs a training: the same training in turns without a viewer, with one that nobody looks at, with a page
at rest, with a page that moves, and with one that moves and draws by itself.

    python3 bench/viewer_cost.py DATA [--gausset PATH] [--turns 5] [--kinds nobody,rest,moving,browser] [-- OPTIONS OF TRAIN]

Prints a JSON object: median seconds of the wall from start to end of each kind and CPU seconds of the program, their ratios
to the plain runs of the same turn (median and extremes), and whether splats.ply has the same bytes in all runs. The page is a WebSocket client in here.
"""

import argparse
import base64
import hashlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HEAD = 44
# How often a page that draws by itself asks for newer splats, in seconds.
ASK = 2


class Page:
    """As much of a page as it takes to be sent frames."""

    def __init__(self, port, token):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /ws HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self.say({"t": "hello", "version": 1, "token": token})

    def say(self, message):
        body = json.dumps(message).encode()
        head = bytes([0x81]) + (bytes([0x80 | len(body)]) if len(body) < 126 else bytes([0xFE]) + struct.pack(">H", len(body)))
        self.socket.sendall(head + bytes(4) + body)

    def read(self):
        """The next message: its kind and bytes, or nothing at the end."""
        head = self.file.read(2)
        if len(head) < 2:
            return None
        length = head[1] & 127
        if length == 126:
            length = struct.unpack(">H", self.file.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.file.read(8))[0]
        return head[0] & 15, self.file.read(length)


def look(port, token, moves, frames):
    page = Page(port, token)
    camera, number = None, 0

    def ask():
        nonlocal number
        number += 1
        pose = list(camera["pose"])
        if moves:
            pose[3] += 1e-3 * number
        page.say({"t": "view", "id": number, "camera": camera["camera"], "pose": pose, "moving": moves, "ack": number - 1})

    while (message := page.read()) is not None:
        kind, body = message
        if kind == 8:
            return
        if kind == 1:
            told = json.loads(body)
            cameras = told.get("scene", {}).get("cameras") if told.get("t") in ("hello", "scene") else None
            if cameras and camera is None:
                camera = cameras[0]
                ask()
        elif kind == 2 and len(body) > HEAD:
            frames.append(len(body))
            if moves:
                ask()
            else:
                page.say({"t": "ack", "id": struct.unpack("<I", body[4:8])[0]})


def draw(port, token, snapshots):
    """A page that draws by itself: it asks for splats while it moves, and fetches those that it is told of."""
    page = Page(port, token)
    have = 0

    def ask():
        try:
            while True:
                page.say({"t": "snapshot", "have": have, "moving": True})
                time.sleep(ASK)
        except OSError:
            pass  # The training has ended.

    while (message := page.read()) is not None and message[0] != 8:
        told = json.loads(message[1]) if message[0] == 1 else {}
        if told.get("t") == "hello":
            threading.Thread(target=ask, daemon=True).start()
        elif told.get("t") == "snapshot":
            url = urllib.request.Request(f"http://127.0.0.1:{port}/api/snapshot", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(url) as answer:
                snapshots.append(len(answer.read()))
            have = told["number"]


def train(program, data, kind, more):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [program, "train", data, "-o", run, "--json", *more]
        if kind != "plain":
            command += ["--viewer=0"]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        frames, thread = [], None
        for line in process.stdout:
            if kind in ("rest", "moving", "browser") and '"viewer"' in line and thread is None:
                told = json.loads(line)
                token = told["url"].split("token=")[1]
                port = told["port"]
                page = (draw, (port, token, frames)) if kind == "browser" else (look, (port, token, kind == "moving", frames))
                thread = threading.Thread(target=page[0], args=page[1], daemon=True)
                thread.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
        seconds, cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
        with open(os.path.join(run, "splats.ply"), "rb") as file:
            return seconds, cpu, hashlib.sha256(file.read()).hexdigest(), len(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--gausset", default="gausset")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--kinds", default="nobody,rest,moving,browser")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, more = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1:]
    kinds = ["plain", *args.kinds.split(",")]
    seconds, cpus, frames = ({kind: [] for kind in kinds} for _ in range(3))
    hashes = set()
    for turn in range(args.turns):
        order = kinds if turn % 2 == 0 else kinds[::-1]
        for kind in order:
            took, cpu, digest, shown = train(args.gausset, args.data, kind, more)
            seconds[kind].append(took)
            cpus[kind].append(cpu)
            frames[kind].append(shown)
            hashes.add(digest)

    def ratios(of):
        sets = {kind: sorted(a / b for a, b in zip(of[kind], of["plain"])) for kind in kinds[1:]}
        return {kind: [round(v, 4) for v in (statistics.median(r), r[0], r[-1])] for kind, r in sets.items()}

    print(json.dumps({
        "seconds": {kind: round(statistics.median(values), 3) for kind, values in seconds.items()},
        "ratio": ratios(seconds),
        "cpu_seconds": {kind: round(statistics.median(values), 3) for kind, values in cpus.items()},
        "cpu_ratio": ratios(cpus),
        "frames": {kind: statistics.median(values) for kind, values in frames.items()},
        "same_bytes": len(hashes) == 1,
    }, indent=1))


if __name__ == "__main__":
    main()
