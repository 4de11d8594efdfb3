// Unpacks data of a page: zlib, in characters of 7 bits each; NUL, CR and < are written as À, Í and ü.

function bytesOf(text, length) {
  const bytes = new Uint8Array(length);
  let at = 0, bits = 0, held = 0;
  for (let i = 0; i < text.length && at < length; i++) {
    const code = text.charCodeAt(i);
    held = held << 7 | (code > 127 ? code & 63 : code); bits += 7;
    if (bits >= 8) { bits -= 8; bytes[at++] = held >> bits; held &= (1 << bits) - 1; }
  }
  return bytes;
}
// The unpacked bytes of an element. The element is removed.
export async function unpack(element) {
  const packed = bytesOf(element.textContent, Number(element.dataset.bytes));
  element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
