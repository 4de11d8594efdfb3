//! Scan and sort compared with the host, at sizes around those of their blocks.

use gausset_core::engine::EngineError;

use crate::device::{DeviceMemory, Gpu};
use crate::layout::{Buffer, Capacities, splat_capacity};
use crate::record::{GRID_WIDTH, Job, Record, SCAN_BLOCK, argument};
use crate::schedule::{Dispatch, depth_sort, offset_scan};
use crate::test_device::gpu;

/// Around a round of 256, a block of 4096, and the largest sort whose counts one workgroup scans.
const LENGTHS: [usize; 10] = [0, 1, 3, 255, 257, 4095, 4096, 4097, 100_003, (1 << 20) + 7];

fn numbers(n: usize) -> Vec<u32> {
    let mut state = 0x9E37_79B9u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..n).map(|_| next()).collect()
}

/// Buffers for this many visible splats, with the arguments that the planning kernel would write.
fn memory(gpu: &Gpu, n: usize) -> Result<DeviceMemory, EngineError> {
    let mut memory = DeviceMemory::new(gpu.clone());
    memory.grow(&Capacities {
        splats: splat_capacity(n as u64),
        sh_blocks: 1,
        tiles: 1,
        ..Capacities::default()
    })?;
    let job = Job { visible: n as u32, capacity: memory.sizes().splats as u32, ..Job::default() };
    memory.write(Buffer::Job, 0, &job.words())?;
    let grid = |items: u32, per_group: u32| {
        let groups = items.div_ceil(per_group);
        [groups.min(GRID_WIDTH), groups.div_ceil(GRID_WIDTH), u32::from(groups > 0), 0]
    };
    let mut arguments = [[0; 4]; argument::COUNT as usize];
    let n = n as u32;
    arguments[argument::VISIBLE_BLOCKS as usize] = grid(n, SCAN_BLOCK);
    arguments[argument::VISIBLE_COUNTS as usize] = grid(256 * n.div_ceil(SCAN_BLOCK), SCAN_BLOCK);
    arguments[argument::ONE as usize] = [1, 1, 1, 0];
    memory.write(Buffer::Arguments, 0, arguments.as_flattened())?;
    Ok(memory)
}

fn run(memory: &mut DeviceMemory, dispatches: &[Dispatch]) -> Result<(), EngineError> {
    memory.submit_list(dispatches)?;
    memory.take_status(true).map(drop)
}

fn words(memory: &mut DeviceMemory, buffer: Buffer, n: usize) -> Result<Vec<u32>, EngineError> {
    let mut words = Vec::with_capacity(n);
    memory.read(buffer, 0, n, |_, part| words.extend_from_slice(part))?;
    Ok(words)
}

#[test]
fn a_sort_is_the_stable_one_at_any_length() {
    let Some(gpu) = gpu("a_sort_is_the_stable_one_at_any_length") else { return };
    for n in LENGTHS {
        // Few different keys in two bytes, so that there are ties; all bits in four bytes.
        for (passes, keys) in [(2, numbers(n).iter().map(|k| k % 700).collect::<Vec<u32>>()), (4, numbers(n))]
        {
            let mut memory = memory(&gpu, n).unwrap();
            let values: Vec<u32> = (0..n as u32).collect();
            memory.write(Buffer::DepthKeys0, 0, &keys).unwrap();
            memory.write(Buffer::Order0, 0, &values).unwrap();
            let (dispatches, [sorted_keys, sorted_values]) = depth_sort(passes, &memory.sizes().clone());
            run(&mut memory, &dispatches).unwrap();
            let mut expected: Vec<(u32, u32)> = keys.into_iter().zip(values).collect();
            expected.sort_by_key(|&(key, _)| key);
            let found = words(&mut memory, sorted_keys, n).unwrap();
            assert!(found.iter().copied().eq(expected.iter().map(|pair| pair.0)), "keys of {n}");
            let found = words(&mut memory, sorted_values, n).unwrap();
            assert!(found.iter().copied().eq(expected.iter().map(|pair| pair.1)), "values of {n}");
        }
    }
}

#[test]
fn a_scan_is_the_sum_of_all_before_and_does_not_wrap() {
    let Some(gpu) = gpu("a_scan_is_the_sum_of_all_before_and_does_not_wrap") else { return };
    for n in LENGTHS {
        let mut memory = memory(&gpu, n).unwrap();
        let data: Vec<u32> = numbers(n).iter().map(|v| v % 1000).collect();
        let padded: Vec<u32> = data.iter().copied().chain([0; 4]).collect();
        memory.write(Buffer::Offsets, 0, &padded).unwrap();
        run(&mut memory, &offset_scan()).unwrap();
        let mut sum = 0;
        let before = |v: &u32| {
            sum += v;
            sum - v
        };
        let expected: Vec<u32> = data.iter().map(before).collect();
        assert!(words(&mut memory, Buffer::Offsets, n).unwrap() == expected, "{n} values");
        let blocks = n.div_ceil(SCAN_BLOCK as usize);
        let total = words(&mut memory, Buffer::Partials, blocks + 1).unwrap()[blocks];
        assert_eq!(total, sum, "total of {n} values");
    }
    let mut memory = memory(&gpu, 5000).unwrap();
    memory.write(Buffer::Offsets, 0, &[1 << 20; 5004]).unwrap();
    run(&mut memory, &offset_scan()).unwrap();
    assert_eq!(words(&mut memory, Buffer::Partials, 3).unwrap()[2], u32::MAX, "more than fits");
}
