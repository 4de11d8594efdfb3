// Script of the page of one scene: unpacks the splats, renders them, and handles mouse and keyboard.

import { Camera, add, scale, sub, length, placeOf, stepped } from './camera.js';
import { copyText, fullScreen } from './controls.js';
import { Input, fillHelp, inWords } from './input.js';
import { unpack } from './sevens.js';
import { SplatView } from './splats.js';

const $ = (id) => document.getElementById(id);
const scene = JSON.parse($('scene').textContent), mark = document.documentElement.dataset;
// The page as it was read, for saving; texts are shared with the page that is shown.
const page = document.documentElement.cloneNode(true);
const camera = new Camera(), canvas = $('view'), saved = {};
let view = null, first = null, wholeRadius = 1, fixed = -1, drawn = '', movedAt = -1e9, share = 1, file = null, background = scene.background || [0, 0, 0];

const notice = (text) => { $('notice').hidden = !text; $('notice-text').textContent = text || ''; };
const status = (text) => { $('status').textContent = text; };
const keep = (name, blob) => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// View to render. The view of camera `fixed` keeps the aspect ratio of its photograph, centred in the window.
function shown() {
  const box = canvas.parentElement, ratio = Math.min(2, devicePixelRatio || 1) * share;
  let [width, height] = [box.clientWidth, box.clientHeight].map((v) => Math.max(16, Math.round(v * ratio)));
  const pose = camera.pose();
  if (fixed < 0) return { camera: camera.intrinsics(width, height), pose, background, near: scene.near || 0.01 };
  const [w, h, fx, fy, cx, cy] = scene.cameras[fixed].camera, s = Math.min(width / w, height / h);
  const [x, y] = [(width - w * s) / 2, (height - h * s) / 2];
  return { camera: [width, height, fx * s, fy * s, cx * s + x, cy * s + y], pose: scene.cameras[fixed].pose, background, near: scene.near || 0.01 };
}
function change(moving) { drawn = ''; mark.resting = 'false'; if (moving === true) movedAt = performance.now(); }
function leave() { if (fixed >= 0) { fixed = -1; choose(); } }
function jumped() { input?.stop(); mode(); change(); }
function mode() { $('mode').textContent = inWords(camera); }
function choose() { if ($('camera')) $('camera').value = String(fixed); }
function go(index) {
  fixed = index;
  const at = scene.cameras[index];
  if (at) {
    camera.setPose(at.pose, at.camera, 1);
    // The field of view shows the whole photograph.
    const [, height, , fy] = shown().camera;
    camera.fov = 2 * Math.atan(height / 2 / fy) * 180 / Math.PI;
    camera.pivot = add(camera.pos, scale(camera.forward, Math.max(1e-3, length(sub(scene.centre, camera.pos)))));
  }
  choose(); jumped();
}
function home() {
  if (!first) return;
  if (scene.cameras.length && !first.isOwn) { go(0); return; }
  leave(); camera.set(first);
  if (!first.isOwn) camera.fit(canvas.clientWidth / canvas.clientHeight);
  jumped();
}
async function screenshot() {
  view.draw(shown());
  canvas.toBlob((blob) => keep(`${scene.title || 'view'}.png`, blob));
}
const actions = {
  probe: async (at) => {
    const depth = await view.probe(shown(), at);
    if (depth) { leave(); camera.pivotAt(at, canvas.width / canvas.height, depth); jumped(); }
  },
  speed: mode,
  home: (set) => { if (set) { first = camera.copy(); first.isOwn = true; status('this view is now the first view'); } else home(); },
  saved: (digit, set) => {
    if (set) { saved[digit] = camera.copy(); status(`view ${digit} saved`); } else if (saved[digit]) { leave(); camera.set(saved[digit]); jumped(); }
  },
  side: (axis) => { leave(); camera.side(axis); jumped(); },
  frame: (whole) => { leave(); if (whole) camera.face(scene.centre, wholeRadius); else camera.face(); jumped(); },
  up: () => { camera.up = camera.rot[1].map((v) => -v); status('up direction set from this view'); },
  step: (by) => { if (scene.cameras.length) go(stepped(fixed, by, scene.cameras.length)); },
  copy: () => {
    const text = JSON.stringify({ camera_from_world: camera.pose(), fov: camera.fov, pivot: camera.pivot });
    copyText(text, status, 'camera copied to the clipboard');
  },
  panels: () => document.body.classList.toggle('bare'),
  help: () => $('keys').showModal(),
  screenshot,
};

function begin(around) {
  scene.cameras ||= []; scene.centre ||= around.centre; scene.radius ||= around.radius;
  camera.up = scene.up || around.up || [0, -1, 0];
  camera.speed = Math.max(1e-3, 0.4 * scene.radius);
  if (scene.cameras.length) {
    const list = $('camera');
    scene.cameras.forEach(({ name }, i) => list.append(new Option(name, String(i))));
    $('camera-label').hidden = false;
    go(0);
  } else if (scene.start) {
    const { pose, camera: at } = scene.start;
    camera.setPose(pose, at, 1);
    camera.pivot = add(camera.pos, scale(camera.forward, Math.max(1e-3, length(sub(scene.centre, camera.pos)))));
  } else {
    camera.pivot = [...scene.centre];
    camera.side([0, 0, 1]);
    camera.pos = add(scene.centre, scale(sub(camera.pos, scene.centre), 2.5 * scene.radius / camera.distance));
    camera.face();
  }
  wholeRadius = scene.cameras.length ? scene.radius : camera.distance / 2.2;
  first = camera.copy();
  camera.limit(scene.centre, scene.radius, [camera.pos, ...scene.cameras.map(({ pose }) => placeOf(pose))]);
  if (!scene.cameras.length) home();
  const count = (n) => n.toLocaleString('en');
  $('count').textContent = `${count(around.splats - scene.sky)} splats${scene.sky ? ` and a sky of ${count(scene.sky)}` : ''}`;
  mode();
}
let before = performance.now();
function turn(now) {
  const dt = (now - before) / 1000;
  before = now;
  const moves = input.advance(Math.min(0.1, dt)), resting = now - movedAt > 150 && !moves;
  // Fewer pixels while the camera moves, if the GPU is too slow; all of them at rest.
  if (!resting && dt > 0.04) share = Math.max(0.25, share * 0.85);
  else if (!resting && dt < 0.02) share = Math.min(1, share * 1.05);
  else if (resting) share = 1;
  const wanted = shown(), [width, height] = wanted.camera;
  const state = `${width} ${height} ${resting}`;
  if (drawn !== state) {
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const ready = view.draw(wanted);
    drawn = ready || !resting ? state : '';
    mark.resting = String(resting && ready);
    if (ready) mark.ready = 'true';
  }
  requestAnimationFrame(turn);
}
let input = null;
async function main() {
  document.title = scene.title || document.title;
  const { step, ...others } = actions;
  fillHelp($('key-rows'), scene.cameras?.length ? actions : others);
  fullScreen($('full'));
  $('home').addEventListener('click', home);
  $('screenshot').addEventListener('click', screenshot);
  $('help').addEventListener('click', actions.help);
  $('camera').addEventListener('input', () => go(Number($('camera').value)));
  $('background').value = background.join();
  if ($('background').selectedIndex < 0) { $('background').append(new Option('As trained', background.join())); $('background').value = background.join(); }
  $('background').addEventListener('input', () => { background = $('background').value.split(',').map(Number); change(); });
  $('file').addEventListener('input', () => {
    const name = scene.title || 'scene', kind = $('file').value;
    $('file').value = '';
    if (kind === 'html') keep(`${name}.html`, new Blob(['<!doctype html>\n', page.outerHTML, '\n'], { type: 'text/html' }));
    else if (file) keep(`${name}.compressed.ply`, new Blob([file]));
  });
  notice('Unpacking …');
  file = await unpack($('splats'));
  try {
    view = new SplatView(canvas, () => change());
  } catch (error) {
    notice(error.message === 'no WebGL 2' ? 'This page needs WebGL 2, which this browser does not support or has disabled. “Save as …” saves the splats as a file for other viewers.' : error.message);
    mark.ready = 'failed';
    return;
  }
  begin(await view.load(file));
  notice('');
  status(view.isSoftware ? 'software rendering: slow' : '');
  input = new Input(canvas, camera, actions, () => { leave(); change(true); });
  new ResizeObserver(change).observe(canvas.parentElement);
  requestAnimationFrame(turn);
  // For other scripts: renders any view, {camera: [width, height, fx, fy, cx, cy], pose: rows of camera_from_world}.
  window.gausset = {
    view: shown,
    picture: async (wanted) => {
      const other = document.createElement('canvas');
      [other.width, other.height] = wanted.camera;
      return new Promise((resolve) => {
        const drawer = new SplatView(other, () => { if (drawer.draw(wanted)) { resolve(other.toDataURL()); drawer.end(); } });
        drawer.load(file).then(() => drawer.draw(wanted));
      });
    },
  };
}
main().catch((error) => { notice(`This page cannot be shown: ${error.message}`); mark.ready = 'failed'; });
