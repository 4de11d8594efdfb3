// Thumbnails in the list of cameras: loaded when they become visible, two at a time.

export class Thumbs {
  constructor(list, link) {
    this.link = link; this.urls = new Map(); this.queue = []; this.under_way = 0;
    this.sight = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) this.queue.unshift(target);
      this.next();
    }, { root: list, rootMargin: '80px' });
  }
  // Another scene has other photographs.
  reset() { this.urls.forEach((url) => URL.revokeObjectURL(url)); this.urls.clear(); this.queue = []; }
  // The rows were created again.
  begin() { this.sight.disconnect(); this.queue = []; }
  // The element for the thumbnail of a camera.
  image(camera) {
    const image = document.createElement('img');
    image.alt = ''; image.width = 48; image.height = 32; image.dataset.camera = camera;
    const known = this.urls.get(camera);
    if (known) image.src = known; else this.sight.observe(image);
    return image;
  }
  next() {
    while (this.under_way < 2 && this.queue.length) {
      const image = this.queue.shift(), camera = Number(image.dataset.camera);
      this.sight.unobserve(image);
      if (!image.isConnected || image.src) continue;
      this.under_way += 1;
      this.fetch(camera).then((url) => { if (url) image.src = url; }).finally(() => { this.under_way -= 1; this.next(); });
    }
  }
  async fetch(camera) {
    if (this.urls.has(camera)) return this.urls.get(camera);
    // If loading fails, the place stays empty.
    const answer = await fetch(`/thumb/${camera}`, { headers: this.link.bearer() }).catch(() => null);
    if (!answer?.ok) return '';
    const url = URL.createObjectURL(await answer.blob());
    this.urls.set(camera, url);
    return url;
  }
}
