//! The sequence of dispatches of a step or render, as a table that does not depend on the device.

mod list;
mod rule;

use gausset_core::Stage;

use crate::kernels::{Kernel, Sums};
use crate::layout::{Buffer, Sizes};
use crate::record::argument;
use crate::split::Split;
pub(crate) use list::List;
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
pub(crate) enum Change {
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
    pub(crate) then: Then,
}

/// What follows the tile lists of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A render.
    Picture {
        /// Whether with depth and count.
        extras: bool,
    },
    /// Queries of weights in front of depths.
    Questions,
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
        change: Change,
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
pub(crate) const PLANNED: [Buffer; 6] =
    [Buffer::Job, Buffer::Arguments, Buffer::Status, Buffer::Partials, Buffer::Sums, Buffer::Census];

/// The dispatches of a unit, split as given.
pub(crate) fn dispatches(unit: &Unit, sizes: &Sizes, split: &Split) -> Vec<Dispatch> {
    let is_rule = matches!(unit.then, Then::Rule { .. } | Then::Rays { .. });
    let stage = |kernel: Kernel| if is_rule { Stage::Density } else { kernel.stage() };
    in_windows(whole_dispatches(unit, sizes, split), &|kernel| split.windows.parts(stage(kernel)))
}

fn whole_dispatches(unit: &Unit, sizes: &Sizes, split: &Split) -> Vec<Dispatch> {
    let mut list = List::new(sizes);
    list.plan(Kernel::Begin);
    if let Then::Rule { change, reorder, sh_blocks } = unit.then {
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
        match unit.then {
            Then::Picture { extras } => list.blend(entries, extras, split.chunks),
            Then::Questions => {
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
            Then::Rays { first } => list.rays(entries, first && band == 0),
            Then::Step { .. } => list.blend(entries, false, split.chunks),
            Then::Rule { .. } => {}
            #[cfg(test)]
            Then::Probe { .. } => list.blend(entries, false, split.chunks),
        }
    }
    match unit.then {
        Then::Step { sh_blocks, absolute, sky, rows } => {
            list.loss(sky);
            list.backward(unit, sizes, split, order, Sums { absolute, extras: false });
            list.update(sh_blocks, rows, false, sizes.pages());
        }
        #[cfg(test)]
        Then::Probe { sh_blocks, absolute } => {
            list.backward(unit, sizes, split, order, Sums { absolute, extras: true });
            list.update(sh_blocks, true, !absolute, sizes.pages());
        }
        _ => {}
    }
    list.dispatches
}

/// Splits each dispatch into parts, except those of one workgroup.
fn in_windows(list: Vec<Dispatch>, parts: &dyn Fn(Kernel) -> u8) -> Vec<Dispatch> {
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
        let next = Dispatch { kernel: next, buffers: PLANNED.to_vec(), page: 0, grid: Grid::One };
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
    use crate::split::Windows;

    const WHOLE: Split = Split { band_rows: u32::MAX, bands: 1, chunks: 1, windows: Windows::WHOLE };

    #[test]
    fn every_dispatch_has_a_buffer_for_each_binding() {
        let apart = Split { bands: 2, chunks: 2, windows: Windows::of(|_| 2), ..Split::default() };
        for then in [
            Then::Picture { extras: true },
            Then::Step { sh_blocks: 4, absolute: true, sky: true, rows: true },
            Then::Rule { change: Change::Classic, reorder: true, sh_blocks: 4 },
            Then::Rule { change: Change::Mcmc, reorder: false, sh_blocks: 1 },
            Then::Rule { change: Change::Reset, reorder: false, sh_blocks: 3 },
            Then::Rule { change: Change::Clear, reorder: false, sh_blocks: 3 },
            Then::Rays { first: true },
        ] {
            let unit = Unit { tiles: 1000, capped: true, then };
            for dispatch in
                dispatches(&unit, &Sizes { splats: 4096, entries: 4096, ..Sizes::default() }, &apart)
            {
                assert_eq!(dispatch.buffers.len(), dispatch.kernel.source().bindings.len(), "{dispatch:?}");
            }
        }
    }

    #[test]
    fn a_step_takes_no_more_dispatches_than_the_architecture_says() {
        let then = Then::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, then };
        let count = |entries: u64| {
            dispatches(&unit, &Sizes { splats: 1 << 18, entries, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!(count(1 << 20), 45);
        assert!(count(1 << 24) <= 64);
    }

    #[test]
    fn a_step_on_pages_repeats_what_is_done_for_each_splat() {
        let then = Then::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, then };
        let paging = Some(crate::layout::Paging { page: 1 << 18, drawn: 1 << 18 });
        let on =
            |pages: u64, paging| Sizes { splats: pages << 18, paging, entries: 1 << 20, ..Sizes::default() };
        let count = |sizes: Sizes| dispatches(&unit, &sizes, &WHOLE).len();
        // `turn_page` twice, `project`, `plan_visible`, `compact_page`, `page_gradients`, seven for the update; then
        // back to all pages.
        assert_eq!(count(on(3, paging)) - count(on(2, paging)), 13);
        assert_eq!(count(on(2, paging)), count(on(1, None)) + 13 + 3);
    }

    #[test]
    fn a_rule_takes_no_more_dispatches_than_the_architecture_says() {
        let count = |change: Change, reorder: bool| {
            let unit = Unit { tiles: 0, capped: false, then: Then::Rule { change, reorder, sh_blocks: 4 } };
            dispatches(&unit, &Sizes { splats: 1 << 20, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!([false, true].map(|reorder| count(Change::Classic, reorder)), [60, 74]);
        assert_eq!([false, true].map(|reorder| count(Change::Mcmc, reorder)), [80, 94]);
        assert_eq!([Change::Reset, Change::Clear].map(|change| count(change, false)), [3, 3]);
        // A free-space view, 256 px wide.
        let view = |first: bool| {
            let unit = Unit { tiles: 256, capped: false, then: Then::Rays { first } };
            dispatches(&unit, &Sizes { splats: 1 << 20, entries: 1 << 20, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!([false, true].map(view), [28, 29]);
    }
}
