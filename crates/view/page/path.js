// A camera path: views at equal times, interpolated smoothly, saved for `gausset render … --path`.

import { quaternion, matrix } from '/assets/camera.js';

const spline = (a, b, c, d, t) => 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t * t * t);

export class Path {
  constructor() { this.keys = []; }
  add(view) { this.keys.push({ ...view, q: quaternion(view.rot) }); }

  // The view at a fraction of the path.
  at(share, closed) {
    const n = this.keys.length;
    if (n === 1) return this.keys[0];
    const spans = closed ? n : n - 1;
    const where = Math.min(Math.max(share, 0), 1) * spans;
    const i = Math.min(Math.floor(where), spans - 1), t = where - i;
    const key = (k) => this.keys[closed ? ((k % n) + n) % n : Math.min(Math.max(k, 0), n - 1)];
    const [a, b, c, d] = [key(i - 1), key(i), key(i + 1), key(i + 2)];
    const mix = (field) => b[field].map((_, k) => spline(a[field][k], b[field][k], c[field][k], d[field][k], t));
    // Quaternions of neighbours in the same hemisphere: the shorter rotation.
    const near = (q, to) => (q.reduce((sum, v, k) => sum + v * to[k], 0) < 0 ? q.map((v) => -v) : q);
    const qb = b.q, qa = near(a.q, qb), qc = near(c.q, qb), qd = near(d.q, qc);
    const q = qb.map((_, k) => spline(qa[k], qb[k], qc[k], qd[k], t));
    return { pos: mix('pos'), pivot: mix('pivot'), rot: matrix(q), fov: spline(a.fov, b.fov, c.fov, d.fov, t) };
  }

  // A Nerfstudio camera path: world_from_camera with x right, y up, z back.
  file(seconds, fps, [width, height], closed) {
    const frames = Math.max(1, Math.round(seconds * fps));
    const camera_path = [];
    for (let k = 0; k < frames; k++) {
      const view = this.at(k / (closed ? frames : Math.max(1, frames - 1)), closed);
      const axes = [view.rot[0], view.rot[1].map((v) => -v), view.rot[2].map((v) => -v)];
      const rows = [0, 1, 2].map((r) => [axes[0][r], axes[1][r], axes[2][r], view.pos[r]]);
      camera_path.push({ camera_to_world: [...rows.flat(), 0, 0, 0, 1], fov: view.fov, aspect: width / height });
    }
    const keyframes = this.keys.map(({ pos, pivot, rot, fov }) => ({ pos, pivot, rot, fov }));
    return { camera_type: 'perspective', render_width: width, render_height: height, fps, seconds, camera_path, gausset: { keyframes } };
  }
}
