//! A word on sets that the presets are too small for. Steps and splats of a preset are those of a few hundred images; of
//! thousands, each would be used once and get a hundred splats.
//!
//! City scenes are trained with about 5,000 splats an image (CityGaussian) to 24,000 (3DGS on Rubble).

/// Number of training images above which there is a word.
const LARGE: u64 = 500;
/// Uses of an image, and splats an image, below which the presets are too small.
const STEPS_PER_IMAGE: u64 = 30;
const SPLATS_PER_IMAGE: u64 = 5_000;
/// Pixels of all images for each splat, at least.
const PIXELS_PER_SPLAT: u64 = 40;

/// Size of a training set and of its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetSize {
    /// Training images, and their pixels in training.
    pub(crate) images: u64,
    pub(crate) pixels: u64,
    /// Steps of the run, if they are known (not with a time budget), and its largest number of splats.
    pub(crate) steps: Option<u64>,
    pub(crate) max_splats: u64,
    /// Largest number of splats that memory allows.
    pub(crate) fitting: u64,
}

impl SetSize {
    /// How often each image will be used, and what suits the set better; `None` for small sets, or if the run suits it.
    pub(crate) fn advice(&self) -> Option<String> {
        let wanted = (SPLATS_PER_IMAGE * self.images).min(self.pixels / PIXELS_PER_SPLAT);
        let (steps, splats) = (STEPS_PER_IMAGE * self.images, wanted.min(self.fitting));
        let mut better = Vec::new();
        if self.steps.is_some_and(|run| run < steps) {
            better.push(format!("⟨steps⟩ {steps}"));
        }
        if self.max_splats < splats {
            let limit = if splats < wanted { " (what memory allows)" } else { "" };
            better.push(format!("⟨max-splats⟩ {splats}{limit}"));
        }
        if self.images <= LARGE || better.is_empty() {
            return None;
        }
        let uses = self
            .steps
            .map(|steps| format!("each is used {:.1} times, with ", steps as f64 / self.images as f64));
        Some(format!(
            "{} training images: {}{} splats an image; for more detail set ⟨blocks⟩ auto, or {}",
            self.images,
            uses.unwrap_or_default(),
            self.max_splats / self.images,
            better.join(" and ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_the_presets_are_too_small_for_is_told_what_suits_it() {
        let set = SetSize {
            images: 2_000,
            pixels: 2_000_000_000,
            steps: Some(3_000),
            max_splats: 200_000,
            fitting: 7_000_000,
        };
        assert_eq!(
            set.advice().as_deref(),
            Some(
                "2000 training images: each is used 1.5 times, with 100 splats an image; for more detail set ⟨blocks⟩ \
                 auto, or ⟨steps⟩ 60000 and ⟨max-splats⟩ 7000000 (what memory allows)"
            )
        );
        let of = |change: &dyn Fn(&mut SetSize)| {
            let mut set = set;
            change(&mut set);
            set.advice().unwrap_or_default()
        };
        assert!(of(&|set| set.fitting = 1 << 40).ends_with("⟨max-splats⟩ 10000000"));
        assert!(of(&|set| set.pixels = 40_000_000).ends_with("⟨max-splats⟩ 1000000"));
        assert!(
            of(&|set| set.steps = Some(60_000))
                .ends_with("for more detail set ⟨blocks⟩ auto, or ⟨max-splats⟩ 7000000 (what memory allows)")
        );
        assert_eq!(of(&|set| (set.steps, set.max_splats) = (Some(60_000), 7_000_000)), "");
        assert!(
            of(&|set| set.steps = None).starts_with("2000 training images: 100 splats an image; for more")
        );
        assert_eq!(of(&|set| set.images = LARGE), "");
    }
}
