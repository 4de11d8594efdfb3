//! The sequence of dispatches of a step or render, as a table that does not depend on the device.

mod list;
mod rule;

use gausset_core::Stage;

use crate::kernels::{BlendVjpVariant, Kernel};
use crate::layout::{Buffer, Capacities};
use crate::record::argument;
use crate::split::WorkSplit;
pub(crate) use list::DispatchList;
#[cfg(test)]
pub(crate) use list::{depth_sort, offset_scan, update_alone};

/// Number of workgroups of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// One workgroup.
    One,
    /// A fixed number: for tests.
    #[cfg(test)]
    Groups(u32),
    /// Indirect: the argument with this index, written on the device.
    Counted(u32),
}

/// A kernel with its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    /// The kernel.
    pub(crate) kernel: Kernel,
    /// Its buffers, in the order of bindings.
    pub(crate) buffers: Vec<Buffer>,
    /// The page of paged buffers.
    pub(crate) page: u64,
    /// Number of workgroups.
    pub(crate) grid: Grid,
}

/// Kinds of density rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// Clone, split, prune.
    Classic,
    /// Relocation and growth.
    Mcmc,
    /// Lower opacities.
    Reset,
    /// Clearing free space.
    Clear,
}

/// The work of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Number of tiles of the image.
    pub(crate) tiles: u64,
    /// Whether tile lists are capped.
    pub(crate) capped: bool,
    /// What follows the tile lists.
    pub(crate) kind: UnitKind,
}

/// What follows the tile lists of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitKind {
    /// A render.
    Render {
        /// Whether with depth and count.
        extras: bool,
    },
    /// Queries of weights in front of depths.
    Queries,
    /// A training step.
    Step {
        /// Number of blocks of SH coefficients in use.
        sh_blocks: u64,
        /// Whether with sums of absolute gradients.
        absolute: bool,
        /// Whether with the gradient of the sky.
        sky: bool,
        /// Whether correction rows are updated.
        rows: bool,
    },
    /// Rays of a free-space view.
    Rays {
        /// Whether it is the first view, without earlier evidence.
        first: bool,
    },
    /// A density rule, without a view.
    Rule {
        /// Kind of rule.
        change: RuleKind,
        /// Whether the result is sorted along a Morton curve.
        reorder: bool,
        /// Number of stored blocks of SH coefficients.
        sh_blocks: u64,
    },
    /// A step from upstream gradients of colours, alpha and depth that the host has written: for tests.
    #[cfg(test)]
    Probe {
        /// Number of blocks of SH coefficients.
        sh_blocks: u64,
        /// Whether with absolute sums, in place of the gradient of the depth.
        absolute: bool,
    },
}

/// The buffers of a planning kernel.
pub(crate) const PLAN_BUFFERS: [Buffer; 6] =
    [Buffer::Job, Buffer::Arguments, Buffer::Status, Buffer::Partials, Buffer::Sums, Buffer::SplatCounts];

/// The dispatches of a unit, split as given.
pub(crate) fn dispatches(unit: &Unit, sizes: &Capacities, split: &WorkSplit) -> Vec<Dispatch> {
    let is_rule = matches!(unit.kind, UnitKind::Rule { .. } | UnitKind::Rays { .. });
    let stage = |kernel: Kernel| if is_rule { Stage::Density } else { kernel.stage() };
    split_dispatches(whole_dispatches(unit, sizes, split), &|kernel| split.windows.parts(stage(kernel)))
}

fn whole_dispatches(unit: &Unit, sizes: &Capacities, split: &WorkSplit) -> Vec<Dispatch> {
    let mut list = DispatchList::new(sizes);
    list.plan(Kernel::Begin);
    if let UnitKind::Rule { change, reorder, sh_blocks } = unit.kind {
        list.rule(change, reorder, sh_blocks, sizes.splats);
        return list.dispatches;
    }
    list.add(Kernel::View, &[Buffer::Job, Buffer::View, Buffer::Corrections], Grid::One);
    let order = list.by_depth(sizes);
    for band in 0..split.bands {
        if band > 0 {
            list.plan(Kernel::NextBand);
        }
        let entries = list.lists(unit, sizes, order);
        match unit.kind {
            UnitKind::Render { extras } => list.blend(entries, extras, split.chunks),
            UnitKind::Queries => {
                let buffers = [
                    Buffer::Job,
                    Buffer::Ranges,
                    entries,
                    Buffer::EntrySplats,
                    list.drawn.screen,
                    Buffer::Queries,
                ];
                list.add(Kernel::InFront, &buffers, Grid::Counted(argument::QUERIES));
            }
            UnitKind::Rays { first } => list.rays(entries, first && band == 0),
            UnitKind::Step { .. } => list.blend(entries, false, split.chunks),
            UnitKind::Rule { .. } => {}
            #[cfg(test)]
            UnitKind::Probe { .. } => list.blend(entries, false, split.chunks),
        }
    }
    match unit.kind {
        UnitKind::Step { sh_blocks, absolute, sky, rows } => {
            list.loss(sky);
            list.backward(unit, sizes, split, order, BlendVjpVariant { absolute, extras: false });
            list.update(sh_blocks, rows, false, sizes.pages());
        }
        #[cfg(test)]
        UnitKind::Probe { sh_blocks, absolute } => {
            list.backward(unit, sizes, split, order, BlendVjpVariant { absolute, extras: true });
            list.update(sh_blocks, true, !absolute, sizes.pages());
        }
        _ => {}
    }
    list.dispatches
}

/// Splits each dispatch into parts, except those of one workgroup.
fn split_dispatches(list: Vec<Dispatch>, parts: &dyn Fn(Kernel) -> u8) -> Vec<Dispatch> {
    let mut all = Vec::with_capacity(list.len());
    for dispatch in list {
        let (argument, parts) = match dispatch.grid {
            Grid::Counted(argument) if dispatch.is_heavy() => (argument, parts(dispatch.kernel)),
            _ => (argument::ONE, 1),
        };
        if parts == 1 {
            all.push(dispatch);
            continue;
        }
        let next = Kernel::NextWindow(argument as u8, parts);
        let next = Dispatch { kernel: next, buffers: PLAN_BUFFERS.to_vec(), page: 0, grid: Grid::One };
        for _ in 0..parts {
            all.push(next.clone());
            all.push(Dispatch { grid: Grid::Counted(argument::WINDOW), ..dispatch.clone() });
        }
        all.push(next);
    }
    all
}

impl Dispatch {
    /// Whether it has many workgroups, which may run in any order.
    pub(crate) fn is_heavy(&self) -> bool {
        matches!(self.grid, Grid::Counted(argument) if argument != argument::ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::DispatchParts;

    const WHOLE: WorkSplit =
        WorkSplit { band_rows: u32::MAX, bands: 1, chunks: 1, windows: DispatchParts::WHOLE };

    #[test]
    fn every_dispatch_has_a_buffer_for_each_binding() {
        let apart = WorkSplit {
            bands: 2,
            chunks: 2,
            windows: DispatchParts::for_stages(|_| 2),
            ..WorkSplit::default()
        };
        for then in [
            UnitKind::Render { extras: true },
            UnitKind::Step { sh_blocks: 4, absolute: true, sky: true, rows: true },
            UnitKind::Rule { change: RuleKind::Classic, reorder: true, sh_blocks: 4 },
            UnitKind::Rule { change: RuleKind::Mcmc, reorder: false, sh_blocks: 1 },
            UnitKind::Rule { change: RuleKind::Reset, reorder: false, sh_blocks: 3 },
            UnitKind::Rule { change: RuleKind::Clear, reorder: false, sh_blocks: 3 },
            UnitKind::Rays { first: true },
        ] {
            let unit = Unit { tiles: 1000, capped: true, kind: then };
            for dispatch in dispatches(
                &unit,
                &Capacities { splats: 4096, entries: 4096, ..Capacities::default() },
                &apart,
            ) {
                assert_eq!(dispatch.buffers.len(), dispatch.kernel.source().bindings.len(), "{dispatch:?}");
            }
        }
    }

    #[test]
    fn a_step_takes_no_more_dispatches_than_the_architecture_says() {
        let then = UnitKind::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, kind: then };
        let count = |entries: u64| {
            dispatches(&unit, &Capacities { splats: 1 << 18, entries, ..Capacities::default() }, &WHOLE).len()
        };
        assert_eq!(count(1 << 20), 45);
        assert!(count(1 << 24) <= 64);
    }

    #[test]
    fn a_step_on_pages_repeats_what_is_done_for_each_splat() {
        let then = UnitKind::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, kind: then };
        let paging = Some(crate::layout::Paging { splats_per_page: 1 << 18, visible_capacity: 1 << 18 });
        let on = |pages: u64, paging| Capacities {
            splats: pages << 18,
            paging,
            entries: 1 << 20,
            ..Capacities::default()
        };
        let count = |sizes: Capacities| dispatches(&unit, &sizes, &WHOLE).len();
        // `turn_page` twice, `project`, `plan_visible`, `compact_page`, `page_gradients`, seven for the update; then
        // back to all pages.
        assert_eq!(count(on(3, paging)) - count(on(2, paging)), 13);
        assert_eq!(count(on(2, paging)), count(on(1, None)) + 13 + 3);
    }

    #[test]
    fn a_rule_takes_no_more_dispatches_than_the_architecture_says() {
        let count = |change: RuleKind, reorder: bool| {
            let unit =
                Unit { tiles: 0, capped: false, kind: UnitKind::Rule { change, reorder, sh_blocks: 4 } };
            dispatches(&unit, &Capacities { splats: 1 << 20, ..Capacities::default() }, &WHOLE).len()
        };
        assert_eq!([false, true].map(|reorder| count(RuleKind::Classic, reorder)), [60, 74]);
        assert_eq!([false, true].map(|reorder| count(RuleKind::Mcmc, reorder)), [80, 94]);
        assert_eq!([RuleKind::Reset, RuleKind::Clear].map(|change| count(change, false)), [3, 3]);
        // A free-space view, 256 px wide.
        let view = |first: bool| {
            let unit = Unit { tiles: 256, capped: false, kind: UnitKind::Rays { first } };
            dispatches(
                &unit,
                &Capacities { splats: 1 << 20, entries: 1 << 20, ..Capacities::default() },
                &WHOLE,
            )
            .len()
        };
        assert_eq!([false, true].map(view), [28, 29]);
    }
}
