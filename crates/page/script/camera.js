// Camera pose in the axes of the saved splats. `rot` has the rows of camera_from_world: right, down, forward (x right,
// y down, z forward in the image).

export const sub = (a, b) => a.map((v, k) => v - b[k]);
export const add = (a, b) => a.map((v, k) => v + b[k]);
export const scale = (a, s) => a.map((v) => v * s);
export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
export const length = (a) => Math.hypot(...a);
export const unit = (a) => { const l = length(a); return l > 1e-12 ? scale(a, 1 / l) : [0, 0, 1]; };

// A vector rotated around a unit axis (Rodrigues).
export function turned(v, axis, angle) {
  const c = Math.cos(angle), s = Math.sin(angle);
  return add(add(scale(v, c), scale(cross(axis, v), s)), scale(axis, dot(axis, v) * (1 - c)));
}

export function lookAt(from, to, up) {
  const forward = unit(sub(to, from));
  let right = cross(forward, up);
  if (length(right) < 1e-6) right = cross(forward, Math.abs(forward[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0]);
  right = unit(right);
  return [right, cross(forward, right), forward];
}

// Quaternion (w, x, y, z) of a rotation matrix, and back: for camera paths.
export function quaternion(m) {
  const t = m[0][0] + m[1][1] + m[2][2];
  let q;
  if (t > 0) {
    const s = 2 * Math.sqrt(t + 1);
    q = [s / 4, (m[2][1] - m[1][2]) / s, (m[0][2] - m[2][0]) / s, (m[1][0] - m[0][1]) / s];
  } else {
    const i = m[0][0] > m[1][1] && m[0][0] > m[2][2] ? 0 : m[1][1] > m[2][2] ? 1 : 2;
    const j = (i + 1) % 3, k = (i + 2) % 3;
    const s = 2 * Math.sqrt(Math.max(1e-12, 1 + m[i][i] - m[j][j] - m[k][k]));
    q = [(m[k][j] - m[j][k]) / s, 0, 0, 0];
    q[1 + i] = s / 4; q[1 + j] = (m[j][i] + m[i][j]) / s; q[1 + k] = (m[k][i] + m[i][k]) / s;
  }
  return q;
}
export function matrix([w, x, y, z]) {
  const n = Math.hypot(w, x, y, z); w /= n; x /= n; y /= n; z /= n;
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
  ];
}

// Centre of a camera, from the rows of its pose.
export const placeOf = (pose) => [0, 1, 2].map((k) => -(pose[k] * pose[3] + pose[4 + k] * pose[7] + pose[8 + k] * pose[11]));

// Index of the camera `by` after this one of `count`, around the ends; -1 is before the first and after the last.
export const stepped = (index, by, count) => ((index < 0 && by < 0 ? by : index + by) % count + count) % count;

const FARTHEST = 20; // radii of the scene
const WIDEST = 110; // degrees

export class Camera {
  constructor() {
    this.centre = [0, 0, 0]; this.reach = Infinity;
    this.pos = [0, 0, -3]; this.rot = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    this.pivot = [0, 0, 0]; this.up = [0, -1, 0]; this.fov = 50; this.speed = 1; this.mode = 'orbit';
  }
  get forward() { return this.rot[2]; }
  get right() { return this.rot[0]; }
  get distance() { return Math.max(1e-6, length(sub(this.pos, this.pivot))); }

  // Keeps the camera within 20 radii of a scene without its sky, or as far away as these places are.
  limit(centre, radius, places) {
    this.centre = [...centre];
    this.reach = Math.max(FARTHEST * radius, ...places.map((place) => 1.5 * length(sub(place, centre))));
  }
  // Moves by a vector, not out of reach.
  move(by) {
    const to = add(this.pos, by), away = length(sub(to, this.centre));
    if (away > this.reach && away > length(sub(this.pos, this.centre))) by = sub(add(this.centre, scale(sub(to, this.centre), this.reach / away)), this.pos);
    this.pos = add(this.pos, by); this.pivot = add(this.pivot, by);
  }
  // Moves back from the pivot so that what fits into a square image also fits into a narrower one.
  fit(aspect) { if (aspect < 1) this.pos = add(this.pivot, scale(sub(this.pos, this.pivot), 1 / aspect)); }

  // Widens the field of view so that the width of a camera (6 numbers) fits into a narrower image.
  widen([width, , fx], aspect) {
    const needed = 2 * Math.atan(width / 2 / fx / aspect) * 180 / Math.PI;
    this.fov = Math.max(this.fov, Math.min(WIDEST, needed));
  }

  copy() { return { pos: [...this.pos], rot: this.rot.map((r) => [...r]), pivot: [...this.pivot], fov: this.fov }; }
  set(view) { this.pos = [...view.pos]; this.rot = view.rot.map((r) => [...r]); this.pivot = [...view.pivot]; this.fov = view.fov; }

  // From the rows of a pose (12 numbers) and intrinsics (6 numbers).
  setPose(pose, camera, pivotDistance) {
    this.rot = [0, 1, 2].map((k) => pose.slice(4 * k, 4 * k + 3));
    this.pos = placeOf(pose);
    this.fov = 2 * Math.atan(camera[1] / 2 / camera[3]) * 180 / Math.PI;
    this.pivot = add(this.pos, scale(this.forward, pivotDistance));
  }
  pose() {
    return this.rot.flatMap((row) => [...row, -dot(row, this.pos)]);
  }
  intrinsics(width, height) {
    const f = height / 2 / Math.tan(this.fov * Math.PI / 360);
    return [width, height, f, f, width / 2, height / 2];
  }

  rotate(axis, angle, around) {
    if (around) this.pos = add(around, turned(sub(this.pos, around), axis, angle));
    this.rot = this.rot.map((row) => unit(turned(row, axis, angle)));
    // Keeps the rows orthonormal after many small rotations.
    this.rot[0] = unit(cross(this.rot[1], this.rot[2]));
    this.rot[1] = cross(this.rot[2], this.rot[0]);
  }
  // A drag right and down by these angles, in radians. In orbit mode the camera rotates around the pivot.
  drag(dx, dy) {
    const around = this.mode === 'orbit' ? this.pivot : null;
    const upright = dot(this.rot[1], this.up) <= 0;
    this.rotate(this.up, upright ? -dx : dx, around);
    const tilt = Math.asin(Math.max(-1, Math.min(1, dot(this.forward, this.up))));
    if (upright) dy = Math.max(tilt - 1.55, Math.min(tilt + 1.55, dy));
    const distance = this.distance;
    this.rotate(this.right, -dy, around);
    if (!around) this.pivot = add(this.pos, scale(this.forward, distance));
  }
  // Moves sideways by fractions of the image height.
  pan(dx, dy) {
    const size = 2 * this.distance * Math.tan(this.fov * Math.PI / 360);
    this.move(add(scale(this.rot[0], -dx * size), scale(this.rot[1], -dy * size)));
  }
  // The point at the depth of the pivot that projects to a position of the image, 0..1 across and down.
  besidePivot([u, v], aspect) {
    const half = Math.tan(this.fov * Math.PI / 360), ray = [(2 * u - 1) * half * aspect, (2 * v - 1) * half, 1], { distance } = this;
    return [0, 1, 2].reduce((at, k) => add(at, scale(this.rot[k], ray[k] * distance)), this.pos);
  }
  // Moves towards a point (default: the pivot), which keeps its position in the image. The pivot moves along.
  dolly(factor, to = this.pivot) {
    let share = Math.max(1e-4 / this.distance, factor);
    // Not farther than the reach: halves what is left of the way out.
    const isOut = (s) => length(sub(add(to, scale(sub(this.pos, to), s)), this.centre)) > this.reach;
    for (let k = 0; k < 20 && share > 1 && isOut(share); k++) share = k < 19 ? 1 + (share - 1) / 2 : 1;
    this.pos = add(to, scale(sub(this.pos, to), share));
    this.pivot = add(to, scale(sub(this.pivot, to), share));
  }
  // Moves right, down and forward, in units of speed.
  fly(move) {
    this.move([0, 1, 2].reduce((sum, k) => add(sum, scale(this.rot[k], move[k])), [0, 0, 0]));
  }
  roll(angle) { this.rotate(this.forward, angle, null); }
  // Moves to the front (axis z), the right (x) or above (null) of the pivot. Front is any direction across the up axis.
  side(axis) {
    const { up, distance } = this;
    const front = unit(cross(Math.abs(up[0]) < 0.9 ? [1, 0, 0] : [0, 0, 1], up)), right = cross(up, front);
    this.pos = add(this.pivot, scale(!axis ? up : axis[0] ? right : front, distance));
    this.rot = lookAt(this.pos, this.pivot, axis ? up : front);
  }
  // Looks at the pivot, upright. With a centre and a radius, the sphere fills the view.
  face(centre, radius) {
    if (centre) { this.pivot = [...centre]; this.pos = sub(this.pivot, scale(this.forward, 2.2 * radius)); }
    this.rot = lookAt(this.pos, this.pivot, this.up);
    this.mode = 'orbit';
  }
  // Makes the point at a position of the image (0..1 across and down) and a depth the pivot.
  pivotAt([u, v], aspect, depth) {
    const height = Math.tan(this.fov * Math.PI / 360);
    const ray = [(2 * u - 1) * height * aspect, (2 * v - 1) * height, 1];
    this.pivot = [0, 1, 2].reduce((at, k) => add(at, scale(this.rot[k], ray[k] * depth)), this.pos);
    this.mode = 'orbit';
    this.rot = lookAt(this.pos, this.pivot, this.rot[1].map((x) => -x));
  }
}
