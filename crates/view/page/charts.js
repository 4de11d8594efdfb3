// Charts: small curves of the run with numbered axes, and their latest values.

const CURVES = [
  { name: 'Loss, logarithmic axis', of: 'loss', unit: '', digits: 4, log: true },
  { name: 'PSNR, held out', unit: ' dB', digits: 2, dots: true },
  { name: 'Splats', of: 'splats', unit: '', digits: 0 },
  { name: 'Steps per second', of: 'it_per_s', unit: '', digits: 1 },
  { name: 'Memory', of: 'memory', unit: ' GB', digits: 2, times: 1e-9 },
];
// Columns of a row of progress; the first is the step.
const COLUMNS = ['loss', 'splats', 'it_per_s', 'memory'], PSNR = 1;
const MOST = 2000;
const MARGIN = [44, 8, 8, 18]; // px: left, right, above, below
const number = (v, digits) => v.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
// A number of an axis, with few characters.
const short = (v) => (v >= 1e6 ? `${+(v / 1e6).toPrecision(3)} M` : v >= 1e4 ? `${+(v / 1e3).toPrecision(3)} k` : String(+v.toPrecision(4)));

export class Charts {
  constructor(root) {
    this.curves = CURVES.map((curve) => {
      const figure = document.createElement('figure'), caption = document.createElement('figcaption');
      const name = document.createElement('span'), value = document.createElement('span'), canvas = document.createElement('canvas');
      name.textContent = curve.name;
      canvas.setAttribute('role', 'img'); canvas.setAttribute('aria-label', curve.name);
      caption.append(name, value); figure.append(caption, canvas); root.append(figure);
      return { ...curve, figure, value, canvas, points: [] };
    });
    this.late = false;
    new ResizeObserver(() => this.later()).observe(root);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.later());
  }
  set(history) {
    const rows = history.progress || [];
    for (const curve of this.curves) {
      const column = 1 + COLUMNS.indexOf(curve.of);
      if (column) curve.points = rows.filter((row) => Number.isFinite(row[column])).map((row) => [row[0], row[column] * (curve.times ?? 1)]);
    }
    this.curves[PSNR].points = (history.psnr || []).slice();
    this.later();
  }
  progress(now) {
    this.curves.forEach((curve, k) => { if (Number.isFinite(now[curve.of])) this.push(k, now.step, now[curve.of] * (curve.times ?? 1)); });
  }
  psnr(step, value) { if (Number.isFinite(value)) this.push(PSNR, step, value); }
  push(k, step, value) {
    const points = this.curves[k].points;
    points.push([step, value]);
    if (points.length > MOST) this.curves[k].points = points.filter((_, i) => i % 2 === 0 || i === points.length - 1);
    this.later();
  }
  get empty() { return this.curves.every((curve) => curve.points.length === 0); }
  later() {
    if (this.late) return;
    this.late = true;
    setTimeout(() => { this.late = false; requestAnimationFrame(() => this.draw()); }, 250);
  }
  // All curves share the axis of steps, so that a single value is where it belongs.
  draw() {
    const last = Math.max(1, ...this.curves.flatMap(({ points }) => points.slice(-1).map(([step]) => step)));
    this.curves.forEach((curve) => drawCurve(curve, last));
  }
}

// A few round values between two others: 1, 2 and 5 times powers of ten on a logarithmic axis, if it is long enough.
export function ticks(low, high, log) {
  if (log) {
    const all = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) all.push(...[1, 2, 5].map((f) => f * 10 ** p));
    const seen = all.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    if (seen.length > 1) return seen.filter((_, i) => i % Math.ceil(seen.length / 4) === 0);
  }
  const raw = (high - low) / 3, power = 10 ** Math.floor(Math.log10(raw)), steps = [0.5, 1, 2, 5, 10].map((f) => f * power);
  const every = (step) => {
    const first = Math.ceil(low / step - 1e-6), count = Math.floor(high / step + 1e-6) - first;
    return Array.from({ length: Math.max(0, Math.min(8, count + 1)) }, (_, k) => (first + k) * step);
  };
  const k = steps.findIndex((step) => step >= raw * 0.999), wide = every(steps[k]);
  return wide.length > 1 ? wide : every(steps[Math.max(0, k - 1)]);
}

function drawCurve(curve, lastStep) {
  const { canvas, points, log } = curve;
  curve.figure.hidden = points.length === 0;
  if (!points.length || !canvas.clientWidth) return;
  const ratio = Math.min(2, devicePixelRatio || 1), [w, h] = [canvas.clientWidth, canvas.clientHeight], [left, right, above, below] = MARGIN;
  canvas.width = w * ratio; canvas.height = h * ratio;
  const [step, last] = points[points.length - 1], text = number(last, curve.digits) + curve.unit;
  curve.value.textContent = text;
  canvas.setAttribute('aria-label', `${curve.name}: ${text} after step ${step}`);
  const values = points.map((p) => (log ? Math.max(p[1], 1e-9) : p[1]));
  let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  if (high <= low) { const wide = Math.abs(low) * 0.05 || 0.5; low -= wide; high += wide; }
  const up = (v) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  const at = (s, v) => [left + s / lastStep * (w - left - right), h - below - up(v) * (h - above - below)];
  const c = canvas.getContext('2d'), style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
  c.scale(ratio, ratio);
  c.font = '11px system-ui, sans-serif'; c.fillStyle = colour('--soft'); c.strokeStyle = colour('--line'); c.textBaseline = 'middle';
  c.beginPath();
  for (const tick of ticks(low, high, log)) {
    const [, y] = at(0, tick);
    c.moveTo(left, y); c.lineTo(w - right, y);
    c.textAlign = 'right'; c.fillText(short(tick), left - 5, y);
  }
  c.stroke();
  for (const tick of ticks(0, lastStep, false)) {
    const [x] = at(tick, low), label = short(tick), half = c.measureText(label).width / 2;
    c.textAlign = 'center'; c.fillText(label, Math.min(x, w - half - 1), h - below / 2 + 1);
  }
  c.strokeStyle = c.fillStyle = colour('--accent'); c.lineWidth = 1.5; c.lineJoin = 'round';
  c.beginPath();
  points.forEach(([s], i) => c.lineTo(...at(s, values[i])));
  c.stroke();
  if (curve.dots || points.length === 1) points.forEach(([s], i) => { c.beginPath(); c.arc(...at(s, values[i]), 2.5, 0, 7); c.fill(); });
}
