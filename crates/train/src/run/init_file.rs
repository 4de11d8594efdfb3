//! Initial splats from a file, in the normalised coordinates of the run:
//!
//! ```text
//! file ─▶ dataset of the file ─▶ source ─▶ dataset of the run ─▶ normalised
//!   saved_from_dataset⁻¹     + offset of the file  - offset    (p - centre) / unit
//! ```
//! Files of Gausset record transform and offset. Other files are not rotated; whether the offset of the dataset is already
//! subtracted from their positions shows in the distance from the cameras.

use std::path::{Path, PathBuf};

use gausset_core::Splats;
use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use gausset_core::statistics::upper_median;
use gausset_io::dataset::Dataset;
use gausset_io::dataset::init::{self, InitOptions, InitialSplats};
use gausset_io::run_folder::splats_path;
use gausset_io::splat::{self, Initial, LoadOptions, SplatFile};

use super::TrainError;

/// Number of positions from which the place of a file is found.
const SAMPLED_POSITIONS: usize = 10_000;

/// The file of an option `--init`, which may name the folder of a run.
pub(super) fn file_of(path: &Path) -> PathBuf {
    let of_run = splats_path(path);
    if of_run.is_file() {
        return of_run;
    }
    let file = splat::file_at(path);
    // A folder without splats: the error names what is missing.
    if file.is_dir() { of_run } else { file }
}

/// The splats of a file or a run, or splats created from the points of a file.
pub(super) fn initial_splats(
    path: &Path,
    load: &LoadOptions,
    options: &InitOptions,
    dataset: &Dataset,
) -> Result<InitialSplats, TrainError> {
    let mut start = match splat::load_initial_with(&file_of(path), load)? {
        Initial::Splats(file) => {
            // The sky is learnt again; sky splats of the file would only interfere.
            let mut splats = finite_splats(file.scene().into_owned()).with_sh_degree(options.sh_degree);
            normalised_from_splats(&file, &splats, dataset).apply_to_splats(&mut splats);
            let sky =
                if file.sky > 0 { format!(" without the {} of a sky", file.sky) } else { String::new() };
            InitialSplats { note: format!("{} splats{sky}", splats.len()), splats, is_random: false }
        }
        Initial::Points(mut cloud) => {
            let shift = shift_of_unrecorded(&sample(&cloud.positions, |p| p), dataset);
            let transform = moved(shift).then(&normalised_from_dataset(dataset));
            cloud.positions.iter_mut().for_each(|p| *p = transform.apply(*p));
            init::from_points(&cloud.positions, cloud.colours.as_deref(), options)
        }
    };
    start.note += &format!(" (from {})", path.display());
    Ok(start)
}

fn normalised_from_dataset(dataset: &Dataset) -> Similarity {
    dataset.normalisation.dataset_from_normalised().inverse()
}

/// Transform from the axes of a file with splats.
fn normalised_from_splats(file: &SplatFile, splats: &Splats, dataset: &Dataset) -> Similarity {
    let is_recorded = file.saved_from_dataset.is_some() || file.offset.is_some();
    let shift = if is_recorded {
        // Without an offset, nothing was subtracted.
        se3::sub(file.offset.unwrap_or_default(), dataset.offset.unwrap_or_default())
    } else {
        shift_of_unrecorded(&sample(&splats.means, |mean| mean.map(f64::from)), dataset)
    };
    let dataset_of_file_from_saved = file.saved_from_dataset.unwrap_or_default().inverse();
    dataset_of_file_from_saved.then(&moved(shift)).then(&normalised_from_dataset(dataset))
}

fn moved(by: [f64; 3]) -> Similarity {
    Similarity { translation: by, ..Similarity::IDENTITY }
}

/// What to add to positions that may be those of the source or have the offset of the dataset subtracted: after it, they
/// are as near the cameras as possible.
fn shift_of_unrecorded(positions: &[[f64; 3]], dataset: &Dataset) -> [f64; 3] {
    let middle = |k: usize| upper_median(positions.iter().map(|p| p[k]).collect());
    let (Some(offset), Some(x), Some(y), Some(z)) = (dataset.offset, middle(0), middle(1), middle(2)) else {
        return [0.0; 3];
    };
    let from_cameras = se3::sub([x, y, z], dataset.normalisation.centre);
    let is_of_source = se3::norm(se3::sub(from_cameras, offset)) < se3::norm(from_cameras);
    if is_of_source { offset.map(|v| -v) } else { [0.0; 3] }
}

/// Evenly chosen positions.
fn sample<T: Copy>(positions: &[T], position: impl Fn(T) -> [f64; 3]) -> Vec<[f64; 3]> {
    let step = positions.len().div_ceil(SAMPLED_POSITIONS).max(1);
    positions.iter().step_by(step).map(|&p| position(p)).collect()
}

/// The splats whose parameters are all finite.
fn finite_splats(splats: Splats) -> Splats {
    let usable: Vec<usize> = (0..splats.len()).filter(|&i| splats.is_valid(i)).collect();
    if usable.len() == splats.len() { splats } else { splats.select(&usable) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use gausset_core::RgbImage8;
    use gausset_core::splats_transform::rotation_between;
    use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
    use gausset_io::dataset::{Normalisation, OpenOptions};
    use gausset_io::image::encode::png_rgb8;
    use gausset_io::splat::SaveOptions;

    use super::*;

    const UTM: [f64; 3] = [431_000.0, 5_412_000.0, 320.0];
    /// Places beside the cameras, relative to [`UTM`].
    const PLACES: [[f64; 3]; 3] = [[0.125, 0.0625, 0.0], [1.5, -0.875, 0.25], [3.0, 2.0, -1.0]];

    /// A normalised dataset of four cameras at `place`.
    fn dataset_at(folder: &Path, place: [f64; 3]) -> Dataset {
        let picture = png_rgb8(&RgbImage8::new(64, 48)).unwrap();
        let frame = |i: u32| {
            let [x, y, z] = [place[0] + f64::from(i), place[1], place[2] + 4.0];
            std::fs::write(folder.join(format!("{i}.png")), &picture).unwrap();
            format!(
                r#"{{ "file_path": "{i}.png", "transform_matrix": [[1, 0, 0, {x}], [0, 1, 0, {y}], [0, 0, 1, {z}], [0, 0, 0, 1]] }}"#
            )
        };
        let frames: Vec<String> = (0..4).map(frame).collect();
        let text = format!(r#"{{ "fl_x": 60, "frames": [{}] }}"#, frames.join(", "));
        std::fs::write(folder.join("transforms.json"), text).unwrap();
        let options = OpenOptions { test_every: 0, ..OpenOptions::default() };
        let mut dataset = gausset_io::dataset::open(folder, &options).unwrap();
        dataset.normalise(Normalisation::from_dataset(&dataset));
        dataset
    }

    /// Initial splats of a file, in the coordinates of the dataset, without its offset.
    fn start_from(file: &Path, dataset: &Dataset) -> Splats {
        let options = InitOptions {
            sh_degree: 1,
            opacity: 0.1,
            scale_factor: 1.0,
            random_count: 0,
            max_splats: 10,
            seed: 0,
        };
        let mut start = initial_splats(file, &LoadOptions::default(), &options, dataset).unwrap().splats;
        dataset.normalisation.dataset_from_normalised().apply_to_splats(&mut start);
        start
    }

    fn assert_at_the_places(found: &Splats, what: &str) {
        assert_eq!(found.len(), PLACES.len(), "{what}");
        for (mean, place) in found.means.iter().zip(PLACES) {
            let distance = se3::distance(mean.map(f64::from), place);
            // 32 bits a few units from the origin.
            assert!(distance < 1e-5, "{what}: {mean:?}, expected {place:?}");
        }
    }

    /// A PLY of points with doubles.
    fn points_at(folder: &Path, place: [f64; 3]) -> PathBuf {
        let properties = ["x", "y", "z"].map(|name| format!("property double {name}\n")).concat();
        let mut text = format!("ply\nformat ascii 1.0\nelement vertex 3\n{properties}end_header\n");
        for p in PLACES {
            text += &format!("{} {} {}\n", p[0] + place[0], p[1] + place[1], p[2] + place[2]);
        }
        let path = folder.join("points.ply");
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn points_in_the_coordinates_of_the_source_or_of_the_run_start_at_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = dataset_at(folder.path(), UTM);
        assert!(dataset.offset.is_some());
        let offset = dataset.offset.unwrap_or_default();
        let of_run = se3::sub(UTM, offset);
        for (what, place) in [("source", UTM), ("run", of_run)] {
            let mut found = start_from(&points_at(folder.path(), place), &dataset);
            moved(of_run.map(|v| -v)).apply_to_splats(&mut found);
            assert_at_the_places(&found, what);
        }
    }

    #[test]
    fn splats_of_a_run_start_where_they_were_trained() {
        let splats = || {
            let mut splats = Splats::zeros(1, PLACES.len());
            splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
            (0..PLACES.len()).for_each(|i| splats.means[i] = PLACES[i].map(|v| v as f32));
            splats
        };
        for place in [[0.0; 3], UTM] {
            let folder = tempfile::tempdir().unwrap();
            let dataset = dataset_at(folder.path(), place);
            // As of a run whose dataset had another offset by a few units.
            let offset = (place == UTM).then(|| UTM.map(|v| v + 2.0));
            let of_file = offset.map_or([0.0; 3], |offset| se3::sub(UTM, offset));
            let turn = rotation_between([0.3, 0.2, -0.9], [0.0, -1.0, 0.0]);
            let mut file = SplatFile { offset, ..SplatFile::new(splats()) };
            file.transform(&moved(of_file));
            file.saved_from_dataset = None;
            file.transform(&Similarity { scale: 2.0, ..Similarity::from_rotation(turn) });
            // In a run folder, which can be named instead.
            let run = folder.path().join("run");
            std::fs::create_dir(&run).unwrap();
            let path = splats_path(&run);
            let write = WriteOptions { label: "splats", needed_bytes: 0, overwrite: Overwrite::Refuse };
            splat::save(&Disk, &path, &file, &SaveOptions::default(), &write).unwrap();

            let mut found = start_from(&path, &dataset);
            let of_run = se3::sub(place, dataset.offset.unwrap_or_default());
            moved(of_run.map(|v| -v)).apply_to_splats(&mut found);
            assert_at_the_places(&found, &format!("{place:?}"));
            assert_eq!(start_from(&run, &dataset), start_from(&path, &dataset));
            for (found, expected) in found.quats.iter().zip(splats().quats) {
                let same = (0..4).map(|k| found[k] * expected[k]).sum::<f32>();
                assert!(same.abs() > 1.0 - 1e-6, "{found:?}");
            }
        }
    }
}
