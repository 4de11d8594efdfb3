//! The groups of corrections in one buffer: for each group its values, first moments, second moments and clocks.

use gausset_core::engine::{CorrectionGroup, CorrectionKind, CorrectionRates, EngineError, TrainView};

use crate::layout::correction_words;
use crate::record::NOWHERE;

/// The layout of the groups in the buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CorrectionLayout(Vec<GroupOffset>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct GroupOffset {
    group: CorrectionKind,
    rows: usize,
    /// First word.
    first: usize,
}

/// The offsets of an absent row.
pub(crate) const NO_ROW: [u32; 4] = [NOWHERE; 4];

impl CorrectionLayout {
    /// Lays groups out; returns the layout and the concatenated words.
    pub(crate) fn lay_out(extras: &[CorrectionGroup]) -> (Self, Vec<u32>) {
        let mut places = Vec::new();
        let mut words = Vec::new();
        for extra in extras {
            places.push(GroupOffset {
                group: extra.group,
                rows: extra.update_counts.len(),
                first: words.len(),
            });
            for values in [&extra.values, &extra.m, &extra.v] {
                words.extend(values.iter().map(|v| v.to_bits()));
            }
            words.extend_from_slice(&extra.update_counts);
        }
        (Self(places), words)
    }

    /// Number of words of all groups.
    pub(crate) fn words(&self) -> usize {
        self.0.iter().map(|place| correction_words(place.group, place.rows)).sum()
    }

    /// Reads the groups from their words.
    pub(crate) fn read(&self, words: &[u32]) -> Vec<CorrectionGroup> {
        let extra = |place: &GroupOffset| {
            let count = place.rows * place.group.values_per_row();
            let floats = |part: usize| {
                let first = place.first + part * count;
                words[first..first + count].iter().map(|&w| f32::from_bits(w)).collect()
            };
            let clocks = place.first + 3 * count;
            CorrectionGroup {
                group: place.group,
                values: floats(0),
                m: floats(1),
                v: floats(2),
                update_counts: words[clocks..clocks + place.rows].to_vec(),
            }
        };
        self.0.iter().map(extra).collect()
    }

    fn place(&self, group: CorrectionKind) -> Option<&GroupOffset> {
        self.0.iter().find(|place| place.group == group)
    }

    /// First value and number of rows of a group, 0 rows where there is none.
    pub(crate) fn gain_rows(&self, group: CorrectionKind) -> (u32, u32) {
        self.place(group).map_or((NOWHERE, 0), |place| (place.first as u32, place.rows as u32))
    }

    /// Offsets of a row's values, moments and clock.
    pub(crate) fn row(&self, group: CorrectionKind, row: Option<u32>) -> Result<[u32; 4], EngineError> {
        let Some(row) = row else { return Ok(NO_ROW) };
        let place = self.0.iter().find(|place| place.group == group && (row as usize) < place.rows);
        let Some(place) = place else {
            let what = format!("view uses row {row} of group `{group}`, which the state does not have");
            return Err(EngineError::InvalidInput(what));
        };
        let (width, rows, row) = (group.values_per_row(), place.rows, row as usize);
        let part = |k: usize| place.first + k * rows * width + row * width;
        Ok([part(0), part(1), part(2), place.first + 3 * rows * width + row].map(|at| at as u32))
    }

    /// The rows that correct the colours of a view: gains, vignetting.
    pub(crate) fn colour_rows(&self, view: &TrainView) -> Result<[[u32; 4]; 2], EngineError> {
        let gains = self.row(CorrectionKind::Gain, view.exposure_row)?;
        Ok([gains, self.row(CorrectionKind::Vignetting, view.vignetting_row)?])
    }
}

/// Rates of a row in the form that its kernel reads: all 0 if it is not updated.
pub(crate) fn rates(row: [u32; 4], rates: Option<CorrectionRates>) -> [f32; 4] {
    match rates {
        Some(rates) if row != NO_ROW => [rates.first, rates.second, rates.decay, 1.0],
        _ => [0.0; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_back_as_they_went() {
        let mut extras = vec![
            CorrectionGroup::new(CorrectionKind::Pose, 3),
            CorrectionGroup::new(CorrectionKind::Gain, 2),
        ];
        extras[0].values[7] = 0.5;
        extras[1].v[5] = 2.0;
        extras[0].update_counts[2] = 9;
        let (groups, words) = CorrectionLayout::lay_out(&extras);
        assert_eq!(groups.words(), words.len());
        assert_eq!(groups.read(&words), extras);
        let [value, .., clock] = groups.row(CorrectionKind::Pose, Some(2)).unwrap();
        assert_eq!((value, words[clock as usize]), (12, 9));
        assert!(
            groups.row(CorrectionKind::Pose, Some(3)).is_err()
                && groups.row(CorrectionKind::Sky, Some(0)).is_err()
        );
    }
}
