// A panorama on a sphere, with colours, masks, coverage and view outlines.

const VERTEX = `#version 300 es
void main() { gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0); }`;

const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler3D;
const float PI = 3.14159265358979;
uniform vec2 size;
uniform mat3 turn;        // panorama from camera
uniform float tangent;    // of half the horizontal field of view; 0: the whole panorama, flat
uniform vec4 part;        // covered area of the sphere: left, top, width, height
uniform float lod;
uniform int count, chosen, over;
uniform bool hasMask, hasLines;
uniform sampler2D panorama, mask, counts, views;
uniform sampler3D table;
out vec4 colour;
vec3 ramp(float n) { return 0.5 + 0.5 * cos(2.4 * n + vec3(0.0, 2.1, 4.2)); }
void main() {
  vec2 p = vec2(2.0 * gl_FragCoord.x - size.x, size.y - 2.0 * gl_FragCoord.y) / size.x;
  vec2 at; vec3 d; float pixel;
  if (tangent > 0.0) {
    d = normalize(turn * vec3(p * tangent, 1.0));
    at = vec2(0.5 + atan(d.x, d.z) / (2.0 * PI), 0.5 + asin(clamp(d.y, -1.0, 1.0)) / PI);
    pixel = 2.0 * tangent / size.x;
  } else {
    // As large as fits.
    float scale = max(1.0, 0.5 * size.x / size.y);
    at = vec2(0.5 + 0.5 * p.x * scale, 0.5 + p.y * scale);
    if (abs(at.x - 0.5) > 0.5 || abs(at.y - 0.5) > 0.5) { colour = vec4(0.04, 0.05, 0.06, 1.0); return; }
    float lon = (at.x - 0.5) * 2.0 * PI, lat = (at.y - 0.5) * PI;
    d = vec3(cos(lat) * sin(lon), sin(lat), cos(lat) * cos(lon));
    pixel = 2.0 * PI * scale / size.x;
  }
  vec2 inside = (at - part.xy) / part.zw;
  vec3 c = vec3(0.0);
  if (all(greaterThanEqual(inside, vec2(0.0))) && all(lessThanEqual(inside, vec2(1.0)))) {
    c = textureLod(panorama, inside, lod).rgb;
    float side = float(textureSize(table, 0).x);
    c = texture(table, c * ((side - 1.0) / side) + 0.5 / side).rgb;
    if (hasMask && textureLod(mask, inside, 0.0).r < 0.5) c = mix(c, vec3(1.0, 0.1, 0.1), 0.55);
  }
  float n = floor(textureLod(counts, at, 0.0).r * 255.0 + 0.5);
  if (over == 1 && n == 0.0) c *= 0.25;
  if (over == 2) c = n == 0.0 ? c * 0.25 : mix(c, ramp(n), 0.4);
  if (hasLines) {
    for (int i = 0; i < count; i++) {
      vec4 x = texelFetch(views, ivec2(0, i), 0), y = texelFetch(views, ivec2(1, i), 0), z = texelFetch(views, ivec2(2, i), 0);
      vec3 q = vec3(dot(x.xyz, d), dot(y.xyz, d), dot(z.xyz, d));
      if (q.z <= 0.0) continue;
      vec2 t = vec2(x.w, y.w), r = abs(q.xy / q.z);
      vec2 e = r / t;
      // Derivative of the tangent by the angle, at the edge.
      float far = min(dot(r, r), dot(t, t));
      float w = (i == chosen ? 2.2 : 1.1) * pixel * (1.0 + far) / (e.x > e.y ? t.x : t.y);
      c = mix(i == chosen ? vec3(1.0, 0.85, 0.2) : vec3(0.25, 0.85, 1.0), c, smoothstep(0.5 * w, 1.5 * w, abs(max(e.x, e.y) - 1.0)));
    }
  }
  colour = vec4(c, 1.0);
}`;

function rotation(yaw, pitch) {
  const [sy, cy] = [Math.sin(yaw), Math.cos(yaw)], [sp, cp] = [Math.sin(pitch), Math.cos(pitch)];
  // Ry(yaw) Rx(pitch), by columns.
  return [cy, 0, -sy, sy * sp, cp, cy * sp, sy * cp, -sp, cy * cp];
}

export class Sphere {
  constructor(canvas) {
    this.canvas = canvas; this.yaw = 0; this.pitch = 0; this.fov = 90; this.flat = false;
    this.over = 1; this.chosen = -1; this.count = 0; this.part = [0, 0, 1, 1]; this.hasMask = false;
    this.showMask = true; this.showLines = true; this.width = 1;
    const gl = this.gl = canvas.getContext('webgl2', { antialias: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error('This browser does not support WebGL 2. gausset pano preview without --page writes an image instead.');
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program); gl.useProgram(program);
    gl.bindVertexArray(gl.createVertexArray());
    this.at = (name) => gl.getUniformLocation(program, name);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.units = ['panorama', 'mask', 'counts', 'views', 'table'];
    this.units.forEach((name, unit) => {
      gl.uniform1i(this.at(name), unit);
      gl.activeTexture(gl.TEXTURE0 + unit);
      const kind = this.kind(name);
      gl.bindTexture(kind, gl.createTexture());
      const smooth = name === 'panorama' || name === 'table' ? gl.LINEAR : gl.NEAREST;
      gl.texParameteri(kind, gl.TEXTURE_MIN_FILTER, name === 'panorama' ? gl.LINEAR_MIPMAP_LINEAR : smooth);
      gl.texParameteri(kind, gl.TEXTURE_MAG_FILTER, smooth);
      for (const side of [gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R]) gl.texParameteri(kind, side, gl.CLAMP_TO_EDGE);
      gl.texParameteri(kind, gl.TEXTURE_WRAP_S, name === 'panorama' ? gl.REPEAT : gl.CLAMP_TO_EDGE);
    });
  }
  kind(name) { return name === 'table' ? this.gl.TEXTURE_3D : this.gl.TEXTURE_2D; }
  on(name) { this.gl.activeTexture(this.gl.TEXTURE0 + this.units.indexOf(name)); return this.gl; }
  setPanorama(image) {
    const gl = this.on('panorama');
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, image);
    gl.generateMipmap(gl.TEXTURE_2D);
    this.width = image.width;
  }
  setMask(image) {
    const gl = this.on('mask');
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, image);
    this.hasMask = true;
  }
  setCounts(bytes, [columns, rows]) {
    const gl = this.on('counts');
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8, columns, rows, 0, gl.RED, gl.UNSIGNED_BYTE, bytes);
  }
  setTable(bytes, side) {
    const gl = this.on('table');
    gl.texImage3D(gl.TEXTURE_3D, 0, gl.RGB8, side, side, side, 0, gl.RGB, gl.UNSIGNED_BYTE, bytes);
  }
  // Rotation of each view, and the tangents of half its fields of view.
  setViews(views) {
    const gl = this.on('views'), data = new Float32Array(12 * Math.max(1, views.length));
    views.forEach(({ pano_from_camera: r, tangents }, i) => {
      for (let axis = 0; axis < 3; axis++) {
        for (let k = 0; k < 3; k++) data[12 * i + 4 * axis + k] = r[k][axis];
        data[12 * i + 4 * axis + 3] = axis < 2 ? tangents[axis] : 0;
      }
    });
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, 3, Math.max(1, views.length), 0, gl.RGBA, gl.FLOAT, data);
    this.count = views.length;
  }
  draw() {
    const { gl, canvas } = this, ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(canvas.clientWidth * ratio)), Math.max(1, Math.round(canvas.clientHeight * ratio))];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    gl.viewport(0, 0, w, h);
    const tangent = this.flat ? 0 : Math.tan(this.fov * Math.PI / 360);
    // Texels of the panorama per pixel at the centre.
    const texels = this.width / this.part[2] / w * (this.flat ? Math.max(1, w / h / 2) : tangent / Math.PI);
    gl.uniform2f(this.at('size'), w, h);
    gl.uniformMatrix3fv(this.at('turn'), false, rotation(this.yaw * Math.PI / 180, this.pitch * Math.PI / 180));
    gl.uniform1f(this.at('tangent'), tangent);
    gl.uniform4fv(this.at('part'), this.part);
    gl.uniform1f(this.at('lod'), Math.max(0, Math.log2(texels)));
    gl.uniform1i(this.at('count'), this.count);
    gl.uniform1i(this.at('chosen'), this.chosen);
    gl.uniform1i(this.at('over'), this.over);
    gl.uniform1i(this.at('hasMask'), this.hasMask && this.showMask ? 1 : 0);
    gl.uniform1i(this.at('hasLines'), this.showLines ? 1 : 0);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
}
