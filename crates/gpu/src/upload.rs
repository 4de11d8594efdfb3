//! Uploading a state and reading it back, and its memory needs.

use gausset_core::Splats;
use gausset_core::engine::{
    CorrectionGroup, EngineError, MemoryBytes, MemoryEstimate, SceneSize, StepReport, TrainState,
};

use crate::corrections::CorrectionLayout;
use crate::engine::GpuEngine;
use crate::in_flight::IN_FLIGHT;
use crate::layout::{Buffer, Capacities, TRANSFER_CHUNK, sh_blocks, splat_capacity};
use crate::record::{BIAS_CLOCKS, census};
use crate::state::HostState;
use crate::{planes, unit};

/// Capacity for entries before any are counted.
const INITIAL_ENTRIES: u64 = 65_536;
/// Entries per splat assumed for memory estimates.
const ENTRIES_PER_SPLAT: u64 = 4;

/// Memory that training a scene of this size needs on a device; `driver` is the host memory of its driver.
fn memory_need(scene: &SceneSize, shares_memory: bool, limit: Option<u64>, driver: u64) -> MemoryEstimate {
    let blocks = sh_blocks(scene.sh_degree);
    let state = scene.splats * (144 * (1 + blocks) + 20);
    // Screen splats, boxes, keys, gradients, directions; entries as assumed.
    let per_splat = 48 + 16 + 16 + 4 + 48 + 32 + 68 * ENTRIES_PER_SPLAT;
    // Render and gradient, derivatives of SSIM, target and mask, a part of the sums of tiles.
    let pixels = scene.pixels * (32 + 36 + 5 + 1);
    // Images of the steps in flight and of the next one, data that is read back.
    let transfers = scene.pixels * 5 * (IN_FLIGHT as u64 + 1) + TRANSFER_CHUNK;
    // The smallest buffers hold a block of splats and the first entries.
    let least = splat_capacity(0) * (144 * (1 + blocks) + 20 + per_splat) + 68 * INITIAL_ENTRIES;
    let working = scene.splats * per_splat + pixels + least;
    if shares_memory {
        let device = MemoryBytes { state, working: working + transfers };
        // The same bytes count against two limits, if the second is set.
        let own = limit.map_or(MemoryBytes::default(), |_| device);
        let host = MemoryBytes { working: device.working + driver, ..device };
        return MemoryEstimate { host, device: own, limit };
    }
    // The state is on the device alone; the plan counts its copies on the host.
    let host = MemoryBytes { state: 0, working: transfers + driver };
    MemoryEstimate { host, device: MemoryBytes { state, working }, limit }
}

impl GpuEngine {
    /// Memory that training a scene of this size needs.
    pub(crate) fn memory_need(&self, scene: &SceneSize) -> MemoryEstimate {
        memory_need(scene, self.gpu().info().shares_memory(), self.device_limit, self.driver_bytes)
    }

    /// Frees the state.
    pub(crate) fn clear(&mut self) -> Result<(), EngineError> {
        // The results of units in flight are no longer needed.
        while self.memory.is_busy() && self.memory.take_status(true).is_ok() {}
        self.flight.clear();
        self.memory.clear_image_cache();
        self.memory.splits.clear();
        self.state = HostState::default();
        self.report = StepReport::default();
        self.pending_error = None;
        self.memory.gpu().check()?;
        // Renders of no splats show none.
        self.memory.write_if_allocated(Buffer::SplatCounts, &[0, 0])
    }

    fn upload_state_buffers(
        &mut self,
        splats: &Splats,
        extras: &[CorrectionGroup],
        is_only_drawn: bool,
    ) -> Result<(), EngineError> {
        let (groups, words) = CorrectionLayout::lay_out(extras);
        let n = splats.len() as u64;
        let (room, paging) = self.memory.splat_capacity(n);
        let old = *self.memory.sizes();
        let entries = (ENTRIES_PER_SPLAT * n).max(INITIAL_ENTRIES).next_multiple_of(4096).max(old.entries);
        let sizes = Capacities {
            splats: room,
            paging,
            sh_blocks: sh_blocks(splats.sh_degree),
            training: !is_only_drawn,
            entries,
            corrections: words.len() as u64,
            ..old
        };
        let most = self.memory.max_entries(sizes.training);
        let sizes = Capacities { entries: sizes.entries.min(most).max(4096), ..sizes };
        // Checked before the existing state is changed.
        self.memory.ensure_capacity(&|| format!("a state of {n} splats"), &sizes)?;
        self.memory.write(Buffer::Corrections, 0, &words)?;
        self.memory.write(Buffer::SplatCounts, 0, &[splats.len() as u32, 0])?;
        self.state = HostState {
            splats: splats.len(),
            sh_degree: splats.sh_degree,
            groups,
            is_render_only: is_only_drawn,
            ..HostState::default()
        };
        planes::write(&mut self.memory, &self.pool, planes::PARAMETERS, splats)
    }

    /// Uploads splats for rendering only.
    pub(crate) fn upload_splats(
        &mut self,
        splats: &Splats,
        extras: &[CorrectionGroup],
    ) -> Result<(), EngineError> {
        self.upload_state_buffers(splats, extras, true)
    }

    /// Uploads a whole state.
    pub(crate) fn upload_state(&mut self, state: TrainState) -> Result<(), EngineError> {
        self.upload_state_buffers(&state.splats, &state.corrections, false)?;
        planes::write(&mut self.memory, &self.pool, planes::FIRST, &state.moments.m)?;
        planes::write(&mut self.memory, &self.pool, planes::SECOND, &state.moments.v)?;
        planes::write_records(&mut self.memory, &state)?;
        let bias: Vec<u32> =
            (0..u64::from(BIAS_CLOCKS)).flat_map(unit::bias_corrections).map(f32::to_bits).collect();
        self.memory.write(Buffer::Sums, 0, &bias)?;
        (self.state.group_clock, self.state.next_id) = (state.dense_update_count, state.next_id);
        self.memory.write(Buffer::SplatCounts, u64::from(census::NEXT_ID), &[state.next_id])?;
        Ok(())
    }

    /// Reads the corrections back.
    pub(crate) fn read_corrections(&mut self) -> Result<Vec<CorrectionGroup>, EngineError> {
        let words = self.state.groups.words();
        let mut all = Vec::with_capacity(words);
        self.memory.read(Buffer::Corrections, 0, words, |_, part| all.extend_from_slice(part))?;
        Ok(self.state.groups.read(&all))
    }

    /// Reads the splats back, up to an SH degree.
    pub(crate) fn read_splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        if self.memory.sizes().splats == 0 {
            return Ok(Splats::default());
        }
        let degree = sh_degree.min(self.state.sh_degree);
        planes::read(&mut self.memory, &self.pool, planes::PARAMETERS, degree, self.state.splats)
    }

    /// Reads the whole state back.
    pub(crate) fn read_state(&mut self) -> Result<TrainState, EngineError> {
        let (n, degree) = (self.state.splats, self.state.sh_degree);
        if self.memory.sizes().splats == 0 {
            return Ok(TrainState::default());
        }
        let splats = planes::read(&mut self.memory, &self.pool, planes::PARAMETERS, degree, n)?;
        let extras = self.read_corrections()?;
        if self.state.is_render_only {
            return Ok(TrainState::new(splats, extras));
        }
        let moments = planes::read_moments(&mut self.memory, &self.pool, degree, n)?;
        let mut state = TrainState {
            splats,
            moments,
            dense_update_count: self.state.group_clock,
            next_id: self.state.next_id,
            corrections: extras,
            ..TrainState::default()
        };
        planes::read_records(&mut self.memory, n, &mut state)?;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_holds_the_state_alone_and_the_host_what_is_transferred() {
        let scene = SceneSize { splats: 1_000_000, sh_degree: 3, pixels: 2_000_000 };
        let card = memory_need(&scene, false, Some(8 << 30), 7);
        assert_eq!(card.host, MemoryBytes { state: 0, working: 90_000_000 + TRANSFER_CHUNK + 7 });
        assert_eq!((card.device.state, card.limit), (740_000_000, Some(8 << 30)));
        let shared = memory_need(&scene, true, None, 7);
        assert_eq!(shared.host.total(), card.host.total() + card.device.total());
        assert_eq!((shared.device.total(), shared.limit), (0, None));
    }
}
