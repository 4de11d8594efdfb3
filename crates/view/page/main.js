// The page: connects panels, buttons, canvas and connection.

import { Camera, add, scale, sub, length, dot, placeOf, stepped } from '/assets/camera.js';
import { copyText, fullScreen, showNumbers } from '/assets/controls.js';
import { Link } from '/assets/link.js';
import { Input, fillHelp, inWords } from '/assets/input.js';
import { Stage } from '/assets/stage.js';
import { Path } from '/assets/path.js';
import { Charts } from '/assets/charts.js';
import { Own } from '/assets/own.js';
import { Thumbs } from '/assets/thumbs.js';
import { edges, grid, pyramid } from '/assets/over.js';

const $ = (id) => document.getElementById(id);
const mark = document.documentElement.dataset, camera = new Camera(), path = new Path(), charts = new Charts($('charts')), saved = {};
let started = false;
let scene = { cameras: [], start: null, live: false }, first = null, wholeRadius = 1, drawn = '', paused = false, now = {}, playing = null, scoring = false, spoke = 0;
const number = (v, digits = 0) => Number(v).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });

const notice = (text) => { $('notice').hidden = !text; $('notice-text').textContent = text || ''; };
const say = (text) => { $('live').textContent = text; };
const status = (text, bad = false) => { $('status').textContent = text; $('status').className = bad ? 'bad' : ''; };
const keep = (name, text, type) => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(text instanceof Blob ? text : new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

const link = new Link({
  message: take,
  frame: (frame) => stage.take(frame),
  lost: (text, again) => {
    $('link').textContent = again ? 'Not connected' : 'Access denied'; $('link').className = 'bad';
    notice(text); say(text);
    if (started) stage.reset();
  },
});
const thumbs = new Thumbs($('cameras'), link);
const own = new Own($('own'), link, { count: splats, show: () => $('show').value, scene: () => scene, view: () => stage.ownView(), changed: drawnBy });
// Lines over the image: {lines, colour} for each kind.
let ground = null;
function lines() {
  const groups = [];
  if (ground) groups.push({ lines: ground.lines, colour: '#ffffff66' });
  if ($('frusta').checked) {
    const few = scene.cameras.filter((_, i) => i % Math.ceil(scene.cameras.length / 400) === 0), depth = 0.06 * scene.radius;
    for (const held of [false, true]) groups.push({ lines: few.filter((c) => c.held_out === held).flatMap((c) => pyramid(c, depth)), colour: held ? '#ffb37ac0' : '#7cc4ffc0' });
  }
  const box = cropBox();
  if (box) groups.push({ lines: edges(box), colour: '#ffe14d' });
  return groups;
}
const stage = new Stage($('view'), link, camera, {
  scene: () => scene,
  show: () => $('show').value,
  gain: () => Number($('gain').value),
  split: () => $('split').value / 100,
  exact: () => $('exact').checked,
  filters: () => {
    const view = {};
    if (Number($('degree').value) < scene.sh_degree) view.sh_degree = Number($('degree').value);
    if (Number($('near').value) > 0) view.near = Number($('near').value);
    if ($('background').value) view.background = $('background').value.split(',').map(Number);
    return view;
  },
  splitAt: (share) => { $('splitter').hidden = share < 0; $('splitter').style.left = `${100 * share}%`; },
  error: (line) => status(line, true),
  showed, own, lines, over: $('over'), moved: () => { mark.drawer = 'browser'; mark.resting = 'false'; mark.ownFrames = String(Number(mark.ownFrames || 0) + 1); },
});
// The line below the selection of the renderer.
function drawnBy() {
  const { words } = own;
  if ($('drawn-by').textContent !== words) $('drawn-by').textContent = words;
  mark.own = String(own.draws);
}
const act = {
  probe: (at) => stage.ask({ what: 'probe', at, moving: true }).then(({ depth }) => {
    if (!depth) return;
    leave();
    camera.pivotAt(at, stage.canvas.width / stage.canvas.height, depth);
    mode(); stage.change();
  }).catch(() => {}),
  peek: (on) => { if (stage.fixed >= 0 && stage.photoOf !== stage.fixed && on) stage.fetchPhoto(); stage.peek = on; stage.draw(); },
  speed: () => mode(),
  home: (set) => {
    if (set) { first = { ...camera.copy(), isOwn: true }; status('this is the first view now'); }
    else if (first) { leave(); goHome(); jumped(); }
  },
  saved: (digit, set) => {
    if (set) { saved[digit] = camera.copy(); status(`view ${digit} is saved`); }
    else if (saved[digit]) { leave(); camera.set(saved[digit]); jumped(); }
  },
  side: (axis) => { leave(); camera.side(axis); jumped(); },
  frame: (whole) => {
    leave();
    if (whole) camera.face(scene.centre, wholeRadius); else camera.face();
    mode(); jumped();
  },
  grid: () => { $('ground').checked = !$('ground').checked; showGround(); },
  up: () => { camera.up = camera.rot[1].map((v) => -v); status('the up direction is taken from this view'); },
  step: (by) => { const list = ordered(); if (list.length) go(list[stepped(list.indexOf(stage.fixed), by, list.length)]); },
  pause: () => { if (scene.live) command(paused ? 'resume' : 'pause'); },
  key: () => { path.add(camera.copy()); pathText(); status(`${path.keys.length} views in the path`); },
  screenshot: () => stage.ask({ exact: true, moving: false }).then(({ bytes }) => keep('gausset-view.png', new Blob([bytes], { type: 'image/png' }))).catch((e) => status(e.message, true)),
  copy: () => {
    const text = JSON.stringify({ camera_from_world: camera.pose(), fov: camera.fov, pivot: camera.pivot });
    copyText(text, status, 'camera copied to the clipboard');
  },
  info: () => { $('info-panel').open = !$('info-panel').open; },
  panels: () => document.body.classList.toggle('bare'),
  help: () => $('keys').showModal(),
};
const input = new Input($('view'), camera, act, moved);
// The side panels: a drawer on narrow screens, closed at first.
function panels() {
  const isClosed = document.body.classList.toggle('closed');
  $('panels').setAttribute('aria-expanded', String(!isClosed));
}
if (matchMedia('(max-width: 600px)').matches) panels();
fullScreen($('full'));
// The keys that have an effect on this scene.
function help() {
  const { step, peek, pause, ...others } = act;
  fillHelp($('key-rows'), { ...others, ...(scene.cameras.length && { step }), ...(scene.photos && { peek }), ...(scene.live && { pause }) });
}

function moved() {
  if (stage.fixed >= 0) leave();
  playing = null;
  stage.change(true);
}
function jumped() { input.stop(); playing = null; stage.change(); }
// Leaves the camera of the dataset, without moving.
function leave() {
  if (stage.fixed < 0) return;
  stage.fix(-1);
  if (['photo', 'split', 'flip', 'error'].includes($('show').value)) { $('show').value = 'color'; controls(); }
  list();
}
function mode() { $('mode').textContent = inWords(camera); }
// The first view. On a narrow screen one without a camera is moved back, and that of a camera is widened.
function goHome() {
  camera.set(first);
  if (first.isOwn) return;
  const aspect = $('view').clientWidth / $('view').clientHeight;
  if (scene.cameras.length) camera.widen(scene.start.camera, aspect); else camera.fit(aspect);
  $('fov').value = camera.fov;
}
function go(index) {
  const at = scene.cameras[index];
  if (!at) return;
  input.stop();
  const distance = Math.max(1e-3, dot(sub(scene.centre, [0, 1, 2].map((k) => -[0, 1, 2].reduce((s, r) => s + at.pose[4 * r + k] * at.pose[4 * r + 3], 0))), at.pose.slice(8, 11)));
  camera.setPose(at.pose, at.camera, distance);
  $('fov').value = camera.fov;
  stage.fix(index);
  list();
}
function ordered() {
  const words = $('search').value.toLowerCase();
  const found = scene.cameras.map((_, i) => i).filter((i) => scene.cameras[i].name.toLowerCase().includes(words));
  const worst = (i) => scene.cameras[i].psnr ?? 1e9;
  return $('order').value === 'worst' ? found.sort((a, b) => worst(a) - worst(b)) : found;
}
function list() {
  const indices = ordered();
  $('camera-panel').hidden = scene.cameras.length === 0;
  $('compare').disabled = !scene.photos;
  $('camera-count').textContent = scene.cameras.length ? `(${scene.cameras.length})` : '';
  thumbs.begin();
  $('cameras').replaceChildren(...indices.map((i) => {
    const { name, held_out, psnr } = scene.cameras[i];
    const row = document.createElement('li'), button = document.createElement('button'), b = document.createElement('b'), score = document.createElement('small'), words = document.createElement('span');
    b.textContent = name; b.title = name;
    score.textContent = [held_out ? 'held out' : '', psnr == null ? '' : `${number(psnr, 2)} dB`].filter(Boolean).join(' · ');
    words.append(b, score);
    if (scene.photos) button.append(thumbs.image(i));
    button.append(words);
    button.setAttribute('aria-current', String(i === stage.fixed));
    button.addEventListener('click', () => go(i));
    row.append(button);
    return row;
  }));
}
function controls() {
  const show = $('show').value;
  document.querySelectorAll('.for-split').forEach((e) => { e.hidden = show !== 'split'; });
  document.querySelectorAll('.for-error').forEach((e) => { e.hidden = show !== 'error'; });
  drawnBy();
  $('legend').hidden = !['depth', 'count', 'error', 'confidence'].includes(show);
  $('legend').className = show === 'confidence' ? 'known' : '';
}
function showed(frame) {
  notice('');
  const show = $('show').value;
  if (show === 'error' && stage.fixed >= 0) {
    scene.cameras[stage.fixed].psnr = frame.range[0];
    $('low').textContent = `${number(frame.range[0], 2)} dB`; $('high').textContent = `1/${$('gain').value}`;
  } else if (show === 'depth' || show === 'count') {
    const digits = show === 'depth' ? 2 : 0;
    $('low').textContent = number(frame.range[0], digits); $('high').textContent = number(frame.range[1], digits);
  } else if (show === 'confidence') {
    const [confirmed, invented] = frame.range.map((share) => number(100 * share, 0));
    $('low').textContent = `${invented} % invented`; $('high').textContent = `${confirmed} % confirmed`;
  }
  mark.frames = String(stage.shown);
  mark.resting = String(frame.id === stage.restId);
  if (!own.isShown) mark.drawer = 'program';
  if (own.lacks) own.ask(false);
}
// The number of splats: events tell it during a training, the scene afterwards.
function splats() { return (scene.live ? now.splats : scene.splats) ?? 0; }
// Numbers of splats, in the words of the program.
function counted() {
  const rest = scene.sky ? ` and a sky of ${number(scene.sky)}` : '';
  return `${number(splats() - (scene.sky ?? 0))} splats${rest}`;
}
function time(seconds) {
  const minutes = Math.round(seconds / 60);
  return seconds < 90 ? `${number(seconds)} s` : minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
function progress() {
  const isShown = Boolean(scene.live && now.steps);
  $('progress').hidden = $('left').hidden = !isShown;
  if (!isShown) return;
  $('progress').max = now.steps; $('progress').value = now.step ?? 0;
  $('left').textContent = `Step ${number(now.step ?? 0)} of ${number(now.steps)}${now.seconds_left != null ? `, about ${time(now.seconds_left)} left` : ''}`;
}
function facts() {
  const rows = [['what', scene.title], ['splats', counted().replace(' splats', '')], ['SH degree', scene.sh_degree]];
  if (now.step != null) rows.push(['step', `${number(now.step)} of ${number(now.steps)}`]);
  if (now.seconds_left != null && scene.live) rows.push(['left', time(now.seconds_left)]);
  if (now.device) rows.push(['device', now.device]);
  if (now.saved) rows.push(['checkpoint', now.saved]);
  rows.push(['program', `Gausset ${now.gausset || ''}`]);
  if (drawn) rows.push(['picture', drawn]);
  $('facts').replaceChildren(...rows.flatMap(([name, value]) => {
    const dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = name; dd.textContent = value;
    return [dt, dd];
  }));
  $('count').textContent = scene.live ? '' : counted();
  $('training').hidden = !scene.live;
  document.body.classList.toggle('training', scene.live);
  progress();
  $('pause').textContent = paused ? 'Resume' : 'Pause';
  $('chart-panel').hidden = charts.empty && !scene.live;
}
function show(next) {
  const was = scene, fresh = !was.start;
  scene = next;
  // During a training, the scene has no PSNRs: they came with events.
  if (was.title === scene.title) {
    const known = new Map(was.cameras.map(({ name, psnr }) => [name, psnr]));
    for (const at of scene.cameras) at.psnr ??= known.get(at.name);
  }
  const begun = scene.cameras.length > 0 || !scene.live;
  $('title').textContent = scene.title;
  document.title = `${scene.title} · Gausset`;
  document.querySelectorAll('.for-degree').forEach((e) => { e.hidden = scene.sh_degree === 0; });
  document.querySelectorAll('.for-cameras').forEach((e) => { e.hidden = scene.cameras.length === 0; });
  $('compare').hidden = $('score').hidden = !scene.photos;
  // A model without photographs is looked at for its cameras.
  if (fresh && (!scene.photos || !(scene.live || scene.filter))) $('frusta').checked = scene.cameras.length > 0;
  $('known').hidden = !scene.confidence;
  $('save-as').hidden = !scene.filter;
  $('degree').max = scene.sh_degree; $('degree').value = Math.min($('degree').value, scene.sh_degree);
  if (fresh || was.title !== scene.title || was.cameras.length !== scene.cameras.length) {
    $('degree').value = scene.sh_degree;
    camera.up = [...scene.up];
    camera.speed = Math.max(1e-3, 0.4 * scene.radius);
    const { pose, camera: at } = scene.start;
    if (at[0] > 0) {
      camera.setPose(pose, at, 1);
      camera.pivot = add(camera.pos, scale(camera.forward, Math.max(1e-3, length(sub(scene.centre, camera.pos)))));
      first = camera.copy();
      wholeRadius = scene.cameras.length ? scene.radius : camera.distance / 2.2;
      camera.limit(scene.centre, scene.radius, [camera.pos, ...scene.cameras.map((c) => placeOf(c.pose))]);
      goHome();
      $('fov').value = camera.fov;
    }
    stage.fix(-1);
    thumbs.reset(); ground = null; $('ground').checked = false;
  }
  if (!scene.live) own.outdate();
  $('filter-panel').hidden = !scene.filter;
  showFilter();
  $('filter-count').textContent = filtered() ? `(${counted()})` : '';
  if (!begun) notice('Waiting for the training to begin …');
  list(); facts(); mode(); controls(); help(); stage.change();
}
function take(message) {
  if (message.t === 'hello') {
    $('link').textContent = ''; $('link').className = '';
    now.gausset = message.gausset;
    notice('Waiting for the first picture …'); status('');
    charts.set(message.history);
    paused = Boolean(message.events.paused && (!message.events.resumed || message.events.resumed.step < message.events.paused.step));
    stage.reset(); own.reset();
    show(message.scene);
    // After the scene, to whose cameras they add PSNRs.
    Object.values(message.events).forEach((what) => event(what));
    drawnBy();
    if (document.hidden) link.send({ t: 'hidden', hidden: true });
  } else if (message.t === 'scene') {
    // Other splats are shown: why the previous ones were kept is past.
    if (message.scene.filter && $('status').className === 'bad') status('');
    show(message.scene);
  } else if (message.t === 'snapshot') own.heard(message);
  else if (message.t === 'event') event(message.event, true);
  else if (message.t === 'lost') status(`${message.count} events skipped: they came too fast`);
  else if (message.t === 'error' && message.id === undefined) status(message.line, true);
  else if (message.t === 'depth' || message.t === 'error') stage.answer(message);
}
function event(what, isNew = false) {
  const name = what.event;
  if (name === 'started') { now.device = what.device?.name; now.step = what.step; now.steps = what.steps; now.splats = what.splats; }
  if (name === 'progress') {
    Object.assign(now, { step: what.step, steps: what.steps, splats: what.splats, seconds_left: what.seconds_left });
    if (isNew) charts.progress(what);
    const left = what.seconds_left != null ? `, about ${time(what.seconds_left)} left` : '';
    const text = `step ${number(what.step)} of ${number(what.steps)}${left}, ${number(what.splats)} splats`;
    status(text);
    if (performance.now() - spoke > 10000) { spoke = performance.now(); say(text); }
  }
  if (name === 'evaluated') {
    if (isNew) charts.psnr(what.step, what.report.psnr);
    for (const { name: picture, psnr } of what.report.per_image) { const at = scene.cameras.find((c) => c.name === picture); if (at) at.psnr = psnr; }
    list();
  }
  if (name === 'checkpointed') now.saved = `step ${number(what.step)}${isNew ? `, ${new Date().toLocaleTimeString()}` : ''}`;
  if (name === 'exported' && isNew) status('splats.ply written');
  if (name === 'warning' && isNew) status(what.line, true);
  if (name === 'paused' && isNew) { paused = true; status('paused'); }
  if (name === 'resumed' && isNew) paused = false;
  if (name === 'finished') { paused = false; status(`finished${what.psnr ? `, ${number(what.psnr, 2)} dB on held-out images` : ''}`); }
  facts();
}
function command(what) { link.send({ t: 'command', what }); }
function pathText() {
  const n = path.keys.length;
  $('path-text').replaceChildren(n ? `${n} view${n > 1 ? 's' : ''}. The file is for ` : 'No views yet. The file is for ', Object.assign(document.createElement('code'), { textContent: 'gausset render … --path FILE' }), '.');
}
async function scoreAll() {
  if (scoring) { scoring = false; return; }
  scoring = true; $('score').textContent = 'Stop scoring';
  for (let i = 0; i < scene.cameras.length && scoring; i++) {
    const { camera: at, pose } = scene.cameras[i], share = Math.min(1, 640 / at[0]);
    try {
      const [w, h] = [Math.max(1, Math.round(at[0] * share)), Math.max(1, Math.round(at[1] * share))];
      const got = await stage.ask({ what: 'error', against: i, camera: [w, h, at[2] * share, at[3] * share, at[4] * share, at[5] * share], pose });
      scene.cameras[i].psnr = got.range[0];
      got.bitmap.close();
    } catch (error) { status(error.message, true); if (!link.ready) break; }
    if (i % 8 === 7) list();
  }
  scoring = false; $('score').textContent = 'Score all'; list();
}

function showGround() {
  ground = $('ground').checked ? grid(camera.pivot, camera.up, scene.radius) : null;
  if (ground) status(`grid cells are ${ground.cell} units wide; the grid passes through the pivot`);
  stage.draw();
}
$('ground').addEventListener('input', showGround);
$('frusta').addEventListener('input', () => stage.draw());
$('drawer').value = own.choice;
$('drawer').addEventListener('input', () => { own.choose($('drawer').value); drawnBy(); });
// The pointer is near, so the view will move soon: request splats early.
$('view').addEventListener('pointermove', () => { if (scene.live) own.ask(false); });
for (const id of ['show', 'gain', 'degree', 'near', 'background', 'exact']) $(id).addEventListener('input', () => {
  if (['photo', 'split', 'flip', 'error'].includes($('show').value) && stage.fixed < 0) go(ordered()[0] ?? 0);
  controls(); stage.change(); stage.draw();
});
// Filters: the program loads the splats again, for all pages.
let filterLater = 0;
const filtered = () => scene.filter && Object.values(scene.filter).some((value) => value !== null);
const CORNERS = ['x0', 'y0', 'z0', 'x1', 'y1', 'z1'];
// The crop box from its fields, if there is one.
function cropBox() {
  if (!$('crop').checked) return null;
  const box = CORNERS.map((id) => ($(id).value === '' ? NaN : Number($(id).value)));
  return box.every(Number.isFinite) && [0, 1, 2].every((k) => box[k] < box[k + 3]) ? box : null;
}
function setBox(box) { CORNERS.forEach((id, k) => { $(id).value = Number(box[k].toPrecision(4)); }); }
function showCrop() {
  $('crop-fields').hidden = !$('crop').checked;
  if ($('crop').checked && CORNERS.every((id) => $(id).value === '')) {
    const size = 1.2 * scene.radius;
    setBox([...scene.centre.map((v) => v - size), ...scene.centre.map((v) => v + size)]);
  }
}
// Filters that another page set, or this one before it was reloaded.
function showFilter() {
  const f = scene.filter;
  if (!f || $('filter-panel').contains(document.activeElement)) return;
  $('min-opacity').value = f.min_opacity ?? 0; $('drop-far').value = f.drop_far ?? ''; $('max-size').value = f.max_size ?? ''; $('shrink').value = f.shrink ?? 1; $('ball').value = f.sphere ? f.sphere[3] : '';
  $('crop').checked = Boolean(f.box);
  if (f.box) setBox(f.box);
  showCrop();
}
function filter() {
  const positive = (id) => (Number($(id).value) > 0 ? Number($(id).value) : null);
  const radius = positive('ball');
  const wanted = { min_opacity: positive('min-opacity'), drop_far: positive('drop-far'), sphere: radius && [...camera.pivot, radius], box: cropBox(), max_size: positive('max-size'), shrink: Number($('shrink').value) < 1 ? Number($('shrink').value) : null };
  clearTimeout(filterLater);
  filterLater = setTimeout(() => link.send({ t: 'filter', filter: wanted }), 150);
}
for (const id of ['min-opacity', 'drop-far', 'ball', 'max-size', 'shrink']) $(id).addEventListener('input', filter);
for (const id of ['crop', ...CORNERS]) $(id).addEventListener('input', () => { showCrop(); filter(); stage.draw(); });
$('filter-off').addEventListener('click', () => {
  for (const id of ['drop-far', 'ball', 'max-size']) $(id).value = '';
  $('min-opacity').value = 0; $('shrink').value = 1; $('crop').checked = false;
  showCrop(); filter(); stage.draw();
});
$('filter-copy').addEventListener('click', () => {
  const { min_opacity, drop_far, sphere, box, max_size, shrink } = scene.filter;
  const words = ['gausset convert IN OUT'];
  if (drop_far) words.push(`--drop-far ${drop_far}`);
  if (min_opacity) words.push(`--min-opacity ${min_opacity}`);
  if (box) words.push(`--box=${box.join(',')}`);
  if (sphere) words.push(`--sphere=${sphere.join(',')}`);
  const rest = max_size || shrink ? '; without the size filters, which convert does not have' : '';
  copyText(words.join(' '), status, 'command copied to the clipboard', rest);
});
// Save as: the program writes what is shown, and the browser downloads it.
$('save-as').addEventListener('click', () => {
  $('saving-what').textContent = `${filtered() ? 'What the filters leave: ' : ''}${counted()}.`;
  $('saving-status').textContent = '';
  $('saving').showModal();
});
$('save-now').addEventListener('click', async () => {
  const format = $('format').value, name = `${scene.title.split('/').pop().split('.')[0] || 'scene'}.${format}`;
  $('save-now').disabled = true; $('saving-status').textContent = `Writing ${name} …`;
  try {
    const answer = await fetch(`/api/save/${format}`, { headers: link.bearer() });
    if (!answer.ok) throw new Error(answer.status === 503 ? 'Another file is being saved; try again when it is done.' : await answer.text());
    const bytes = await answer.blob();
    keep(name, bytes);
    $('saving-status').textContent = `${name}, ${number(bytes.size / 1e6, 1)} MB, is in the downloads of this browser.`;
  } catch (error) { $('saving-status').textContent = error.message; }
  $('save-now').disabled = false;
});
$('split').addEventListener('input', () => stage.draw());
$('fov').addEventListener('input', () => { leave(); camera.fov = Number($('fov').value); stage.change(true); });
for (const id of ['search', 'order']) $(id).addEventListener('input', list);
const click = (id, what) => $(id).addEventListener('click', what);
click('pause', act.pause); click('save', () => command('save')); click('export', () => command('export'));
click('stop', () => { if (confirm('Save a checkpoint and end the training?')) command('stop'); });
click('home', () => { act.home(false); }); click('screenshot', act.screenshot); click('help', act.help); click('panels', panels);
click('before', () => act.step(-1)); click('next', () => act.step(1)); click('score', scoreAll); click('copy', act.copy);
click('key-add', act.key); click('key-drop', () => { path.keys.pop(); pathText(); });
click('path-play', () => { if (path.keys.length > 1) playing = performance.now(); else status('a path needs at least two views', true); });
click('path-export', () => {
  if (!path.keys.length) { status('the path has no views', true); return; }
  const size = $('path-size').value.split('x').map(Number);
  keep('camera_path.json', JSON.stringify(path.file(Number($('seconds').value), Number($('fps').value), size, $('loop').checked), null, 1), 'application/json');
});
document.addEventListener('visibilitychange', () => { link.send({ t: 'hidden', hidden: document.hidden }); if (!document.hidden) stage.reset(); });

started = true;
let before = performance.now(), drawnAt = 0;
function turn(at) {
  const dt = Math.min(0.1, (at - before) / 1000);
  before = at;
  let moves = input.advance(dt);
  if (playing !== null) {
    const share = (at - playing) / 1000 / Math.max(0.5, Number($('seconds').value));
    leave();
    camera.set(path.at(Math.min(1, share), $('loop').checked));
    stage.change(true);
    moves = true;
    if (share >= 1) playing = null;
  }
  stage.tick(at, moves);
  showNumbers();
  const seen = own.isShown ? `${own.canvas.width} x ${own.canvas.height} px, drawn by this browser` : stage.frame ? `${stage.frame.width} x ${stage.frame.height} px in ${number(stage.frame.drawMs)} ms${stage.rate ? `, ${number(stage.rate)} a second` : ''}` : '';
  if (seen !== drawn && at - drawnAt > 500) { drawn = seen; drawnAt = at; facts(); }
  requestAnimationFrame(turn);
}
// For other scripts: an image as the browser draws it, {camera: [width, height, fx, fy, cx, cy], pose: rows of
// camera_from_world}.
window.gausset = { picture: (view) => own.picture({ background: scene.background, near: scene.near, ...view }) };
requestAnimationFrame(turn);
