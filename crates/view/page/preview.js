// A panorama to look around in, with the views that are cut from it.

import { Sphere } from './sphere.js';
import { fullScreen, showNumbers } from './controls.js';

const $ = (id) => document.getElementById(id);
const ANGLES = ['yaw', 'pitch', 'roll', 'hfov'];
let token = '', about = null, sphere = null, views = [], asked = '', isAsking = false, isChanged = false;

function tell(text) { $('notice-text').textContent = text; $('notice').hidden = !text; }

async function ask(path, secret = token) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${secret}` }, cache: 'no-store' });
  if (answer.status === 403) throw new Error('Access denied. Open the full address that the program printed, including the part after #.');
  if (!answer.ok) throw new Error(`${path.split('?')[0]}: ${answer.status}`);
  return answer;
}

async function enter() {
  const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
  const secret = found ? found[1] : sessionStorage.getItem('gausset-token') || '';
  // Removed from the address bar, so that it is not in screenshots.
  if (found) history.replaceState(null, '', location.pathname);
  token = await (await ask('/api/enter', secret)).text();
  sessionStorage.setItem('gausset-token', token);
}

const round = (value) => Math.round(value * 100) / 100;
const bitmap = async (answer) => createImageBitmap(await answer.blob(), { colorSpaceConversion: 'none' });
const query = () => views.map((v) => [v.yaw, v.pitch, v.roll, v.hfov, v.width, v.height].map(round).join(',')).join(';');
const look = () => about.settings.map(([key]) => [key, Number($(`look-${key}`).value)]).filter(([, value]) => value).map(([key, value]) => `${key}=${value}`).join(',');

function draw() { if (sphere) requestAnimationFrame(() => { sphere.draw(); document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1); }); }

// Requests data that depends on views and colours; changes during a request are combined into one further request.
async function renew() {
  isChanged = true;
  if (isAsking) return;
  isAsking = true;
  try {
    while (isChanged) {
      isChanged = false;
      const [now, colours] = [query(), look()];
      const [seen, counts, table] = await Promise.all([
        ask(`/api/views?${now}`).then((answer) => answer.json()),
        ask(`/api/counts?${now}`).then((answer) => answer.arrayBuffer()),
        asked === colours && document.documentElement.dataset.ready ? null : ask(`/api/table?${colours}`).then((answer) => answer.arrayBuffer()),
      ]);
      asked = colours;
      sphere.setViews(seen.views);
      sphere.setCounts(new Uint8Array(counts), about.grid);
      if (table) sphere.setTable(new Uint8Array(table), about.table);
      say(seen);
      document.documentElement.dataset.ready = 'true';
      draw();
    }
    document.documentElement.dataset.asked = `${query()}|${look()}`;
    tell('');
  } catch (error) {
    tell(error.message);
  }
  isAsking = false;
}

function say(seen) {
  const percent = (share) => `${(100 * share).toFixed(2)} %`;
  $('share').textContent = `${percent(seen.share)} of the sphere`;
  $('mean').textContent = `${seen.mean.toFixed(2)} on average, ${seen.least ?? 'some'} at least`;
  const hole = seen.hole;
  const where = hole && hole.yaw !== null ? ` at yaw ${hole.yaw.toFixed(0)}°, pitch ${hole.pitch.toFixed(0)}°` : '';
  $('hole').textContent = hole ? `${percent(hole.share)}${where}` : 'none';
}

function command() {
  const colours = look();
  $('command').textContent = ['--views views.json', colours && `--look ${colours}`].filter(Boolean).join(' ');
}

function show(chosen) {
  sphere.chosen = views.length ? Math.min(Math.max(chosen, 0), views.length - 1) : -1;
  $('number').textContent = String(views.length);
  $('chosen').replaceChildren(...views.map((view, i) => new Option(`${i}: yaw ${round(view.yaw)}°, pitch ${round(view.pitch)}°`, String(i))));
  const view = views[sphere.chosen];
  for (const key of ANGLES) { $(key).disabled = !view; if (view) $(key).value = view[key]; }
  for (const id of ['remove', 'look-along', 'save', 'chosen']) $(id).disabled = !view;
  $('add').disabled = views.length >= about.most_views;
  if (view) $('chosen').value = String(sphere.chosen);
  $('angles').textContent = view ? `${view.width} x ${view.height} px` : 'no view';
  command(); showNumbers();
}

const turned = (yaw) => ((yaw + 180) % 360 + 360) % 360 - 180;

function turn(yaw, pitch, zoom = 1) {
  sphere.yaw = turned(sphere.yaw + yaw);
  sphere.pitch = Math.min(90, Math.max(-90, sphere.pitch + pitch));
  sphere.fov = Math.min(130, Math.max(15, sphere.fov * zoom));
  draw();
}

function home() { Object.assign(sphere, { yaw: 0, pitch: 0, fov: 90 }); draw(); }
function panels() {
  const isClosed = document.body.classList.toggle('closed');
  $('panels').setAttribute('aria-expanded', String(!isClosed));
  draw();
}
function flat() { sphere.flat = !sphere.flat; $('flat').setAttribute('aria-pressed', String(sphere.flat)); draw(); }

function listen() {
  const canvas = $('view');
  let last = null;
  canvas.addEventListener('pointerdown', (event) => { last = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointermove', (event) => {
    if (!last) return;
    const degrees = sphere.fov / canvas.clientWidth;
    turn((last[0] - event.clientX) * degrees, (event.clientY - last[1]) * degrees);
    last = [event.clientX, event.clientY];
  });
  for (const kind of ['pointerup', 'pointercancel']) canvas.addEventListener(kind, () => { last = null; });
  canvas.addEventListener('wheel', (event) => { event.preventDefault(); turn(0, 0, Math.exp(event.deltaY / 800)); }, { passive: false });
  addEventListener('keydown', (event) => {
    if (document.querySelector('dialog[open]') || event.target.matches('input, select') || event.ctrlKey || event.altKey || event.metaKey) return;
    const keys = { ArrowLeft: [-5, 0], ArrowRight: [5, 0], ArrowUp: [0, 5], ArrowDown: [0, -5], '+': [0, 0, 0.9], '-': [0, 0, 1 / 0.9] };
    if (keys[event.key]) { event.preventDefault(); turn(...keys[event.key]); }
    if (event.key === 'Home') home();
    if (event.key === 'f') flat();
    if (event.key === 'h') panels();
    if (event.key === '?') $('keys').showModal();
  });
  addEventListener('resize', draw);
  $('home').onclick = home;
  $('flat').onclick = flat;
  $('help').onclick = () => $('keys').showModal();
  $('panels').onclick = panels;
  if (matchMedia('(max-width: 600px)').matches) panels();
  fullScreen($('full'));
  $('layout').onchange = () => {
    const layout = about.layouts[$('layout').value];
    if (!layout) return;
    views = layout.views.map((view) => ({ ...view }));
    show(0); renew();
  };
  $('chosen').onchange = () => { show(Number($('chosen').value)); draw(); };
  for (const key of ANGLES) {
    $(key).oninput = () => { views[sphere.chosen][key] = Number($(key).value); show(sphere.chosen); renew(); };
  }
  $('add').onclick = () => {
    const like = views[sphere.chosen] || { roll: 0, hfov: 90, width: 720, height: 720 };
    views.push({ ...like, roll: 0, yaw: round(sphere.yaw), pitch: round(sphere.pitch) });
    show(views.length - 1); renew();
  };
  $('remove').onclick = () => { views.splice(sphere.chosen, 1); show(sphere.chosen); renew(); };
  $('look-along').onclick = () => {
    const { yaw, pitch } = views[sphere.chosen];
    if (sphere.flat) flat();
    Object.assign(sphere, { yaw: turned(yaw), pitch: Math.min(90, Math.max(-90, pitch)) }); draw();
  };
  $('save').onclick = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([`${JSON.stringify(views, null, 1)}\n`], { type: 'application/json' }));
    link.download = 'views.json'; link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  $('map').onchange = () => { sphere.over = Number($('map').value); draw(); };
  $('lines').onchange = () => { sphere.showLines = $('lines').checked; draw(); };
  $('mask').onchange = () => { sphere.showMask = $('mask').checked; draw(); };
  $('neutral').onclick = () => { for (const [key] of about.settings) $(`look-${key}`).value = 0; command(); showNumbers(); renew(); };
}

function settings() {
  for (const [key, most] of about.settings) {
    const label = document.createElement('label'), slider = document.createElement('input');
    label.htmlFor = slider.id = `look-${key}`;
    label.textContent = key[0].toUpperCase() + key.slice(1);
    Object.assign(slider, { type: 'range', min: -most, max: most, step: most > 10 ? 1 : 0.05, value: about.look[key] || 0 });
    slider.oninput = () => { command(); showNumbers(); renew(); };
    const slide = document.createElement('span'), number = document.createElement('output');
    slide.className = 'slide'; slide.append(slider, number);
    $('settings').append(label, slide);
  }
}

async function start() {
  await enter();
  about = await (await ask('/api/preview')).json();
  document.title = `${about.title}: preview`;
  $('title').textContent = about.title;
  sphere = new Sphere($('view'));
  sphere.part = about.part;
  sphere.setPanorama(await bitmap(await ask('/api/panorama')));
  if (about.mask) sphere.setMask(await bitmap(await ask('/api/mask')));
  $('mask').hidden = $('mask-label').hidden = !about.mask;
  views = about.views;
  $('layout').append(new Option('as given', ''), ...about.layouts.map(({ name, views: { length } }, i) => new Option(`${name}: ${length} views`, String(i))));
  settings(); listen(); show(0);
  await renew();
}

// An address that is opened in this tab changes the fragment alone.
addEventListener('hashchange', () => location.reload());
start().catch((error) => tell(error.message));
