"""The viewer of the program, from Python."""

from __future__ import annotations

import atexit
import html
import json
import subprocess
import sys
import tempfile
from pathlib import Path as FilePath

from ._errors import error_of
from ._splats import Path, Splats, save
from ._train import Run, _path


# Pages of notebooks that may show the viewer in a frame.
_NOTEBOOKS = ("http://localhost:*", "http://127.0.0.1:*", "vscode-webview:")


class View:
    """A running viewer: `url` is its address, which grants access. A notebook shows the page.

    It ends with `close`, at the end of a `with` block, or with Python.
    """

    url: str

    def __init__(self, arguments: list[str], folder: tempfile.TemporaryDirectory[str] | None, height: int) -> None:
        self._folder, self._height = folder, height
        # In a session of its own: Ctrl-C in a notebook is not meant for it.
        self._process = subprocess.Popen(
            # -P: modules of the working folder are not run.
            [sys.executable, "-P", "-m", "gausset", "view", *arguments, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        try:
            line = self._process.stdout.readline()
            if not line:
                raise _failure(self._process.stderr.read().splitlines())
            self.url = json.loads(line)["url"]
        except BaseException:
            # Ctrl-C, too: it would run on.
            self.close()
            raise
        # Nobody reads what the program says later.
        self._process.stdout.close()
        self._process.stderr.close()
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the viewer."""
        atexit.unregister(self.close)
        self._process.terminate()
        self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def wait(self) -> None:
        """Waits until the viewer ends: in a script, until Ctrl-C."""
        try:
            self._process.wait()
        finally:
            self.close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gausset.View: {self.url}>"

    def _repr_html_(self) -> str:
        url = html.escape(self.url)
        link = f'<a href="{url}" target="_blank">{url}</a>'
        return f'<iframe src="{url}" style="width: 100%; height: {self._height}px; border: 0"></iframe><br>{link}'


def view(source: Run | Splats | Path, *, data: Path | None = None, device: str = "auto", height: int = 600) -> View:
    """Starts the program's viewer of a run, splats or a splat file on a free port.

    `data` is the dataset if a run's has moved. `height` is that of the page in a notebook, px. In a script:
    `print(gausset.view("scene.ply"))`, or `gausset.view("scene.ply").wait()`.
    """
    folder = None
    if isinstance(source, Splats):
        folder = tempfile.TemporaryDirectory(prefix="gausset-")
        path: Path = FilePath(folder.name) / "splats.ply"
        save(source, path)
    else:
        path = _path(source)
    arguments = [str(path), "--port", "0", "--device", device]
    arguments += [f"--allow-frame={origin}" for origin in _NOTEBOOKS]
    return View(arguments + ([] if data is None else ["--data", str(data)]), folder, height)


def _failure(lines: list[str]) -> Exception:
    """The exception of what the program wrote to stderr: an object of JSON on the last line."""
    try:
        error = json.loads(lines[-1])["error"]
        return error_of(error["code"], error["message"])
    except (IndexError, KeyError, ValueError):
        return error_of("viewer", lines[-1] if lines else "the viewer ended without a word")
