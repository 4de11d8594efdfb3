// Rendering in the browser while the view moves, from splats that the program has sent. At rest, the program's exact
// frame replaces it.

import { SplatView, drawer } from '/assets/splats.js';

const MOST = 2e6, MOST_PHONE = 1e6; // splats
const EVERY = 10000; // ms between newer splats while the view moves
const number = (v) => Number(v).toLocaleString('en');

export class Own {
  // `options`: the scene, number of splats, what is shown, and callbacks for changes.
  constructor(canvas, link, options) {
    this.canvas = canvas; this.link = link; this.options = options;
    this.choice = localStorage.getItem('gausset-drawer') || 'auto';
    // Splats: announced, loaded and sorted, loaded, outdated, and when they were requested.
    this.known = 0; this.loaded = 0; this.pending = 0; this.outdated = 0; this.askedAt = -1e9; this.isLoading = false; this.bytes = 0;
    this.refusal = ''; this.share = 1; this.slow = 0; this.last = null; this.fence = null;
    const gl = document.createElement('canvas').getContext('webgl2');
    this.gpu = gl && drawer(gl);
    gl?.getExtension('WEBGL_lose_context')?.loseContext();
  }
  choose(choice) {
    this.choice = choice; this.slow = 0; this.refusal = '';
    localStorage.setItem('gausset-drawer', choice);
    this.hide();
    this.ask(false);
  }
  // Why the browser cannot or should not draw; nothing if it may.
  get reason() {
    const most = matchMedia('(pointer: coarse)').matches ? MOST_PHONE : MOST, count = this.options.count();
    if (this.choice === 'program') return 'by your choice';
    if (!this.gpu) return 'this browser has no WebGL 2';
    if (count > most) return `${number(count)} splats are too many for this browser (at most ${number(most)})`;
    if (this.refusal) return this.refusal;
    if (this.choice === 'browser') return '';
    if (this.gpu.isSoftware) return 'this browser has no GPU acceleration';
    if (this.slow > 2) return 'the GPU of this browser is slow';
    return '';
  }
  // Whether it draws the next moving frame.
  get draws() { return this.reason === '' && !this.lacks && this.options.show() === 'color'; }
  // Whether it needs splats before it can draw.
  get lacks() { return this.loaded <= this.outdated; }
  // Description of who draws, for display.
  get words() {
    const { reason } = this;
    if (reason) return `The program draws while you move: ${reason}.`;
    if (this.options.show() !== 'color') return 'The program draws: the browser can only draw colours.';
    if (!this.draws) return 'The program draws until the splats are loaded.';
    // ANGLE (vendor, name and more, driver).
    const name = (/^ANGLE \([^,]*, ([^,(]*[^,( ])/.exec(this.gpu.name) || [0, this.gpu.name])[1];
    return `This browser draws while you move, on ${name}: ${number(this.splats)} splats, ${(this.bytes / 1e6).toFixed(1)} MB${this.degree < this.options.scene().sh_degree ? `, colours of SH degree ${this.degree}` : ''}.`;
  }
  get isShown() { return !this.canvas.hidden; }

  // Requests newer splats, but not too often; tells the program whenever a movement begins.
  ask(moving, begins = false) {
    const now = performance.now();
    if (this.reason || now - this.askedAt < (begins ? 300 : EVERY)) return;
    if (this.link.send({ t: 'snapshot', have: this.loaded, moving })) this.askedAt = now;
  }
  // The scene or its filters changed: the loaded splats are outdated.
  outdate() { this.outdated = this.known; this.hide(); this.askedAt = -1e9; }
  // The connection is new, perhaps to another program.
  reset() { this.known = this.loaded = this.pending = this.outdated = 0; this.refusal = ''; this.hide(); this.askedAt = -1e9; }
  heard({ number, line }) {
    if (!number) { this.refusal = line; this.options.changed(); return; }
    this.refusal = ''; this.known = number;
    this.load();
  }
  async load() {
    if (this.isLoading || this.reason || Math.max(this.loaded, this.pending) === this.known) return;
    this.isLoading = true;
    const wanted = this.known;
    try {
      const answer = await fetch('/api/snapshot', { headers: this.link.bearer() });
      if (!answer.ok) throw new Error(`the splats could not be loaded (${answer.status})`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      this.view ||= new SplatView(this.canvas, () => this.again(), new Worker('/assets/sort.js', { type: 'module' }));
      const { splats, degree } = await this.view.load(bytes);
      this.bytes = bytes.length; this.splats = splats; this.degree = degree; this.pending = wanted; this.file = bytes;
      // So that they are sorted before the view moves.
      this.view.draw(this.options.view());
    } catch (error) { this.refusal = error.message; }
    this.isLoading = false;
    this.options.changed();
    if (!this.refusal) this.load();
  }
  // A newer order of the splats: draw the same view again.
  again() {
    if (this.pending && this.view.drawnLoad === this.view.loads) {
      this.loaded = this.pending; this.pending = 0;
      this.options.changed();
    }
    if (this.isShown && this.last && this.isFree()) this.paint();
  }
  // Whether the GPU has finished. The time that it took determines the number of pixels.
  isFree() {
    if (!this.fence) return true;
    const { gl } = this.view;
    if (gl.clientWaitSync(this.fence, 0, 0) === gl.TIMEOUT_EXPIRED) return false;
    gl.deleteSync(this.fence);
    this.fence = null;
    const ms = performance.now() - this.beganAt;
    this.slow = ms > 200 && this.share <= 0.25 ? this.slow + 1 : 0;
    if (ms > 40) this.share = Math.max(0.25, this.share * Math.max(0.5, Math.sqrt(30 / ms)));
    else if (ms < 25) this.share = Math.min(1, this.share * 1.05);
    return true;
  }
  paint() {
    const { gl } = this.view;
    this.view.draw(this.last);
    this.beganAt = performance.now(); this.fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
  }

  // Draws a view, unless the GPU is still busy with the last one. Returns whether an image is visible.
  draw(view) {
    if (!this.isShown) this.ask(true, true); else this.ask(true);
    if (!this.isFree()) return this.isShown;
    // As many pixels as the GPU can draw in time, in a few sizes: a change of size reallocates buffers.
    const share = Math.ceil(8 * this.share) / 8, [width, height] = view.camera.slice(0, 2).map((side) => Math.max(16, Math.round(side * share)));
    const [across, down] = [width / view.camera[0], height / view.camera[1]];
    if (this.canvas.width !== width || this.canvas.height !== height) { this.canvas.width = width; this.canvas.height = height; }
    const [, , fx, fy, cx, cy] = view.camera;
    this.last = { ...view, camera: [width, height, fx * across, fy * down, cx * across, cy * down] };
    this.paint();
    if (this.view.count) this.canvas.hidden = false;
    return this.isShown;
  }
  hide() { this.canvas.hidden = true; this.last = null; }

  // An image of any view, as a data URL, for other scripts.
  picture(wanted) {
    const other = document.createElement('canvas');
    [other.width, other.height] = wanted.camera;
    return new Promise((resolve) => {
      const one = new SplatView(other, () => { if (one.draw(wanted)) { resolve(other.toDataURL()); one.end(); } }, new Worker('/assets/sort.js', { type: 'module' }));
      one.load(this.file).then(() => one.draw(wanted));
    });
  }
}
