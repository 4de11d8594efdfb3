// The canvas: frames, photographs, split and flip, and requests to the program.

import { drawLines } from '/assets/over.js';

export class Stage {
  constructor(canvas, link, camera, options) {
    this.canvas = canvas; this.context = canvas.getContext('2d', { alpha: false });
    this.link = link; this.camera = camera; this.options = options;
    this.frame = null; this.photo = null; this.photoOf = -1; this.fixed = -1; this.peek = false;
    // Views that were requested, by id, and that of the frame.
    this.sent = new Map(); this.seen = null; this.moving = false;
    this.nextId = 1; this.ack = 0; this.waiting = 0; this.sentAt = 0; this.movedAt = -1e9; this.dirty = false; this.rested = false;
    this.asked = new Map(); this.shown = 0; this.restId = 0; this.rate = 0; this.lastShown = 0;
    this.resize = new ResizeObserver(() => { this.fit(); this.change(); });
    this.resize.observe(canvas);
    this.fit();
  }
  fit() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    const width = Math.max(16, Math.round(this.canvas.clientWidth * ratio)), height = Math.max(16, Math.round(this.canvas.clientHeight * ratio));
    // More pixels than this make it slower, but not better.
    const less = Math.min(1, 1920 / Math.max(width, height));
    this.canvas.width = Math.round(width * less); this.canvas.height = Math.round(height * less);
    const { over } = this.options;
    over.width = this.canvas.width; over.height = this.canvas.height;
    this.draw();
  }
  // The requested view changed: once, or as part of a movement.
  change(moving = false) {
    this.dirty = true; this.rested = false;
    if (moving) this.movedAt = performance.now();
  }
  // Selects a camera of the dataset, or none (-1).
  fix(index) { this.fixed = index; if (index !== this.photoOf) this.photo = null; this.change(); }

  // The view in the form of the protocol.
  view(extra = {}) {
    const scene = this.options.scene();
    const dataset = this.fixed >= 0 ? scene.cameras[this.fixed] : null;
    let camera = this.camera.intrinsics(this.canvas.width, this.canvas.height), pose = this.camera.pose();
    if (dataset) {
      const [w, h, fx, fy, cx, cy] = dataset.camera;
      const share = Math.min(1, this.canvas.width / w, this.canvas.height / h);
      const W = Math.max(1, Math.round(w * share)), H = Math.max(1, Math.round(h * share));
      camera = [W, H, fx * W / w, fy * H / h, cx * W / w, cy * H / h];
      pose = dataset.pose;
    }
    const show = this.options.show();
    const what = { photo: 'color', split: 'color', flip: 'color' }[show] || show;
    const view = { t: 'view', id: this.nextId++, camera, pose, what, moving: false, ...this.options.filters(), ...extra };
    if (view.what === 'error') { view.against = this.fixed; view.gain = this.options.gain(); }
    return view;
  }
  // Requests a separate image that does not replace the view.
  ask(extra) {
    return new Promise((resolve, reject) => {
      const message = extra.t === 'photo' ? { ...extra, id: this.nextId++ } : this.view({ ...extra, aside: true });
      if (!this.link.send(message)) { reject(new Error('not connected')); return; }
      this.asked.set(message.id, { resolve, reject });
    });
  }
  tick(now, moves) {
    const show = this.options.show();
    if (this.fixed >= 0 && this.photoOf !== this.fixed && ['photo', 'split', 'flip'].includes(show)) this.fetchPhoto();
    if (show === 'flip' || this.peek) this.draw();
    const resting = now - this.movedAt > 150 && !moves;
    this.moving = !resting;
    const { own } = this.options;
    if (!resting && this.fixed < 0 && own.draws) {
      const view = this.ownView();
      // The program draws it once the view rests.
      this.dirty = true; this.rested = false; this.restId = 0;
      if (own.draw(view)) { this.options.moved(); this.lines(view); return; }
    } else if (own.isShown && !own.draws) own.hide();
    if (!this.dirty && resting && !this.rested) this.dirty = true;
    // A request without an answer for too long is lost, by the connection or an error.
    const room = this.waiting === 0 || now - this.sentAt > (this.waiting < 3 ? 60 : 1500);
    if (this.dirty && room) this.send(resting, now);
    else if (this.ack && this.link.send({ t: 'ack', id: this.ack })) this.ack = 0;
  }
  // The view in the form that the browser's renderer needs.
  ownView() {
    const { near, background, sh_degree: degree } = { ...this.options.scene(), ...this.options.filters() };
    return { camera: this.camera.intrinsics(this.canvas.width, this.canvas.height), pose: this.camera.pose(), near, background, degree };
  }
  send(resting, now) {
    const view = this.view({ moving: !resting, exact: resting && this.options.exact() });
    if (this.ack) view.ack = this.ack;
    if (!this.link.send(view, true)) return;
    this.ack = 0; this.dirty = false; this.rested = resting; this.restId = resting ? view.id : 0; this.waiting++; this.sentAt = now;
    this.sent.set(view.id, view);
    for (const id of this.sent.keys()) if (id < view.id - 8) this.sent.delete(id);
  }
  fetchPhoto() {
    const camera = this.fixed;
    this.photoOf = camera; this.photo = null;
    this.ask({ t: 'photo', camera, side: Math.max(this.canvas.width, this.canvas.height) }).then((got) => {
      if (this.photoOf === camera) { this.photo = got.bitmap; this.draw(); }
    }).catch((error) => {
      this.options.error(error.message);
      // Another try, but not at once.
      setTimeout(() => { if (this.photoOf === camera && !this.photo) this.photoOf = -1; }, 2000);
    });
  }
  // A frame arrived.
  async take(frame) {
    const type = frame.png ? 'image/png' : 'image/jpeg';
    let bitmap;
    try { bitmap = await createImageBitmap(new Blob([frame.bytes], { type })); } catch { bitmap = null; }
    const asked = this.asked.get(frame.id);
    if (asked) {
      this.asked.delete(frame.id);
      this.link.send({ t: 'ack', id: frame.id });
      if (bitmap) asked.resolve({ ...frame, bitmap }); else asked.reject(new Error('the image cannot be decoded'));
      return;
    }
    if (!this.sent.has(frame.id)) {
      // Nobody waits for this image any more.
      this.link.send({ t: 'ack', id: frame.id });
      bitmap?.close();
      return;
    }
    // A newer view replaces older ones that were not rendered yet: no frame will answer these.
    this.waiting = [...this.sent.keys()].filter((id) => id > frame.id).length;
    this.ack = frame.id;
    if (bitmap) {
      if (this.frame) this.frame.bitmap.close();
      this.frame = { ...frame, bitmap };
      this.seen = this.sent.get(frame.id) || this.seen;
      if (frame.id === this.restId || !this.options.own.draws) this.options.own.hide();
      this.draw();
      const now = performance.now();
      if (now - this.lastShown < 500) this.rate = this.rate ? 0.9 * this.rate + 0.1 * 1000 / (now - this.lastShown) : 1000 / (now - this.lastShown);
      else this.rate = 0;
      this.lastShown = now; this.shown++;
      this.options.showed(this.frame);
    }
    // Acknowledge at once: the next frame waits for it.
    const now = performance.now();
    const isOwn = this.moving && this.fixed < 0 && this.options.own.draws;
    if (this.dirty && this.waiting === 0 && !isOwn) this.send(now - this.movedAt > 150, now);
    if (this.ack && this.link.send({ t: 'ack', id: this.ack })) this.ack = 0;
  }
  // Text that answers a request.
  answer(message) {
    const asked = this.asked.get(message.id);
    this.asked.delete(message.id);
    if (asked) { if (message.t === 'error') asked.reject(new Error(message.line)); else asked.resolve(message); }
    else if (message.t === 'error') { this.waiting = 0; this.options.error(message.line); }
  }
  reset() { this.waiting = 0; this.asked.forEach((a) => a.reject(new Error('the connection is lost'))); this.asked.clear(); this.change(); }

  place(picture) {
    const { width, height } = this.canvas;
    const share = Math.min(width / picture.width, height / picture.height);
    // A frame whose aspect ratio differs by less than a pixel fills the canvas.
    const w = picture.width * share, h = picture.height * share;
    return [(width - w) / 2, (height - h) / 2, w, h].map((v, k) => (k > 1 && Math.abs(v - [width, height][k - 2]) < 2.5 ? [width, height][k - 2] : v < 1.3 ? Math.max(0, Math.floor(v)) : v));
  }
  draw() {
    const { context, canvas } = this;
    context.fillStyle = '#0a0c10';
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (!this.frame) return;
    const show = this.options.show();
    const place = this.place(this.frame);
    context.imageSmoothingQuality = 'high';
    context.drawImage(this.frame.bitmap, ...place);
    const photo = this.fixed >= 0 && this.photoOf === this.fixed ? this.photo : null;
    let split = -1;
    if (photo) {
      if (show === 'photo' || this.peek || (show === 'flip' && Math.floor(performance.now() / 700) % 2)) context.drawImage(photo, ...place);
      if (show === 'split') {
        split = this.options.split();
        context.save();
        context.beginPath(); context.rect(place[0], place[1], place[2] * split, place[3]); context.clip();
        context.drawImage(photo, ...place);
        context.restore();
        split = (place[0] + place[2] * split) / canvas.width;
      }
    }
    this.options.splitAt(split);
    if (!this.options.own.isShown && this.seen) this.lines(this.seen, place);
  }
  // The lines over the image of a view.
  lines(view, place = [0, 0, this.canvas.width, this.canvas.height]) {
    const groups = this.options.lines(), { over } = this.options;
    // Another layer costs time even if it is empty.
    over.hidden = groups.length === 0;
    if (groups.length) drawLines(over, view, place, groups);
  }
}
