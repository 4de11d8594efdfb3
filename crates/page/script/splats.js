// Renders splats on the GPU of the browser: a compressed PLY is uploaded to textures unchanged, a worker sorts, WebGL 2
// draws a quad per splat. Formulas and constants are those of `gausset render` (crates/reference: project, blend, sh).

const WIDTH = 2048; // of the textures; every WebGL 2 supports it
const CHUNK_TEXELS = 5; // 18 floats

// Contents of a compressed PLY, with views or copies of its parts.
export function readPly(bytes) {
  const head = new TextDecoder('latin1').decode(bytes.subarray(0, 1 << 16));
  const end = head.indexOf('end_header\n');
  if (!head.startsWith('ply\n') || end < 0) throw new Error('not a PLY file');
  const lines = head.slice(0, end).split('\n');
  const count = (name) => Number((lines.find((line) => line.startsWith(`element ${name} `)) || '0').split(' ').pop());
  const comment = (start) => (lines.find((line) => line.toLowerCase().startsWith(`comment ${start}`)) || ':').split(':')[1].trim();
  const [chunks, splats, rows] = ['chunk', 'vertex', 'sh'].map(count);
  const bands = lines.filter((line) => line.startsWith('property uchar f_rest_')).length;
  let at = end + 11;
  const take = (length) => { at += length; return bytes.slice(at - length, at); };
  if (bytes.length < at + 72 * chunks + 16 * splats + bands * rows) throw new Error('the PLY file is truncated');
  return {
    splats, bands: rows ? bands : 0, degree: rows ? { 9: 1, 24: 2, 45: 3 }[bands] || 0 : 0,
    chunks: new Float32Array(take(72 * chunks).buffer), packed: new Uint32Array(take(16 * splats).buffer), rest: take(bands * rows),
    antialiased: comment('splatrendermode') === 'mip',
    up: comment('vertical axis') ? comment('vertical axis').split(/\s+/).map(Number) : null,
  };
}

// The worker, as a self-contained function: depth order, and queries about all splats.
export function sorter() {
  let means, alphas, keys, counts = new Uint32Array(1 << 18);
  const floats = new Float32Array(1), bits = new Uint32Array(floats.buffer);
  const depthAt = ([a, b, c, d], i) => a * means[3 * i] + b * means[3 * i + 1] + c * means[3 * i + 2] + d;
  // Positions and opacities, unpacked as in the shader.
  function load({ chunks, packed }) {
    const count = packed.length / 4;
    means = new Float32Array(3 * count); alphas = new Uint8Array(count); keys = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const word = packed[4 * i], base = 18 * (i >> 8);
      const share = [(word >>> 21) / 2047, (word >>> 11 & 1023) / 1023, (word & 2047) / 2047];
      for (let k = 0; k < 3; k++) means[3 * i + k] = chunks[base + k] * (1 - share[k]) + chunks[base + 3 + k] * share[k];
      alphas[i] = packed[4 * i + 3] & 255;
    }
    return around();
  }
  // Centre and radius of the scene: medians over splats that are not faint.
  function around() {
    let seen = [];
    const every = Math.max(1, Math.floor(alphas.length / 200000));
    for (let i = 0; i < alphas.length; i += every) if (alphas[i] > 25) seen.push(i);
    if (!seen.length) seen = Array.from(alphas.keys()).slice(0, 200000);
    const median = (values) => (values.length ? values.sort((a, b) => a - b)[values.length >> 1] : 0);
    const centre = [0, 1, 2].map((k) => median(seen.map((i) => means[3 * i + k])));
    const radius = median(seen.map((i) => Math.hypot(...centre.map((c, k) => means[3 * i + k] - c))));
    return { centre, radius: radius > 0 ? radius : 1 };
  }
  // Sorts far to near. Depths are positive, so the bits of a float sort as it does, and the buckets are finest near the
  // camera.
  function sort(row, near, order) {
    let count = 0, low = 0xffffffff, high = 0;
    for (let i = 0; i < keys.length; i++) {
      const depth = depthAt(row, i);
      if (!(depth > near)) { keys[i] = 0; continue; }
      floats[0] = depth;
      const key = bits[0];
      keys[i] = key; count++;
      if (key < low) low = key;
      if (key > high) high = key;
    }
    const shift = Math.max(0, 32 - Math.clz32(Math.max(0, high - low)) - 18);
    counts.fill(0);
    for (let i = 0; i < keys.length; i++) if (keys[i]) counts[(keys[i] - low) >>> shift]++;
    let sum = 0;
    for (let b = counts.length - 1; b >= 0; b--) { const here = counts[b]; counts[b] = sum; sum += here; }
    if (!order || order.length !== keys.length) order = new Uint32Array(keys.length);
    for (let i = 0; i < keys.length; i++) if (keys[i]) order[counts[(keys[i] - low) >>> shift]++] = i;
    return { order, count };
  }
  // Depth at a position of the image: where the opacities of centres near its ray add up to one.
  function probe({ pose, ray, reach }) {
    const rows = [0, 4, 8].map((k) => pose.slice(k, k + 4)), hits = [];
    for (let i = 0; i < alphas.length; i++) {
      const [x, y, z] = rows.map((row) => depthAt(row, i));
      if (z > 0.01 && Math.hypot(x / z - ray[0], y / z - ray[1]) < reach) hits.push([z, alphas[i] / 255]);
    }
    hits.sort((a, b) => a[0] - b[0]);
    let sum = 0;
    for (const [z, alpha] of hits) if ((sum += alpha) >= 1) return z;
    return hits.length ? hits[hits.length >> 1][0] : 0;
  }
  onmessage = ({ data }) => {
    if (data.load) postMessage({ loaded: load(data.load) });
    else if (data.probe) postMessage({ depth: probe(data.probe) });
    else { const sorted = sort(data.row, data.near, data.order); postMessage({ sorted, id: data.id, loads: data.loads }, [sorted.order.buffer]); }
  };
}

const VERTEX = `#version 300 es
precision highp float;
precision highp int;
precision highp sampler2D;
precision highp usampler2D;
uniform usampler2D words, rest;
uniform sampler2D chunks;
uniform mat3 turn;
uniform vec3 move, origin;
uniform vec4 lens, bounds;
uniform vec2 size;
uniform float near;
uniform int degree, bands;
uniform bool antialiased;
layout(location = 0) in uint splat;
out vec4 colour;
out vec2 at;
uvec4 texel(usampler2D t, uint i) { return texelFetch(t, ivec2(i & 2047u, i >> 11), 0); }
vec3 unpacked(uint w, vec3 low, vec3 high) {
  vec3 t = vec3(w >> 21, w >> 11 & 1023u, w & 2047u) / vec3(2047., 1023., 2047.);
  return low * (1. - t) + high * t;
}
vec4 chunk[${CHUNK_TEXELS}];
vec3 three(int k) { return vec3(chunk[k / 4][k % 4], chunk[(k + 1) / 4][(k + 1) % 4], chunk[(k + 2) / 4][(k + 2) % 4]); }
uvec4 bytes[3];
float value(int k) {
  uint b = bytes[k / 16][k / 4 % 4] >> (8 * (k % 4)) & 255u;
  return b == 0u ? -4. : b == 255u ? 4. : ((float(b) + .5) / 256. - .5) * 8.;
}
vec3 sh(int k) { int n = bands / 3; return vec3(value(k), value(n + k), value(2 * n + k)); }
vec3 harmonics(vec3 d) {
  float x = d.x, y = d.y, z = d.z, xx = x * x, yy = y * y, zz = z * z;
  vec3 sum = .4886025119029199 * (-y * sh(0) + z * sh(1) - x * sh(2));
  if (degree > 1) {
    sum += 1.0925484305920792 * (x * y * sh(3) - y * z * sh(4) - x * z * sh(6));
    sum += .31539156525252005 * (3. * zz - 1.) * sh(5) + .5462742152960396 * (xx - yy) * sh(7);
  }
  if (degree > 2) {
    sum += -.5900435899266435 * (y * (3. * xx - yy) * sh(8) + x * (xx - 3. * yy) * sh(14));
    sum += -.4570457994644658 * (5. * zz - 1.) * (y * sh(10) + x * sh(12));
    sum += 2.890611442640554 * x * y * z * sh(9) + .3731763325901154 * z * (5. * zz - 3.) * sh(11) + 1.445305721320277 * z * (xx - yy) * sh(13);
  }
  return sum;
}
void main() {
  gl_Position = vec4(2., 2., 2., 1.);
  uvec4 word = texel(words, splat);
  float opacity = float(word.w & 255u) / 255.;
  for (uint k = 0u; k < ${CHUNK_TEXELS}u; k++) {
    uint i = (splat >> 8) * ${CHUNK_TEXELS}u + k;
    chunk[k] = texelFetch(chunks, ivec2(i & 2047u, i >> 11), 0);
  }
  vec3 mean = unpacked(word.x, three(0), three(3));
  vec3 p = turn * mean + move;
  if (!(p.z > near)) return;
  // Rotation: the three smaller components of w, x, y, z.
  vec3 s = (vec3(word.y >> 20 & 1023u, word.y >> 10 & 1023u, word.y & 1023u) / 1023. - .5) * 1.4142135623730951;
  float l = sqrt(max(0., 1. - dot(s, s)));
  uint largest = word.y >> 30;
  vec4 q = normalize(largest == 0u ? vec4(l, s) : largest == 1u ? vec4(s.x, l, s.yz) : largest == 2u ? vec4(s.xy, l, s.z) : vec4(s, l));
  vec3 e = exp(unpacked(word.z, three(6), three(9)));
  float w = q.x, x = q.y, y = q.z, z = q.w;
  mat3 root = mat3(
    e.x * vec3(1. - 2. * (y * y + z * z), 2. * (x * y + w * z), 2. * (x * z - w * y)),
    e.y * vec3(2. * (x * y - w * z), 1. - 2. * (x * x + z * z), 2. * (y * z + w * x)),
    e.z * vec3(2. * (x * z + w * y), 2. * (y * z - w * x), 1. - 2. * (x * x + y * y)));
  // 2D covariance: rows v of J turn root; its determinant is |v0 x v1|^2, which does not cancel.
  vec2 t = clamp(p.xy / p.z, bounds.xy, bounds.zw);
  vec2 f = lens.xy / p.z;
  vec3 v0 = (vec3(f.x, 0., -f.x * t.x) * turn) * root, v1 = (vec3(0., f.y, -f.y * t.y) * turn) * root;
  vec3 n = cross(v0, v1);
  float a = dot(v0, v0), b = dot(v0, v1), c = dot(v1, v1), plain = dot(n, n);
  float det = plain + .3 * (a + c) + .09;
  a += .3; c += .3;
  if (antialiased) opacity *= sqrt(plain / det);
  if (opacity < 1. / 255.) return;
  float r = length(vec2(.5 * (a - c), b)), l1 = .5 * (a + c) + r, l2 = det / l1;
  vec2 axis = a > c ? vec2(l1 - c, b) : vec2(b, l1 - a);
  axis = r > 0. ? normalize(axis) : vec2(1., 0.);
  // The quad extends to where alpha falls to 1/255.
  at = (vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2. - 1.) * sqrt(2. * log(255. * opacity));
  vec2 place = lens.xy * (p.xy / p.z) + lens.zw + at.x * sqrt(l1) * axis + at.y * sqrt(l2) * vec2(-axis.y, axis.x);
  gl_Position = vec4(2. * place.x / size.x - 1., 1. - 2. * place.y / size.y, 0., 1.);
  uvec3 base = uvec3(word.w >> 24, word.w >> 16 & 255u, word.w >> 8 & 255u);
  vec3 share = vec3(base) / 255.;
  vec3 rgb = three(12) * (1. - share) + three(15) * share;
  if (degree > 0) {
    int texels = (bands + 15) / 16;
    for (int k = 0; k < texels; k++) bytes[k] = texel(rest, splat * uint(texels) + uint(k));
    rgb += harmonics(normalize(mean - origin));
  }
  colour = vec4(max(rgb, 0.), opacity);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 colour;
in vec2 at;
out vec4 result;
void main() {
  float alpha = min(.99, colour.a * exp(-.5 * dot(at, at)));
  if (alpha < 1. / 255.) discard;
  result = vec4(colour.rgb * alpha, alpha);
}`;

// Draws the blended splats over the background.
const SHOW_VERTEX = `#version 300 es
void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4. - 1., 0., 1.); }`;
const SHOW_FRAGMENT = `#version 300 es
precision highp float;
uniform highp sampler2D blended;
uniform vec3 background;
out vec4 result;
void main() {
  vec4 c = texelFetch(blended, ivec2(gl_FragCoord.xy), 0);
  result = vec4(clamp(c.rgb + (1. - c.a) * background, 0., 1.), 1.);
}`;

// A worker from the text of `sorter`, for pages whose content policy allows blobs.
function ownWorker() {
  const source = URL.createObjectURL(new Blob([`(${sorter})()`], { type: 'text/javascript' }));
  const worker = new Worker(source);
  URL.revokeObjectURL(source);
  return worker;
}
// Name of the renderer of a context, and whether it is a software renderer.
export function drawer(gl) {
  const facts = gl.getExtension('WEBGL_debug_renderer_info');
  const name = String(gl.getParameter(facts ? facts.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  return { name, isSoftware: /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name) };
}

export class SplatView {
  // `changed` is called when a new image can be drawn: after a sort, or when a lost context is restored. The worker
  // runs `sorter`.
  constructor(canvas, changed, worker = ownWorker()) {
    this.canvas = canvas; this.changed = changed; this.sortedFor = ''; this.sorting = ''; this.wanted = null; this.count = 0;
    // The file that is drawn, the one that will be once it is sorted, and counters of loaded files.
    this.ply = null; this.next = null; this.loads = 0; this.drawnLoad = 0;
    const gl = canvas.getContext('webgl2', { alpha: false, antialias: false, depth: false, stencil: false, powerPreference: 'high-performance' });
    if (!gl) throw new Error('no WebGL 2');
    this.gl = gl;
    canvas.addEventListener('webglcontextlost', (e) => { e.preventDefault(); this.lost = true; });
    canvas.addEventListener('webglcontextrestored', () => { this.lost = false; this.prepare(); this.upload(); this.sortedFor = ''; this.sort(); this.changed(); });
    this.prepare();
    this.worker = worker;
    this.worker.onmessage = ({ data }) => this.heard(data);
  }
  get isSoftware() { return drawer(this.gl).isSoftware; }

  program(vertex, fragment) {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`the GPU driver rejects a shader: ${gl.getProgramInfoLog(program)} ${gl.getAttachedShaders(program).map((s) => gl.getShaderInfoLog(s)).join(' ')}`);
    }
    const places = {};
    for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
      const { name } = gl.getActiveUniform(program, i);
      places[name] = gl.getUniformLocation(program, name);
    }
    return { program, places };
  }
  prepare() {
    const { gl } = this;
    // Sums of many faint splats need more than 8 bits.
    this.fine = Boolean(gl.getExtension('EXT_color_buffer_half_float') || gl.getExtension('EXT_color_buffer_float'));
    this.splatProgram = this.program(VERTEX, FRAGMENT);
    this.showProgram = this.program(SHOW_VERTEX, SHOW_FRAGMENT);
    this.orderBuffer = gl.createBuffer();
    this.array = gl.createVertexArray();
    gl.bindVertexArray(this.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.orderBuffer);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribIPointer(0, 1, gl.UNSIGNED_INT, 0, 0);
    gl.vertexAttribDivisor(0, 1);
    gl.bindVertexArray(null);
    this.none = gl.createVertexArray();
    this.target = gl.createTexture(); this.frame = gl.createFramebuffer(); this.targetSize = [0, 0];
    this.textures = [];
  }
  texture(unit, internal, format, type, data, perTexel) {
    const { gl } = this, texels = Math.ceil(data.length / perTexel), rows = Math.max(1, Math.ceil(texels / WIDTH));
    if (rows > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Error('too many splats for this GPU');
    const whole = new data.constructor(rows * WIDTH * perTexel);
    whole.set(data);
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
    gl.texImage2D(gl.TEXTURE_2D, 0, internal, WIDTH, rows, 0, format, type, whole);
    return texture;
  }
  upload() {
    const { gl, ply } = this;
    if (!ply) return;
    this.textures.forEach((texture) => gl.deleteTexture(texture));
    const chunks = new Float32Array(4 * CHUNK_TEXELS * ply.chunks.length / 18);
    for (let i = 0; i < ply.chunks.length / 18; i++) chunks.set(ply.chunks.subarray(18 * i, 18 * i + 18), 4 * CHUNK_TEXELS * i);
    this.textures = [
      this.texture(0, gl.RGBA32UI, gl.RGBA_INTEGER, gl.UNSIGNED_INT, ply.packed, 4),
      this.texture(1, gl.RGBA32F, gl.RGBA, gl.FLOAT, chunks, 4),
    ];
    // Rows of 16, 32 or 48 bytes.
    const row = 16 * Math.ceil(ply.bands / 16), rest = new Uint8Array(row * ply.splats);
    for (let i = 0; ply.bands && i < ply.splats; i++) rest.set(ply.rest.subarray(ply.bands * i, ply.bands * (i + 1)), row * i);
    this.textures.push(this.texture(2, gl.RGBA32UI, gl.RGBA_INTEGER, gl.UNSIGNED_INT, new Uint32Array(rest.buffer), 4));
  }
  // Loads a compressed PLY. Resolves to centre and radius of the scene and properties of the file. The old splats are
  // drawn until the new ones are sorted.
  load(bytes) {
    const next = readPly(bytes), { chunks, packed, splats, degree, up, bands } = next;
    if (Math.ceil(splats * Math.max(1, Math.ceil(bands / 16)) / WIDTH) > this.gl.getParameter(this.gl.MAX_TEXTURE_SIZE)) throw new Error('too many splats for this GPU');
    this.next = next; this.loads += 1;
    this.worker.postMessage({ load: { chunks, packed } });
    this.sort();
    return new Promise((resolve) => { this.loaded = (around) => resolve({ ...around, splats, degree, up }); });
  }
  // Depth at a position of the image, 0..1 across and down; 0 if there is nothing.
  probe({ camera: [width, height, fx, fy, cx, cy], pose }, [u, v]) {
    const ray = [(u * width - cx) / fx, (v * height - cy) / fy];
    this.worker.postMessage({ probe: { pose, ray, reach: 0.015 * height / fy } });
    return new Promise((resolve) => { this.probed = resolve; });
  }
  heard(data) {
    if (data.loaded) this.loaded(data.loaded);
    else if (data.sorted) {
      const { gl } = this, { order, count } = data.sorted;
      this.sorting = ''; this.spare = order;
      if (data.loads === this.loads && this.next) {
        this.ply = this.next; this.next = null; this.drawnLoad = data.loads;
        this.upload();
      }
      if (data.loads === this.drawnLoad) {
        gl.bindBuffer(gl.ARRAY_BUFFER, this.orderBuffer);
        gl.bufferData(gl.ARRAY_BUFFER, order.subarray(0, count), gl.DYNAMIC_DRAW);
        this.count = count; this.sortedFor = data.id;
      }
      this.sort();
      this.changed();
    } else this.probed(data.depth);
  }
  sort() {
    if (this.sorting || !this.wanted || !this.loads) return;
    const { row, near } = this.wanted, { loads } = this, id = `${row} ${near} ${loads}`;
    if (id === this.sortedFor) return;
    const order = this.spare;
    this.spare = null; this.sorting = id;
    this.worker.postMessage({ row, near, id, loads, order }, order ? [order.buffer] : []);
  }
  resize([width, height]) {
    const { gl } = this;
    if (this.targetSize[0] === width && this.targetSize[1] === height) return;
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, this.target);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
    gl.texImage2D(gl.TEXTURE_2D, 0, this.fine ? gl.RGBA16F : gl.RGBA8, width, height, 0, gl.RGBA, this.fine ? gl.HALF_FLOAT : gl.UNSIGNED_BYTE, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.target, 0);
    this.targetSize = [width, height];
  }
  // Draws a view of the size of the canvas: `camera` is width, height, focal lengths and principal point in px, `pose`
  // the rows of camera_from_world. Returns whether the splats were sorted for this view.
  draw({ camera: [width, height, fx, fy, cx, cy], pose, background = [0, 0, 0], near = 0.01, degree = 3 }) {
    const { gl, ply } = this;
    const row = pose.slice(8, 12);
    this.wanted = { row, near };
    this.sort();
    if (this.lost || !ply) return false;
    this.resize([width, height]);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.frame);
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    let { program, places } = this.splatProgram;
    gl.useProgram(program);
    const turn = [0, 4, 8].flatMap((k) => pose.slice(k, k + 3)), move = [pose[3], pose[7], pose[11]];
    gl.uniformMatrix3fv(places.turn, true, turn);
    gl.uniform3fv(places.move, move);
    gl.uniform3fv(places.origin, [0, 1, 2].map((k) => -(turn[k] * move[0] + turn[3 + k] * move[1] + turn[6 + k] * move[2])));
    gl.uniform4f(places.lens, fx, fy, cx, cy);
    const mx = 0.15 * width / fx, my = 0.15 * height / fy;
    gl.uniform4f(places.bounds, -(cx / fx + mx), -(cy / fy + my), (width - cx) / fx + mx, (height - cy) / fy + my);
    gl.uniform2f(places.size, width, height);
    gl.uniform1f(places.near, near);
    gl.uniform1i(places.degree, Math.min(degree, ply.degree)); gl.uniform1i(places.bands, ply.bands);
    gl.uniform1i(places.antialiased, ply.antialiased);
    ['words', 'chunks', 'rest'].forEach((name, k) => {
      gl.uniform1i(places[name], k);
      gl.activeTexture(gl.TEXTURE0 + k); gl.bindTexture(gl.TEXTURE_2D, this.textures[k]);
    });
    gl.bindVertexArray(this.array);
    if (this.count) gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.count);
    gl.disable(gl.BLEND);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, width, height);
    ({ program, places } = this.showProgram);
    gl.useProgram(program);
    gl.uniform3fv(places.background, background);
    gl.uniform1i(places.blended, 3);
    gl.activeTexture(gl.TEXTURE3); gl.bindTexture(gl.TEXTURE_2D, this.target);
    gl.bindVertexArray(this.none);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.bindVertexArray(null);
    return this.sortedFor === `${row} ${near} ${this.loads}`;
  }
  // Releases GPU memory and the worker.
  end() {
    this.worker.terminate();
    const lose = this.gl.getExtension('WEBGL_lose_context');
    this.lost = true; this.ply = null;
    if (lose) lose.loseContext();
  }
}
