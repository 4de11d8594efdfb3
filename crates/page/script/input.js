// Mouse, fingers and keys: what they do to the camera. Speeds are per second, so that they do not depend on the frames.

const MOVES = {
  KeyW: [0, 0, 1], ArrowUp: [0, 0, 1], KeyS: [0, 0, -1], ArrowDown: [0, 0, -1],
  KeyA: [-1, 0, 0], ArrowLeft: [-1, 0, 0], KeyD: [1, 0, 0], ArrowRight: [1, 0, 0],
  KeyQ: [0, 1, 0], KeyE: [0, -1, 0],
};
const DAMPING = 0.1; // seconds
const isField = (element) => element && /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);

export class Input {
  // `actions` has a function for each key that is no movement; `moved` is told of each change of the camera.
  constructor(canvas, camera, actions, moved) {
    this.canvas = canvas; this.camera = camera; this.actions = actions; this.moved = moved;
    this.keys = new Set(); this.velocity = [0, 0, 0]; this.pointers = new Map(); this.factor = 1;
    this.still = matchMedia('(prefers-reduced-motion: reduce)');
    canvas.addEventListener('pointerdown', (e) => this.down(e));
    canvas.addEventListener('pointermove', (e) => this.move(e));
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture']) canvas.addEventListener(end, (e) => this.pointers.delete(e.pointerId));
    canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
    canvas.addEventListener('contextmenu', (e) => e.preventDefault());
    canvas.addEventListener('dblclick', (e) => {
      const box = canvas.getBoundingClientRect();
      actions.probe([(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height]);
    });
    addEventListener('keydown', (e) => this.keydown(e));
    addEventListener('keyup', (e) => { this.keys.delete(e.code); this.speedKeys(e); if (e.code === 'KeyP') actions.peek(false); });
    addEventListener('blur', () => { this.keys.clear(); this.factor = 1; actions.peek(false); });
  }
  speedKeys(e) { this.factor = e.shiftKey ? 5 : e.altKey ? 0.2 : 1; }

  down(e) {
    this.canvas.focus({ preventScroll: true });
    try { this.canvas.setPointerCapture(e.pointerId); } catch { /* made by a script */ }
    this.pointers.set(e.pointerId, [e.clientX, e.clientY, e.button]);
    e.preventDefault();
  }
  move(e) {
    const was = this.pointers.get(e.pointerId);
    if (!was) return;
    const dx = e.clientX - was[0], dy = e.clientY - was[1], height = this.canvas.clientHeight || 1;
    if (!dx && !dy) return;
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
      const before = Math.hypot(was[0] - other[0], was[1] - other[1]);
      const now = Math.hypot(e.clientX - other[0], e.clientY - other[1]);
      if (before > 5 && now > 5) this.camera.dolly(before / now);
      this.camera.pan(dx / 2 / height, dy / 2 / height);
    } else if (was[2] === 1 || was[2] === 2) {
      this.camera.pan(dx / height, dy / height);
    } else {
      this.camera.drag(Math.PI * dx / height, Math.PI * dy / height);
    }
    this.pointers.set(e.pointerId, [e.clientX, e.clientY, was[2]]);
    this.moved();
  }
  wheel(e) {
    e.preventDefault();
    const notches = e.deltaY / (e.deltaMode === 1 ? 3 : e.deltaMode === 2 ? 1 : 100);
    if (this.camera.mode === 'fly') {
      this.camera.speed *= Math.pow(1.2, -notches);
      this.actions.speed();
    } else {
      this.camera.dolly(Math.pow(1.15, Math.max(-5, Math.min(5, notches))));
      this.moved();
    }
  }
  keydown(e) {
    this.speedKeys(e);
    if (e.ctrlKey || e.metaKey || document.querySelector('dialog[open]')) return;
    const field = document.activeElement;
    if (isField(field) || (field && /^(BUTTON|SUMMARY)$/.test(field.tagName) && /^(Space|Enter)$/.test(e.code))) return;
    if (e.code in MOVES) {
      // Arrows scroll a list that has the focus.
      if (e.code.startsWith('Arrow') && field && field.closest('aside')) return;
      this.keys.add(e.code);
      if (this.camera.mode !== 'fly') { this.camera.mode = 'fly'; this.actions.speed(); }
      e.preventDefault();
      return;
    }
    const camera = this.camera, a = this.actions;
    const digit = /^Digit([1-9])$/.exec(e.code);
    const act = digit ? () => a.saved(digit[1], e.shiftKey) : {
      Numpad1: () => a.side([0, 0, 1]), Numpad3: () => a.side([1, 0, 0]), Numpad7: () => a.side(null), Numpad0: () => a.home(false),
      Home: () => a.home(e.shiftKey), Space: a.pause,
    }[e.code] || {
      v: () => { camera.mode = camera.mode === 'fly' ? 'orbit' : 'fly'; a.speed(); },
      f: () => a.frame(e.shiftKey), ',': () => this.roll(-5), '.': () => this.roll(5),
      u: a.up, '[': () => a.step(-1), ']': () => a.step(1), t: () => a.step(1), p: () => a.peek(true),
      k: a.key, x: a.screenshot, c: a.copy, i: a.info, h: a.panels, '?': a.help,
    }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
  roll(degrees) { this.camera.roll(degrees * Math.PI / 180); this.moved(); }
  // Called with the seconds since the last picture of the screen; whether the camera moves.
  advance(dt) {
    const wanted = [0, 0, 0];
    for (const code of this.keys) MOVES[code].forEach((v, k) => { wanted[k] += v; });
    const keep = this.still.matches ? 0 : Math.exp(-dt / DAMPING);
    const speed = this.camera.speed * this.factor;
    this.velocity = this.velocity.map((v, k) => v * keep + wanted[k] * speed * (1 - keep));
    const fast = Math.hypot(...this.velocity);
    if (fast < 1e-3 * this.camera.speed) { this.velocity = [0, 0, 0]; return this.keys.size > 0; }
    this.camera.fly(this.velocity.map((v) => v * dt));
    this.moved();
    return true;
  }
}
