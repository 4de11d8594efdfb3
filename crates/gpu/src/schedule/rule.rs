//! The order of dispatches of a density rule.
//!
//! | part | dispatches | purpose |
//! |---|---|---|
//! | classic | `mark`, `plan_limit`, `keys`, sort, `limit`, `flags`, `plan_rows`, 2 scans, `spawn` | decisions, limited to the capacity, positions, rows |
//! | MCMC, relocation | `mark`, `plan_relocation`, `keys`, sort, wide scan, `plan_draws`, `draw`, scan, `share` | dead splats, draws by weight, rows |
//! | MCMC, growth | `plan_growth`, `weigh`, `keys`, sort, wide scan, `plan_added`, `draw`, `plan_order`, `share` | the same for new splats |
//! | free space | for each view its lists and `follow`, as a separate unit; then `clear` | evidence of rays about each splat, summed as integers; bubbles |
//! | all | `plan_order`, `bounds`, `plan_grid`, `codes`, sort, `settle`, two for each other buffer, `finish_rule` | the Morton order, and moving all data to its position |
//!
//! *Rows* describe the splats after the rule: the source splat of each, the data that it drops, and its id; their
//! geometry is in a separate buffer. Up to `finish_rule`, and apart from moving data, the state is only read, and the
//! planning kernels check that all rows fit before anything is written. Buffers of a view that no rule needs serve as
//! scratch: their content does not outlive a unit.

use super::{DispatchList, Grid, RuleKind};
use crate::kernels::{Kernel, RulePlan, ScanInput, SortInput};
use crate::layout::Buffer as B;
use crate::record::argument;

impl RuleKind {
    /// Whether the set and order of splats stay the same.
    const fn keeps_set(self) -> bool {
        matches!(self, Self::Reset | Self::Clear)
    }
}

/// Marks of splats, then of rows.
const MARKS: B = B::Boxes;
/// Rows: source splat and id.
const ROWS: B = B::Directions;
/// Final geometry of the rows.
const GEOMETRY: B = B::Gradients;
/// Geometry of the rows before growth; then scratch for moving data.
const SCRATCH_GEOMETRY: B = B::Screen;
/// Prefix sums of weights; not needed after growth.
const WEIGHTS: B = B::Gradients;
/// Evidence of rays about each splat: valid from the first view of a rule up to the rule itself.
const EVIDENCE: B = B::Gradients;
/// How often each splat was drawn.
const DRAWS: B = B::Order1;
/// Positions of kept splats, or sources of new splats.
const KEPT_POSITIONS: B = B::Offsets;
/// Positions of new rows.
const NEW_POSITIONS: B = B::DepthKeys1;

const SPLATS: Grid = Grid::Counted(argument::SPLATS);
/// One workgroup per 256 of the items that are currently processed.
const PER_256_ITEMS: Grid = Grid::Counted(argument::VISIBLE);

impl DispatchList {
    /// Adds the dispatches of a rule after the start of its unit, with capacity for `room` splats.
    pub(crate) fn rule(&mut self, change: RuleKind, reorder: bool, sh_blocks: u64, room: u64) {
        match change {
            RuleKind::Classic => self.clone_split_prune(room),
            RuleKind::Mcmc => self.relocate_and_grow(room),
            RuleKind::Reset => {
                let reset = [B::Job, B::Rule, B::Splats, B::Splats1, B::Splats2];
                self.add(Kernel::Reset, &reset, SPLATS);
            }
            RuleKind::Clear => {
                let clear = [B::Job, B::Rule, B::Splats, B::Splats1, EVIDENCE, B::FreeSpace, B::Status];
                self.add(Kernel::Clear, &clear, SPLATS);
            }
        }
        if !change.keeps_set() {
            self.order(reorder, room);
            self.carry_all(sh_blocks);
        }
        self.plan_rule(RulePlan::Finish);
    }

    /// Adds the dispatches after the tile lists of a free-space view.
    pub(crate) fn rays(&mut self, entries: B, first: bool) {
        if first {
            self.add(Kernel::Forget, &[B::Job, EVIDENCE], SPLATS);
        }
        let follow = [
            B::Job,
            B::Rule,
            B::Ranges,
            entries,
            B::EntrySplats,
            B::Screen,
            B::Splats,
            B::FreeSpace,
            EVIDENCE,
        ];
        self.add(Kernel::Follow, &follow, Grid::Counted(argument::QUERIES));
    }

    fn plan_rule(&mut self, plan: RulePlan) {
        let buffers = [B::Job, B::Rule, B::Arguments, B::Status, B::SplatCounts, B::Partials, B::DepthKeys0];
        self.add(Kernel::PlanRule(plan), &buffers, Grid::One);
    }

    fn mark(&mut self, mcmc: bool) {
        let mark = [B::Job, B::Rule, B::Splats, B::Records, B::Sh0, B::Sh1, B::Sh2, B::Sh3, MARKS, B::Status];
        self.add(Kernel::Mark(mcmc), &mark, SPLATS);
    }

    /// Sorts the current items by the keys of their marks.
    fn sort_marks(&mut self, room: u64) {
        self.add(Kernel::Keys, &[B::Job, MARKS, B::DepthKeys0, B::Order0], PER_256_ITEMS);
        self.sort_rows(room);
    }

    /// Sorts by keys; after four passes the result is in the input buffers.
    fn sort_rows(&mut self, room: u64) {
        let pairs = [[B::DepthKeys0, B::Order0], [B::DepthKeys1, B::Order1]];
        self.sort(SortInput::Splats, pairs, 4, room);
    }

    fn clone_split_prune(&mut self, room: u64) {
        self.mark(false);
        self.plan_rule(RulePlan::Limit);
        self.sort_marks(room);
        self.add(Kernel::Limit, &[B::Job, B::Rule, B::Order0, MARKS, B::Status], PER_256_ITEMS);
        self.add(Kernel::Flags, &[B::Job, MARKS, KEPT_POSITIONS, NEW_POSITIONS], SPLATS);
        self.plan_rule(RulePlan::Rows);
        self.scan(ScanInput::Tiles, KEPT_POSITIONS, argument::VISIBLE_BLOCKS);
        self.scan(ScanInput::Tiles, NEW_POSITIONS, argument::VISIBLE_BLOCKS);
        let spawn =
            [B::Job, B::Rule, B::Splats, B::Records, MARKS, KEPT_POSITIONS, NEW_POSITIONS, GEOMETRY, ROWS];
        self.add(Kernel::Spawn, &spawn, SPLATS);
        self.plan_rule(RulePlan::Order);
    }

    /// Prepares draws: the order by size, prefix sums of weights.
    fn weigh(&mut self, room: u64) {
        self.sort_marks(room);
        let scan = [B::Job, MARKS, B::Partials, WEIGHTS, DRAWS];
        let blocks = Grid::Counted(argument::VISIBLE_BLOCKS);
        self.add(Kernel::ReduceWide, &scan, blocks);
        self.add(Kernel::SpineWide, &scan, Grid::Counted(argument::ONE));
        self.add(Kernel::DownWide, &scan, blocks);
    }

    fn relocate_and_grow(&mut self, room: u64) {
        self.mark(true);
        self.plan_rule(RulePlan::Relocation);
        self.weigh(room);
        self.plan_rule(RulePlan::Draws);
        let draw = [B::Job, B::Rule, WEIGHTS, B::Records, MARKS, DRAWS, KEPT_POSITIONS];
        self.add(Kernel::Draw(false), &draw, SPLATS);
        self.scan(ScanInput::Tiles, KEPT_POSITIONS, argument::VISIBLE_BLOCKS);
        let share =
            [B::Job, B::Rule, B::Splats, B::Records, MARKS, DRAWS, KEPT_POSITIONS, SCRATCH_GEOMETRY, ROWS];
        self.add(Kernel::Share(false), &share, SPLATS);

        self.plan_rule(RulePlan::Growth);
        self.add(Kernel::Weigh, &[B::Job, SCRATCH_GEOMETRY, MARKS], PER_256_ITEMS);
        self.weigh(room);
        self.plan_rule(RulePlan::Added);
        self.add(Kernel::Draw(true), &draw, Grid::Counted(argument::ENTRIES));
        self.plan_rule(RulePlan::Order);
        let share =
            [B::Job, B::Rule, SCRATCH_GEOMETRY, B::Records, MARKS, DRAWS, KEPT_POSITIONS, GEOMETRY, ROWS];
        self.add(Kernel::Share(true), &share, PER_256_ITEMS);
    }

    /// Determines the order of the rows.
    fn order(&mut self, reorder: bool, room: u64) {
        if reorder {
            self.add(Kernel::Bounds, &[B::Job, GEOMETRY, B::SplatCounts], PER_256_ITEMS);
            self.plan_rule(RulePlan::Grid);
        }
        let codes = [B::Job, GEOMETRY, B::SplatCounts, B::DepthKeys0, B::Order0];
        self.add(Kernel::Codes(reorder), &codes, PER_256_ITEMS);
        if reorder {
            self.sort_rows(room);
        }
    }

    /// Moves all data to its position.
    fn carry_all(&mut self, sh_blocks: u64) {
        self.add(Kernel::Settle, &[B::Job, B::Order0, ROWS, GEOMETRY, B::Splats], PER_256_ITEMS);
        let blocks = sh_blocks as usize;
        let parameters = B::SH[..blocks].iter().map(|&buffer| (buffer, false));
        let moments = [B::Splats1, B::Splats2].into_iter();
        let moments = moments.chain(B::SH_FIRST[..blocks].iter().copied());
        let moments = moments.chain(B::SH_SECOND[..blocks].iter().copied()).map(|buffer| (buffer, true));
        for (buffer, is_moment) in parameters.chain(moments) {
            self.add(
                Kernel::Carry(is_moment),
                &[B::Job, B::Order0, ROWS, buffer, SCRATCH_GEOMETRY],
                PER_256_ITEMS,
            );
            self.add(Kernel::Put, &[B::Job, B::Order0, ROWS, SCRATCH_GEOMETRY, buffer], PER_256_ITEMS);
        }
        self.add(
            Kernel::CarryRecords,
            &[B::Job, B::Rule, B::Order0, ROWS, B::Records, SCRATCH_GEOMETRY],
            PER_256_ITEMS,
        );
        self.add(
            Kernel::PutRecords,
            &[B::Job, B::Rule, B::Order0, ROWS, SCRATCH_GEOMETRY, B::Records],
            PER_256_ITEMS,
        );
    }
}
