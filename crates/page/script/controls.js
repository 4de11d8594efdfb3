// Controls that pages share.

// The number beside each slider, in the unit of its `data-unit`.
export function showNumbers() {
  for (const output of document.querySelectorAll('.slide output')) {
    const input = output.previousElementSibling, step = Number(input.step) || 1;
    const text = Number(input.value).toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0) + (output.dataset.unit || '');
    if (output.value !== text) output.value = text;
  }
}
// A button that fills the screen; it is hidden where the browser does not allow it.
export function fullScreen(button) {
  button.hidden = !document.fullscreenEnabled;
  button.addEventListener('click', () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()));
}
// Copies a text, or shows it: pages of plain HTTP have no clipboard.
export function copyText(text, status, copied, rest = '') {
  const copying = navigator.clipboard?.writeText(text) ?? Promise.reject();
  copying.then(() => status(copied + rest), () => status(text + rest));
}
