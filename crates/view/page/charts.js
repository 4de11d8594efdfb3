// Charts: small curves of the run, with their latest values.

const CURVES = [
  { name: 'loss', of: 'loss', unit: '', colour: '#ffb37a', digits: 4, log: true },
  { name: 'PSNR, held out', unit: ' dB', colour: '#7cc4ff', digits: 2, dots: true },
  { name: 'splats', of: 'splats', unit: '', colour: '#8fd06a', digits: 0 },
  { name: 'steps per second', of: 'it_per_s', unit: '', colour: '#d7a6ff', digits: 1 },
  { name: 'memory', of: 'memory', unit: ' GB', colour: '#e8d46a', digits: 2, times: 1e-9 },
];
// Columns of a row of progress; the first is the step.
const COLUMNS = ['loss', 'splats', 'it_per_s', 'memory'], PSNR = 1;
const MOST = 2000;

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
    setTimeout(() => { this.late = false; requestAnimationFrame(() => this.curves.forEach(drawCurve)); }, 250);
  }
}

function drawCurve(curve) {
  const { canvas, points } = curve;
  curve.figure.hidden = points.length === 0;
  if (!points.length || !canvas.clientWidth) return;
  const ratio = Math.min(2, devicePixelRatio || 1), w = canvas.width = canvas.clientWidth * ratio, h = canvas.height = canvas.clientHeight * ratio;
  const last = points[points.length - 1][1];
  const text = last.toLocaleString('en', { minimumFractionDigits: curve.digits, maximumFractionDigits: curve.digits }) + curve.unit;
  curve.value.textContent = text;
  canvas.setAttribute('aria-label', `${curve.name}: ${text} after step ${points[points.length - 1][0]}`);
  const height = (v) => (curve.log ? Math.log(Math.max(v, 1e-9)) : v);
  const ys = points.map((p) => height(p[1])), low = Math.min(...ys), high = Math.max(...ys);
  const first = points[0][0], span = Math.max(1, points[points.length - 1][0] - first), pad = 5 * ratio;
  const at = (i) => [pad + (points[i][0] - first) / span * (w - 2 * pad), h - pad - (high > low ? (ys[i] - low) / (high - low) : 0.5) * (h - 2 * pad)];
  const c = canvas.getContext('2d');
  c.strokeStyle = c.fillStyle = curve.colour; c.lineWidth = 1.5 * ratio; c.lineJoin = 'round';
  c.beginPath();
  points.forEach((_, i) => c.lineTo(...at(i)));
  c.stroke();
  if (curve.dots || points.length === 1) points.forEach((_, i) => { c.beginPath(); c.arc(...at(i), 2.5 * ratio, 0, 7); c.fill(); });
}
