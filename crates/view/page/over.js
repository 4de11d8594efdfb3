// Lines over the image: ground grid, crop box, cameras of the photographs. Splats in front do not hide them.

import { add, cross, scale, sub, unit } from '/assets/camera.js';

const CELLS = 10; // of the grid, on each side of the pivot

// The lines of a grid through a point, perpendicular to the up direction, with cells of a round size.
export function grid(centre, up, radius) {
  const power = 10 ** Math.floor(Math.log10(radius / 3)), cell = power * ([5, 2, 1].find((f) => f * power <= radius / 3) || 1);
  const front = unit(cross(Math.abs(up[0]) < 0.9 ? [1, 0, 0] : [0, 0, 1], up)), right = cross(up, front), lines = [];
  for (let k = -CELLS; k <= CELLS; k++) {
    for (const [along, across] of [[front, right], [right, front]]) {
      const middle = add(centre, scale(across, k * cell)), reach = scale(along, CELLS * cell);
      lines.push([sub(middle, reach), add(middle, reach)]);
    }
  }
  return { lines, cell };
}
// The edges of a box, smallest then largest x, y, z.
export function edges(box) {
  const corner = (bits) => [0, 1, 2].map((k) => box[k + 3 * (bits >> k & 1)]), lines = [];
  for (let bits = 0; bits < 8; bits++) for (let k = 0; k < 3; k++) if (!(bits >> k & 1)) lines.push([corner(bits), corner(bits | 1 << k)]);
  return lines;
}
// A camera as a pyramid of this height.
export function pyramid({ pose, camera: [width, height, fx, fy, cx, cy] }, depth) {
  const world = ([x, y, z]) => [0, 1, 2].map((k) => [x - pose[3], y - pose[7], z - pose[11]].reduce((sum, v, r) => sum + pose[4 * r + k] * v, 0));
  const tip = world([0, 0, 0]), at = (u, v) => world([(u - cx) / fx * depth, (v - cy) / fy * depth, depth]);
  const base = [at(0, 0), at(width, 0), at(width, height), at(0, height)];
  return base.flatMap((corner, k) => [[tip, corner], [corner, base[(k + 1) % 4]]]);
}

// Draws groups of lines, {lines, colour}, as seen by a camera that fills this area of a canvas.
export function drawLines(canvas, view, [left, top, width, height], groups) {
  const context = canvas.getContext('2d'), { pose, camera: [w, h, fx, fy, cx, cy] } = view, near = 1e-3;
  context.clearRect(0, 0, canvas.width, canvas.height);
  const seen = (point) => [0, 4, 8].map((r) => pose[r] * point[0] + pose[r + 1] * point[1] + pose[r + 2] * point[2] + pose[r + 3]);
  const place = ([x, y, z]) => [left + (fx * x / z + cx) * width / w, top + (fy * y / z + cy) * height / h];
  context.save();
  context.beginPath(); context.rect(left, top, width, height); context.clip();
  for (const { lines, colour } of groups) {
    context.strokeStyle = colour; context.lineWidth = Math.max(1, canvas.width / 1200);
    context.beginPath();
    for (const line of lines) {
      let [a, b] = line.map(seen);
      if (a[2] < near && b[2] < near) continue;
      // Clipped at the camera plane.
      const cut = (from, to) => add(from, scale(sub(to, from), (near - from[2]) / (to[2] - from[2])));
      if (a[2] < near) a = cut(a, b); else if (b[2] < near) b = cut(b, a);
      context.moveTo(...place(a)); context.lineTo(...place(b));
    }
    context.stroke();
  }
  context.restore();
}
