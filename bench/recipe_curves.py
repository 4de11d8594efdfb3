#!/usr/bin/env python3
"""PSNR of held-out pictures against seconds of training, one chart a scene, from finished runs.

    python3 bench/recipe_curves.py docs/images/recipe.png lego:default=RUN lego:best=RUN plush:fast=RUN …

A run that was evaluated on the way (`gausset train --eval-every N`) gives a curve, any other a point. Seconds are CPU
seconds by default, which do not depend on what else the machine does; `--wall` takes wall time. Needs matplotlib.
"""
import json
import sys
from pathlib import Path


def points(run, clock):
    """(seconds, PSNR) of a run's evaluations; the time of one is interpolated between the reports around it."""
    reports, evaluations, end = [(0, 0.0)], [], None
    for line in (Path(run) / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "finished" in entry:
            end = (entry["finished"][clock], entry["finished"]["psnr"])
        elif "psnr" in entry:
            evaluations.append((entry["step"], entry["psnr"]))
        elif clock in entry:
            reports.append((entry["step"], entry[clock]))
    curve = []
    for step, psnr in evaluations:
        before = max((r for r in reports if r[0] <= step), default=reports[0])
        after = min((r for r in reports if r[0] >= step), default=before)
        share = (step - before[0]) / max(after[0] - before[0], 1)
        curve.append((before[1] + share * (after[1] - before[1]), psnr))
    return curve + ([end] if end else [])


def main():
    arguments = [a for a in sys.argv[1:] if a != "--wall"]
    clock = "seconds" if "--wall" in sys.argv else "cpu_seconds"
    if len(arguments) < 2 or any("=" not in a or ":" not in a for a in arguments[1:]):
        sys.exit(__doc__)
    try:
        import matplotlib
    except ImportError as error:
        sys.exit(f"recipe_curves.py: {error}; pip install matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib import ticker

    scenes = {}
    for argument in arguments[1:]:
        name, run = argument.split("=", 1)
        scene, label = name.split(":", 1)
        scenes.setdefault(scene, []).append((label, points(run, clock)))
    labels = list(dict.fromkeys(label for runs in scenes.values() for label, _ in runs))
    colours = {label: f"C{index}" for index, label in enumerate(labels)}
    columns = min(len(scenes), 2)
    rows = -(-len(scenes) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.6 * rows), squeeze=False, dpi=110)
    for axis in axes.flat[len(scenes):]:
        axis.set_axis_off()
    for axis, (scene, runs) in zip(axes.flat, scenes.items()):
        for label, curve in runs:
            seconds, psnr = zip(*curve)
            axis.plot(seconds, psnr, "-", color=colours[label], linewidth=1.2)
            axis.plot(seconds[-1:], psnr[-1:], "o", color=colours[label], label=label)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_title(scene)
        axis.set_xlabel("CPU seconds" if clock == "cpu_seconds" else "seconds")
        axis.set_ylabel("held-out PSNR, dB")
        axis.grid(True, which="both", alpha=0.25)
        axis.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(arguments[0])


if __name__ == "__main__":
    main()
