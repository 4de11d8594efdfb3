//! The order of poses in the normal equations: poses that share points are near each other, so that few tiles of the
//! matrix differ from zero (reverse Cuthill-McKee; George and Liu 1981).

/// Pairs of poses that share points.
pub(super) struct SharedPoints {
    count: usize,
    words: usize,
    bits: Vec<u64>,
}

impl SharedPoints {
    pub(super) fn new(count: usize) -> Self {
        let words = count.div_ceil(64);
        Self { count, words, bits: vec![0; count * words] }
    }

    /// These poses see a point.
    pub(super) fn add(&mut self, poses: impl Iterator<Item = usize> + Clone) {
        for a in poses.clone() {
            for b in poses.clone() {
                self.bits[a * self.words + b / 64] |= 1 << (b % 64);
            }
        }
    }

    fn neighbours(&self, pose: usize) -> impl Iterator<Item = usize> + '_ {
        let words = &self.bits[pose * self.words..(pose + 1) * self.words];
        words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(64 * at + bit)
            })
        })
    }

    /// Place of each pose: that of the list, or a better one.
    pub(super) fn places(&self) -> Vec<usize> {
        let listed: Vec<usize> = (0..self.count).collect();
        let mut places = vec![0; self.count];
        for (place, pose) in self.reverse_cuthill_mckee().into_iter().enumerate() {
            places[pose] = place;
        }
        if self.envelope(&places) < self.envelope(&listed) { places } else { listed }
    }

    /// Blocks from the first that is not zero to the diagonal, of all rows.
    fn envelope(&self, places: &[usize]) -> usize {
        let width = |pose: usize| {
            let first = self.neighbours(pose).map(|other| places[other]).min().unwrap_or(places[pose]);
            places[pose] - first.min(places[pose])
        };
        (0..self.count).map(width).sum()
    }

    fn reverse_cuthill_mckee(&self) -> Vec<usize> {
        let degree: Vec<usize> = (0..self.count).map(|pose| self.neighbours(pose).count()).collect();
        let mut order = Vec::with_capacity(self.count);
        let mut is_placed = vec![false; self.count];
        while let Some(start) = (0..self.count).filter(|&p| !is_placed[p]).min_by_key(|&p| degree[p]) {
            // From a pose at the rim: the last that a search from anywhere reaches.
            let reached = self.breadth_first(start, &degree, &mut is_placed.clone());
            let rim = reached.last().copied().unwrap_or(start);
            order.extend(self.breadth_first(rim, &degree, &mut is_placed));
        }
        order.reverse();
        order
    }

    /// Poses in the order of a breadth-first search, of equal distance those with fewer neighbours first.
    fn breadth_first(&self, start: usize, degree: &[usize], is_placed: &mut [bool]) -> Vec<usize> {
        let mut order = vec![start];
        is_placed[start] = true;
        let mut at = 0;
        while at < order.len() {
            let mut next: Vec<usize> = self.neighbours(order[at]).filter(|&p| !is_placed[p]).collect();
            next.sort_by_key(|&pose| degree[pose]);
            next.iter().for_each(|&pose| is_placed[pose] = true);
            order.extend(next);
            at += 1;
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_in_any_order_becomes_a_band() {
        let count = 100;
        // Pose 37 k mod 100 is link k; each shares points with the two links on either side.
        let pose = |link: usize| 37 * link % count;
        let mut shared = SharedPoints::new(count);
        for link in 0..count - 2 {
            shared.add((link..link + 3).map(pose));
        }
        let places = shared.places();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..count));
        for link in 0..count - 1 {
            assert!(places[pose(link)].abs_diff(places[pose(link + 1)]) <= 3, "{link}");
        }
        // The list stays where it is as good: of poses that all share points, and of two parts.
        let mut shared = SharedPoints::new(70);
        shared.add(0..40);
        shared.add(40..70);
        assert!(shared.places().into_iter().eq(0..70));
    }
}
