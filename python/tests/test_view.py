import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import gausset
import pytest
from gausset import _errors


def test_splats_are_shown_until_the_end_of_the_block(splats, tmp_path, monkeypatch):
    # A module of the working folder is not imported.
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with gausset.view(splats, device="cpu", height=321) as view:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=\w+", view.url) and view.url in repr(view)
        with urllib.request.urlopen(view.url) as page:
            assert page.status == 200
        assert f'<iframe src="{view.url}"' in view._repr_html_() and "321px" in view._repr_html_()
    with pytest.raises(OSError):
        urllib.request.urlopen(view.url, timeout=5)
    assert not os.path.exists(view._folder.name)


def test_ctrl_c_before_the_address_ends_the_viewer(splats, monkeypatch):
    def interrupted(line):
        raise KeyboardInterrupt

    started, popen = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **how: started.append(popen(*args, **how)) or started[0])
    monkeypatch.setattr(json, "loads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gausset.view(splats, device="cpu")
    assert started[0].returncode is not None


def test_what_cannot_be_shown_is_said_in_one_line(tmp_path):
    with pytest.raises(gausset.FileError, match="no.ply") as caught:
        gausset.view(tmp_path / "no.ply", device="cpu")
    assert caught.value.code == "splats" and "\n" not in str(caught.value)


def test_every_code_of_the_program_has_a_class():
    page = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
    if not page.exists():
        pytest.skip("outside the repository")
    table = page.read_text().split("## Error codes")[1].split("\n## ")[0]
    codes = {code for row in re.findall(r"^\| (`.*?) \|", table, re.M) for code in re.findall(r"`([a-z-]+)`", row)}
    assert {"usage", "memory", "splats", "stopped"} <= codes and set(_errors._CLASSES) - codes == {
        "argument",
        "internal",
    }
    for code in codes:
        error = _errors.error_of(code, "line")
        assert error.code == code and str(error) == "line"
    assert type(_errors.error_of("memory", "")) is gausset.MemoryLimitError
