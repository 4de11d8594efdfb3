//! Runs of removed pixels; a mask has few of them per row.

/// Columns `start..end` of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The runs of a row whose values satisfy `wanted`.
pub(super) fn runs(row: &[u8], wanted: impl Fn(u8) -> bool) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut x = 0;
    while let Some(start) = row[x..].iter().position(|&value| wanted(value)) {
        let start = x + start;
        let end = row[start..].iter().position(|&value| !wanted(value)).map_or(row.len(), |at| start + at);
        runs.push(Run { start, end });
        x = end;
    }
    runs
}

/// Joins overlapping or touching runs of a sorted list.
pub(super) fn join(sorted: &mut Vec<Run>) {
    sorted.dedup_by(|next, last| {
        let is_one = next.start <= last.end;
        if is_one {
            last.end = last.end.max(next.end);
        }
        is_one
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_where_the_values_are() {
        let run = |start, end| Run { start, end };
        assert_eq!(runs(&[0, 0, 9, 0, 9], |v| v == 0), [run(0, 2), run(3, 4)]);
        assert_eq!(runs(&[9, 9], |v| v == 0), []);
        let mut all = vec![run(0, 2), run(2, 3), run(5, 9), run(6, 7)];
        join(&mut all);
        assert_eq!(all, [run(0, 3), run(5, 9)]);
    }
}
