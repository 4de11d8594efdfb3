#!/usr/bin/env python3
"""OpenCV and ffmpeg on the frames of `gausset bench pano --keep DIR`, one thread, CPU milliseconds per view.

    gausset bench pano --keep frames/ --json && python3 bench/pano_peers.py frames/

Eight views of a quarter of the panorama's width, 90 degrees, quality 95: what `gausset pano split --layout ring8`
does. Peers that are not installed are left out with a line.
"""
import glob
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def opencv(files, passes=3):
    try:
        import cv2
        import numpy as np
    except ImportError as error:
        print(f"OpenCV: left out: {error}")
        return
    cv2.setNumThreads(1)
    height, width = cv2.imread(files[0]).shape[:2]
    side = width // 4
    half = (np.arange(side) + 0.5 - side / 2) / (side / 2)
    x, y = np.meshgrid(half, half)
    maps = []
    for k in range(8):
        yaw = math.radians(45 * k)
        rx, rz = x * math.cos(yaw) + math.sin(yaw), -x * math.sin(yaw) + math.cos(yaw)
        lon, lat = np.arctan2(rx, rz), np.arctan2(-y, np.hypot(rx, rz))
        u = (lon / math.pi + 1) * width / 2 - 0.5
        v = (0.5 - lat / math.pi) * height - 0.5
        maps.append(cv2.convertMaps(u.astype(np.float32), v.astype(np.float32), cv2.CV_16SC2))
    with tempfile.TemporaryDirectory() as out:
        best = math.inf
        for _ in range(passes):
            start = time.process_time()
            for file in files:
                image = cv2.imread(file)
                for k, (a, b) in enumerate(maps):
                    view = cv2.remap(image, a, b, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
                    cv2.imwrite(f"{out}/{k}.jpg", view, [cv2.IMWRITE_JPEG_QUALITY, 95])
            best = min(best, (time.process_time() - start) / len(files) / 8)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"OpenCV {cv2.__version__}, fixed-point maps: {1e3 * best:.1f} CPU ms a view, peak {peak} MiB")


def ffmpeg(files):
    if shutil.which("ffmpeg") is None:
        print("ffmpeg: left out: not installed")
        return
    with tempfile.TemporaryDirectory() as out:
        def run(count):
            """CPU seconds of eight v360 filters over `count` frames."""
            for k in range(count):
                link = f"{out}/in_{k:03d}.jpg"
                if not os.path.exists(link):
                    os.symlink(os.path.abspath(files[k % len(files)]), link)
            parts = ["[0:v]split=8" + "".join(f"[i{k}]" for k in range(8))]
            maps = []
            for k in range(8):
                yaw = (45 * k + 180) % 360 - 180
                parts.append(f"[i{k}]v360=e:flat:yaw={yaw}:h_fov=90:v_fov=90:w=1920:h=1920[o{k}]")
                maps += ["-map", f"[o{k}]", "-q:v", "2", f"{out}/v{k}_%03d.jpg"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                ["ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "1", "-filter_complex_threads", "1",
                 "-i", f"{out}/in_%03d.jpg", "-frames:v", str(count), "-filter_complex", ";".join(parts), *maps],
                check=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        count = 4
        print(f"ffmpeg v360, {count} frames with set-up: {1e3 * run(count) / count / 8:.0f} CPU ms a view")


def main():
    files = sorted(glob.glob(f"{sys.argv[1]}/pano_*.jpg"))
    if not files:
        sys.exit(f"{sys.argv[1]}: no pano_*.jpg (run `gausset bench pano --keep {sys.argv[1]}` first)")
    opencv(files)
    if "--ffmpeg" in sys.argv:
        ffmpeg(files)


main()
