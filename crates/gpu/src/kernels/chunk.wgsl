// The part of a tile's list that one dispatch walks over, if long lists are walked in several.

fn is_last_chunk() -> bool {
    return job.chunk + 1u >= job.chunks;
}

/// First entry of the chunk and one past its last, for a list from `lo` to `hi`. The last chunk has all remaining
/// entries.
fn chunk_of(lo: u32, hi: u32) -> vec2<u32> {
    let first = min(hi, lo + job.chunk * job.chunk_entries);
    if (is_last_chunk()) { return vec2<u32>(first, hi); }
    return vec2<u32>(first, min(hi, first + job.chunk_entries));
}
