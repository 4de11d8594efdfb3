// Cuts the list of a tile after its `cap`-th splat that reaches alpha 1/255 at some pixel of the tile inside the image.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> ranges: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
@group(0) @binding(3) var<storage, read> entry_splats: array<u32>;
@group(0) @binding(4) var<storage, read> screen: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> status: array<atomic<u32>>;

var<workgroup> a: array<vec4<f32>, 256>;
var<workgroup> b: array<vec4<f32>, 256>;
// A bit for each entry of the batch that reaches a pixel.
var<workgroup> draws: array<atomic<u32>, 8>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = tile_of(group);
    let list = list_of(tile, thread, 1u);
    let lo = list.x;
    let hi = list.y;
    let centre = pixel_centre(tile, job.tiles_x, thread);
    let inside = centre.x < f32(job.width) && centre.y < f32(job.height);
    var drawing = 0u;
    var cut = hi;
    var is_cut = false;
    for (var first = lo; first < hi; first += 256u) {
        let n = min(256u, hi - first);
        if (thread < n) {
            let splat = entry_splats[entries[first + thread]];
            a[thread] = screen[splat];
            b[thread] = screen[job.drawn_capacity + splat];
        }
        if (thread < 8u) { atomicStore(&draws[thread], 0u); }
        workgroupBarrier();
        if (inside) {
            for (var k = 0u; k < n; k++) {
                if (exponent_at(a[k], b[k], centre - a[k].xy) >= -LOG2_255) { atomicOr(&draws[k / 32u], 1u << (k % 32u)); }
            }
        }
        workgroupBarrier();
        if (thread == 0u) {
            for (var k = 0u; k < n; k++) {
                if ((atomicLoad(&draws[k / 32u]) & (1u << (k % 32u))) != 0u) {
                    drawing += 1u;
                    if (drawing == job.cap) { cut = first + k + 1u; }
                    if (drawing > job.cap) { is_cut = true; }
                }
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u && is_cut) {
        ranges[4u * tile + 2u] = cut;
        atomicAdd(&status[STATUS_CUT_TILES], 1u);
    }
}
