//! Memory needs of training, and the memory available for the lists of a view.

use gausset_core::engine::{EngineError, MemoryBytes, MemoryEstimate, Outputs, SceneSize, TrainState};
use gausset_raster::pipeline::{ListCapacity, Pipeline, TooManyEntries};
use gausset_raster::view::KernelView;

use crate::engine::CpuEngine;

/// Memory that a view needs in addition to that for its splats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewMemory {
    /// Images stored in tiles.
    outputs: Outputs,
    /// Bytes per pixel of images outside the tiles.
    bytes_per_pixel: u64,
    /// Bytes of an entry of a tile list.
    bytes_per_entry: u64,
}

impl ViewMemory {
    /// A training step: the render and its gradient.
    pub(crate) const STEP: Self =
        Self { outputs: Outputs::Color, bytes_per_pixel: 2 * 12, bytes_per_entry: ListCapacity::BACKWARD };
    /// Tile lists that are only asked.
    pub(crate) const LISTS: Self =
        Self { outputs: Outputs::All, bytes_per_pixel: 0, bytes_per_entry: ListCapacity::FORWARD };

    /// Tile lists for the rays of a free-space rule.
    pub(crate) const FREE_SPACE: Self = Self { bytes_per_pixel: 0, ..Self::STEP };

    /// A render: three colours and alpha; with all outputs also depth and count.
    pub(crate) fn render(outputs: Outputs) -> Self {
        let values = if outputs == Outputs::All { 6 } else { 4 };
        Self { outputs, bytes_per_pixel: values * 4, bytes_per_entry: ListCapacity::FORWARD }
    }
}

/// Bytes per splat in the buffers of a step: the screen splat and its gradient, and some list entries. Measured
/// (`lego` at 400x400 px, 100,000 and 200,000 splats): 170.
const WORKING_BYTES_PER_SPLAT: u64 = 200;

/// Bytes per pixel of the largest image in the buffers of a step: colours, their gradients, the windows of the loss,
/// and the list entries and gradients that every tile has even with few splats. Measured: 211 (`plush` at 320x240 px,
/// 50,000 splats) to 275 (`fox` at 540x960 px, 60,000 random splats that are all visible at full size).
const WORKING_BYTES_PER_PIXEL: u64 = 280;

/// Memory that training a scene needs. Blocks of parameters and moments are as large as the arrays of a [`TrainState`],
/// and gradients are never stored.
pub(crate) fn memory_needs(scene: &SceneSize) -> MemoryEstimate {
    let host = MemoryBytes {
        state: scene.splats * TrainState::bytes_per_splat(scene.sh_degree),
        working: scene.splats * WORKING_BYTES_PER_SPLAT + scene.pixels * WORKING_BYTES_PER_PIXEL,
    };
    MemoryEstimate { host, ..MemoryEstimate::default() }
}

impl CpuEngine {
    /// Reserves the remaining memory for the lists of a view; an error if the other buffers do not fit.
    pub(crate) fn reserve_list_memory(
        &mut self,
        name: &dyn Fn() -> String,
        view: &KernelView,
        room: ViewMemory,
    ) -> Result<(), EngineError> {
        let [width, height] = view.size;
        let pixels = u64::from(width) * u64::from(height);
        let buffers = Pipeline::view_bytes(self.state.parameters.len(), view, room.outputs)
            + pixels * room.bytes_per_pixel;
        let needed = self.state.bytes() as u64 + buffers;
        let Some(bytes) = self.memory_limit.checked_sub(needed) else {
            let what = format!("{}: {width}x{height} px", name());
            return Err(EngineError::OutOfMemory { what, needed, limit: self.memory_limit });
        };
        self.pipeline.list_capacity = ListCapacity { bytes, bytes_per_entry: room.bytes_per_entry };
        Ok(())
    }

    /// The error for a view with more list entries than fit.
    pub(crate) fn too_many_entries(&self, name: &dyn Fn() -> String, error: TooManyEntries) -> EngineError {
        let ListCapacity { bytes, bytes_per_entry } = self.pipeline.list_capacity;
        EngineError::OutOfMemory {
            what: format!("{}: the tile lists, with {} entries,", name(), error.entries),
            needed: error.entries.saturating_mul(bytes_per_entry),
            limit: bytes.min(error.limit.saturating_mul(bytes_per_entry)),
        }
    }
}
