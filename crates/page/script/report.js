// Unpacks the splats of a report when the user presses the button.

import { unpack } from './sevens.js';

const button = document.getElementById('show-splats');
button.addEventListener('click', async () => {
  button.disabled = true;
  const page = new TextDecoder().decode(await unpack(document.getElementById('splats-page')));
  const frame = document.createElement('iframe');
  frame.title = 'Splat viewer';
  frame.allowFullscreen = true;
  frame.srcdoc = page;
  button.replaceWith(frame);
});
