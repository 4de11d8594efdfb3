//! Samples and volumes: the first byte selects the format; any other bytes give finite samples, of which voxels without
//! a value are none, or an error of one line.

use gausset_field::input::{self, Input, ReadRequest};
use gausset_io::text::is_valid_message;

/// File names that determine the format, indexed by the first byte.
pub(crate) const NAMES: [&str; 12] = [
    "a.csv", "a.npy", "a.npz", "a.nrrd", "a.nii", "a.nii.gz", "a.hdr", "a.tif", "a.mha", "a.mhd", "a.vti",
    "a.png",
];

pub(crate) fn check(bytes: &[u8]) {
    let Some((first, content)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    // A file that a header refers to: half of the same bytes.
    let beside = |_: &str| Ok(content[content.len() / 2..].to_vec());
    // Without a channel, a file with several is refused before its voxels are read.
    let wanted = ReadRequest { channel: (*first >= 128).then_some(0), ..ReadRequest::default() };
    match input::decode(name, content, &wanted, &beside) {
        Err(error) => {
            let line = error.to_string();
            assert!(is_valid_message(&line), "{line:?}");
        }
        Ok(Input::Samples(samples)) => {
            assert_eq!(samples.points.len(), samples.values.len());
            assert!(samples.points.as_flattened().iter().chain(&samples.values).all(|v| v.is_finite()));
        }
        Ok(Input::Volume(volume)) => {
            assert_eq!(volume.values.len(), volume.dims.iter().product::<usize>());
            assert!(volume.values.iter().all(|v| !v.is_infinite()));
            let samples = volume.samples();
            assert!(!samples.values.is_empty() && samples.values.iter().all(|v| v.is_finite()));
            assert!(volume.spacing.iter().all(|s| *s > 0.0 && s.is_finite()));
        }
    }
}
