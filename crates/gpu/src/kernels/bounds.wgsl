// The bounding box of the means of all rows, by the ranks of their coordinates.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> geometry: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> census: array<atomic<u32>>;

var<workgroup> corners: array<atomic<u32>, 6>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let row = group_index(group) * 256u + thread;
    if (thread < 6u) { atomicStore(&corners[thread], select(0u, 0xffffffffu, thread < 3u)); }
    workgroupBarrier();
    if (row < job.visible) {
        let mean = geometry[row].xyz;
        if (are_finite_bits(vec4<u32>(mean, 0u))) {
            for (var axis = 0u; axis < 3u; axis++) {
                atomicMin(&corners[axis], rank_of(mean[axis]));
                atomicMax(&corners[3u + axis], rank_of(mean[axis]));
            }
        }
    }
    workgroupBarrier();
    if (thread < 3u) { atomicMin(&census[CENSUS_BOX + thread], atomicLoad(&corners[thread])); }
    if (thread >= 3u && thread < 6u) { atomicMax(&census[CENSUS_BOX + thread], atomicLoad(&corners[thread])); }
}
