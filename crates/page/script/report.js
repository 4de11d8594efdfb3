// The splats in a report: unpacked when somebody wants to see them.

import { unpack } from './sevens.js';

const button = document.getElementById('show-splats');
button.addEventListener('click', async () => {
  button.disabled = true;
  const page = new TextDecoder().decode(await unpack(document.getElementById('splats-page')));
  const frame = document.createElement('iframe');
  frame.title = 'The splats';
  frame.srcdoc = page;
  button.replaceWith(frame);
});
