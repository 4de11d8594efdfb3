// The connection: hello, frames, events, and reconnection when it is lost.

const VERSION = 1;
const HEAD = 44;

export class Link {
  constructor(handlers) {
    this.handlers = handlers; this.socket = null; this.ready = false; this.wait = 500; this.sentAt = []; this.queue = [];
    const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
    if (found) {
      sessionStorage.setItem('gausset-token', found[1]);
      // Removed from the address bar, so that it is not in screenshots.
      history.replaceState(null, '', location.pathname);
    }
    // An address that is opened in this tab changes the fragment alone.
    addEventListener('hashchange', () => location.reload());
    this.connect();
  }
  connect() {
    const token = sessionStorage.getItem('gausset-token') || '';
    if (!token) {
      this.handlers.lost('This page has no token. Open the full address that the program printed, including the part after #.', false);
      return;
    }
    const socket = new WebSocket(`ws://${location.host}/ws`);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => socket.send(JSON.stringify({ t: 'hello', version: VERSION, token }));
    socket.onmessage = (message) => this.take(message.data);
    socket.onclose = (event) => {
      this.ready = false; this.queue = [];
      if (event.code === 1008 && event.reason === 'token') {
        this.handlers.lost('Access denied: the token is not valid for this program. Open the address that the program printed.', false);
        return;
      }
      const why = event.reason === 'too many pages' ? 'Too many pages are connected to this program. ' : '';
      this.handlers.lost(`${why}The connection to the program is lost. Reconnecting; if the program has ended, start it again.`, true);
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(5000, this.wait * 1.6);
    };
    this.socket = socket;
  }
  // Credentials for requests outside the socket.
  bearer() { return { Authorization: `Bearer ${sessionStorage.getItem('gausset-token') || ''}` }; }
  take(data) {
    if (typeof data !== 'string') {
      const head = new DataView(data);
      const float = (at) => head.getFloat32(at, true);
      this.handlers.frame({
        kind: head.getUint8(0), flags: head.getUint16(2, true), id: head.getUint32(4, true),
        width: head.getUint16(8, true), height: head.getUint16(10, true), png: head.getUint8(12) === 2,
        drawMs: float(16), encodeMs: float(20), waitedMs: float(24), range: [float(28), float(32)],
        step: Number(head.getBigUint64(36, true)), bytes: new Uint8Array(data, HEAD),
      });
      return;
    }
    const message = JSON.parse(data);
    if (message.t === 'hello') {
      if (message.token) sessionStorage.setItem('gausset-token', message.token);
      sessionStorage.removeItem('gausset-reloaded');
      this.ready = true; this.wait = 500;
    } else if (message.t === 'version') {
      // Reload once: the program is newer than this page.
      if (!sessionStorage.getItem('gausset-reloaded')) {
        sessionStorage.setItem('gausset-reloaded', '1');
        location.reload();
      }
      this.handlers.lost('This page belongs to another version of the program. Reload it.', false);
    }
    this.handlers.message(message);
  }
  // Returns whether it is sent: now, or in its turn. The program disconnects a page that sends more than 100 messages a
  // second.
  send(message, droppable = false) {
    if (!this.ready || (droppable && this.recent() > 75)) return false;
    this.queue.push(JSON.stringify(message));
    this.flush();
    return true;
  }
  // Number of messages that were sent in the last second.
  recent() {
    const now = performance.now();
    this.sentAt = this.sentAt.filter((at) => now - at < 1000);
    return this.sentAt.length;
  }
  flush() {
    while (this.queue.length && this.recent() <= 95) {
      this.sentAt.push(performance.now());
      this.socket.send(this.queue.shift());
    }
    clearTimeout(this.later);
    if (this.queue.length) this.later = setTimeout(() => this.flush(), 50);
  }
}
