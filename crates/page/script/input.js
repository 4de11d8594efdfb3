// Mouse, touch and keyboard control of the camera. Speeds are per second, so they do not depend on the frame rate.

// All controls, in the order of the help, which is built from this table: `does` in orbit and, if it differs, in fly
// mode. Keys are between backquotes. `moves` and `codes` refer to physical keys, `keys` to characters. Handlers get the
// input and whether Shift is held. A row applies only if the page has the action that it `needs`.
const digits = Object.fromEntries([...'123456789'].map((digit) => [`Digit${digit}`, (i, shift) => i.actions.saved(digit, shift)]));
export const TABLE = [
  { show: 'left drag, one finger', does: ['orbit around the pivot', 'look around'] },
  { show: 'right or middle drag, two fingers', does: ['move sideways'] },
  { show: 'wheel', does: ['zoom at the pointer', 'faster, slower'] },
  { show: 'pinch', does: ['zoom at the pivot'] },
  { show: 'double click', does: ['set the pivot'], needs: 'probe' },
  {
    show: '`W` `A` `S` `D`, arrows', does: ['fly forward, left, back, right'],
    moves: {
      KeyW: [0, 0, 1], ArrowUp: [0, 0, 1], KeyS: [0, 0, -1], ArrowDown: [0, 0, -1],
      KeyA: [-1, 0, 0], ArrowLeft: [-1, 0, 0], KeyD: [1, 0, 0], ArrowRight: [1, 0, 0],
    },
  },
  { show: '`Q` `E`', does: ['fly down, up'], moves: { KeyQ: [0, 1, 0], KeyE: [0, -1, 0] } },
  { show: '`Shift`, `Alt`', does: ['five times as fast, a fifth'] },
  { show: '`,` `.`', does: ['roll by 5 degrees'], keys: { ',': (i) => i.roll(-5), '.': (i) => i.roll(5) } },
  { show: '`V`', does: ['orbit or fly'], keys: { v: (i) => i.otherMode() } },
  { show: '`F`, `Shift F`', does: ['look at the pivot, at the whole scene'], keys: { f: (i, shift) => i.actions.frame(shift) } },
  { show: '`Home`, `Shift Home`', does: ['first view, make this the first view'], codes: { Home: (i, shift) => i.actions.home(shift) } },
  { show: '`1` to `9`, with `Shift`', does: ['saved view, save it'], codes: digits },
  { show: '`[` `]` `T`', does: ['previous, next, next training camera'], keys: { '[': (i) => i.actions.step(-1), ']': (i) => i.actions.step(1), t: (i) => i.actions.step(1) }, needs: 'step' },
  { show: '`P` held', does: ['show the photograph'], keys: { p: (i) => i.actions.peek(true) }, needs: 'peek' },
  { show: '`U`', does: ['make this direction up'], keys: { u: (i) => i.actions.up() } },
  {
    show: 'number pad `1` `3` `7` `0`', does: ['front, right, top, first view'],
    codes: { Numpad1: (i) => i.actions.side([0, 0, 1]), Numpad3: (i) => i.actions.side([1, 0, 0]), Numpad7: (i) => i.actions.side(null), Numpad0: (i) => i.actions.home(false) },
  },
  { show: '`G`', does: ['ground grid at the height of the pivot'], keys: { g: (i) => i.actions.grid() }, needs: 'grid' },
  { show: '`K`', does: ['add this view to the camera path'], keys: { k: (i) => i.actions.key() }, needs: 'key' },
  { show: '`X` `C`', does: ['screenshot, copy camera'], keys: { x: (i) => i.actions.screenshot(), c: (i) => i.actions.copy() } },
  { show: '`Space`', does: ['pause or resume training'], codes: { Space: (i) => i.actions.pause() }, needs: 'pause' },
  { show: '`I`', does: ['about'], keys: { i: (i) => i.actions.info() }, needs: 'info' },
  { show: '`H` `?`', does: ['hide or show the panels, this help'], keys: { h: (i) => i.actions.panels(), '?': (i) => i.actions.help() } },
];
const rows = (actions) => TABLE.filter(({ needs }) => !needs || needs in actions);

// Fills the help with the controls that a page with these actions has.
export function fillHelp(body, actions) {
  const cell = (name, text, more) => {
    const made = Object.assign(document.createElement(name), more);
    // Every second part is a key.
    made.append(...text.split('`').map((part, k) => (k % 2 ? Object.assign(document.createElement('kbd'), { textContent: part }) : part)));
    return made;
  };
  body.replaceChildren(...rows(actions).map(({ show, does }) => {
    const row = document.createElement('tr');
    row.append(cell('th', show, { scope: 'row' }), ...does.map((text) => cell('td', text, { colSpan: 3 - does.length })));
    return row;
  }));
}

// How the view is moved now, for display.
export function inWords({ mode, speed }) {
  if (mode === 'fly') return `Flying, ${Number(speed.toPrecision(2))} units/s (V: turn around)`;
  return matchMedia('(pointer: coarse)').matches ? 'Drag to turn, pinch to zoom' : 'Drag to turn, scroll to zoom';
}

const DAMPING = 0.1; // seconds
const isField = (element) => element && /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);

export class Input {
  // `actions` has a function for each key that does not move the camera; `moved` is called after each change of the
  // camera.
  constructor(canvas, camera, actions, moved) {
    this.canvas = canvas; this.camera = camera; this.actions = actions; this.moved = moved;
    const all = (name) => Object.assign({}, ...rows(actions).map((row) => row[name]));
    this.moves = all('moves'); this.codes = all('codes'); this.letters = all('keys');
    this.keys = new Set(); this.tapped = new Set(); this.velocity = [0, 0, 0]; this.pointers = new Map(); this.factor = 1;
    this.still = matchMedia('(prefers-reduced-motion: reduce)');
    canvas.addEventListener('pointerdown', (e) => this.down(e));
    canvas.addEventListener('pointermove', (e) => this.move(e));
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture']) canvas.addEventListener(end, (e) => this.pointers.delete(e.pointerId));
    canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
    canvas.addEventListener('contextmenu', (e) => e.preventDefault());
    canvas.addEventListener('dblclick', (e) => {
      const box = canvas.getBoundingClientRect();
      actions.probe?.([(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height]);
    });
    addEventListener('keydown', (e) => this.keydown(e));
    addEventListener('keyup', (e) => { this.keys.delete(e.code); this.speedKeys(e); if (e.code === 'KeyP') actions.peek?.(false); });
    addEventListener('blur', () => { this.keys.clear(); this.factor = 1; actions.peek?.(false); });
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
      const box = this.canvas.getBoundingClientRect(), at = [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
      this.camera.dolly(Math.pow(1.15, Math.max(-5, Math.min(5, notches))), this.camera.besidePivot(at, box.width / box.height));
      this.moved();
    }
  }
  keydown(e) {
    this.speedKeys(e);
    if (e.ctrlKey || e.metaKey || document.querySelector('dialog[open]')) return;
    const field = document.activeElement;
    if (isField(field) || (field && /^(BUTTON|SUMMARY)$/.test(field.tagName) && /^(Space|Enter)$/.test(e.code))) return;
    if (e.code in this.moves) {
      // Arrow keys scroll a focused list.
      if (e.code.startsWith('Arrow') && field && field.closest('aside')) return;
      this.keys.add(e.code); this.tapped.add(e.code);
      if (this.camera.mode !== 'fly') { this.camera.mode = 'fly'; this.actions.speed(); }
      e.preventDefault();
      return;
    }
    const act = this.codes[e.code] || this.letters[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act) return;
    e.preventDefault();
    act(this, e.shiftKey);
  }
  otherMode() { this.camera.mode = this.camera.mode === 'fly' ? 'orbit' : 'fly'; this.actions.speed(); }
  roll(degrees) { this.camera.roll(degrees * Math.PI / 180); this.moved(); }
  // Ends the glide after a key: it would lead away from a view that the user jumps to.
  stop() { this.velocity = [0, 0, 0]; }
  // Called with the seconds since the last frame. Returns whether the camera moves.
  advance(dt) {
    const wanted = [0, 0, 0];
    // A key that was pressed and released since the last frame counts as well.
    for (const code of new Set([...this.keys, ...this.tapped])) this.moves[code].forEach((v, k) => { wanted[k] += v; });
    this.tapped.clear();
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
