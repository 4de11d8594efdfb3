"""The notebooks of `examples` run from top to bottom, here without Jupyter."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::gausset.GaussetWarning")
def test_a_notebook_runs_and_is_stored_without_outputs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names, shown = {}, []
    for cell in cells:
        parsed = ast.parse("".join(cell["source"]), cell["id"])
        last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
        exec(compile(parsed, cell["id"], "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
            shown.append(value._repr_png_() if hasattr(value, "_repr_png_") else repr(value))
    assert any(isinstance(output, bytes) for output in shown), shown
