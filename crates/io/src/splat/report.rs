//! Dropped, repaired and unusual content of a file.

use std::path::Path;

/// Dropped, repaired and unusual content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Splats or points in the file.
    pub found: u64,
    /// Numbers of dropped splats or points, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Numbers of splats that were kept with a replaced value, by reason.
    pub repaired: Vec<(&'static str, u64)>,
    /// Other remarks: `place: what (expected …, found …)`.
    pub notes: Vec<String>,
}

impl ReadReport {
    /// Number of dropped splats or points.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|(_, count)| count).sum()
    }

    /// All entries as lines for the user; empty if there are none.
    #[must_use]
    pub fn lines(&self, path: &Path) -> Vec<String> {
        let counted = |verb: &str, reasons: &[(&'static str, u64)]| {
            let total: u64 = reasons.iter().map(|(_, count)| count).sum();
            let reasons: Vec<String> =
                reasons.iter().map(|(why, count)| format!("{why} ({count})")).collect();
            let list = reasons.join(", ");
            (total > 0)
                .then(|| format!("{}: {verb} {total} of {} splats: {list}", path.display(), self.found))
        };
        let counts = [counted("dropped", &self.dropped), counted("repaired", &self.repaired)];
        let notes = self.notes.iter().map(|note| format!("{}: {note}", path.display()));
        counts.into_iter().flatten().chain(notes).collect()
    }

    /// Adds the report of another part of the same file.
    pub(super) fn add(&mut self, other: Self) {
        self.found += other.found;
        for (mine, others) in [(&mut self.dropped, other.dropped), (&mut self.repaired, other.repaired)] {
            for (why, count) in others {
                match mine.iter_mut().find(|(reason, _)| *reason == why) {
                    Some((_, sum)) => *sum += count,
                    None => mine.push((why, count)),
                }
            }
        }
        self.notes.extend(other.notes);
    }

    /// Counts a dropped splat.
    pub(super) fn drop_one(&mut self, why: &'static str) {
        count_one(&mut self.dropped, why);
    }

    /// Counts a repaired splat.
    pub(super) fn repair_one(&mut self, why: &'static str) {
        count_one(&mut self.repaired, why);
    }
}

fn count_one(counts: &mut Vec<(&'static str, u64)>, why: &'static str) {
    match counts.iter_mut().find(|(reason, _)| *reason == why) {
        Some((_, count)) => *count += 1,
        None => counts.push((why, 1)),
    }
}
