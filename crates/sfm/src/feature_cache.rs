//! Features of an interrupted alignment of the built-in aligner: used again by the same job.
//!
//! The work folder holds a file for each frame, `features/NUMBER.bin`, written whole once the features are known:
//! ```text
//! bytes of the key (u32), features (u32)   little-endian, as all numbers
//! key       text: settings and, of each image and mask of the frame, name, size and time
//! features  bearing (3 f64), view (u16), pixel (2 f64), size (f32), colour (3 u8), descriptor (128 u8)
//! checksum  FNV-1a of everything before (u64)
//! ```
//! A file of another key, or a damaged one, is passed over and written again.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::{input, ownership};

use crate::align::{AlignError, AlignJob, WORK_FOLDER_KIND, create_folder};
use crate::reconstruction::features::{DESCRIPTOR_LENGTH, Feature, Features};
use crate::resume::size_and_time;

/// Folder of the files.
const FOLDER: &str = "features";
/// Bytes of a feature.
const FEATURE_BYTES: usize = 24 + 2 + 16 + 4 + 3 + DESCRIPTOR_LENGTH;
/// Largest file, bytes: more than the features of any frame take.
const MAX_BYTES: u64 = 64 << 20;

/// The files of a job.
pub(crate) struct FeatureCache<'a> {
    job: &'a AlignJob,
    folder: PathBuf,
    settings: String,
}

impl<'a> FeatureCache<'a> {
    /// Claims the work folder. `settings` is everything besides the images on which features depend.
    pub(crate) fn open(job: &'a AlignJob, settings: &str) -> Result<Self, AlignError> {
        ownership::claim_folder(&Disk, &job.work_folder, WORK_FOLDER_KIND, Overwrite::Refuse)?;
        let folder = job.work_folder.join(FOLDER);
        create_folder(&folder)?;
        let settings = format!("gausset {} {settings}", env!("CARGO_PKG_VERSION"));
        Ok(Self { job, folder, settings })
    }

    /// The features of a frame: read, or made and kept.
    pub(crate) fn features(
        &self,
        frame: usize,
        make: impl FnOnce() -> Result<Features, AlignError>,
    ) -> Result<Features, AlignError> {
        let (key, path) = (self.key(frame), self.folder.join(format!("{frame}.bin")));
        if let Ok(bytes) = input::read(&path, MAX_BYTES) {
            match decode(&bytes, &key) {
                Some(features) => return Ok(features),
                None => tracing::info!("{}: features of other input or damaged: made again", path.display()),
            }
        }
        let features = make()?;
        let bytes = encode(&features, &key);
        // Without the file the alignment is as good; only an interruption costs more.
        if let Err(error) = write_atomic(&Disk, &path, |file| file.write_all(&bytes)) {
            tracing::warn!("{error}");
        }
        Ok(features)
    }

    fn key(&self, frame: usize) -> String {
        let image = |name: &String| {
            let mask =
                self.job.mask_folder.as_ref().map(|masks| size_and_time(&masks.join(format!("{name}.png"))));
            (name.clone(), size_and_time(&self.job.image_folder.join(name)), mask)
        };
        let images: Vec<_> = self.job.frames[frame].images.iter().map(image).collect();
        format!("{} {images:?}", self.settings)
    }
}

/// Whether a work folder has features.
pub(crate) fn has_features(work_folder: &Path) -> bool {
    Disk.list(&work_folder.join(FOLDER)).is_ok_and(|names| !names.is_empty())
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix).to_le_bytes()
}

fn encode(features: &Features, key: &str) -> Vec<u8> {
    let count = features.features.len();
    let mut out = Vec::with_capacity(16 + key.len() + count * FEATURE_BYTES);
    out.extend((key.len() as u32).to_le_bytes());
    out.extend((count as u32).to_le_bytes());
    out.extend(key.as_bytes());
    for (feature, descriptor) in features.features.iter().zip(&features.descriptors) {
        feature.bearing.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(feature.view.to_le_bytes());
        feature.pixel.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(feature.size.to_le_bytes());
        out.extend(feature.colour);
        out.extend(descriptor);
    }
    out.extend(checksum(&out));
    out
}

/// The features, if the file is whole and of this key.
fn decode(bytes: &[u8], key: &str) -> Option<Features> {
    let (bytes, sum) = bytes.split_last_chunk::<8>()?;
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *head;
    let lengths = [[a, b, c, d], [e, f, g, h]].map(|v| u32::from_le_bytes(v) as usize);
    let rest = rest.strip_prefix(key.as_bytes())?;
    let (rows, tail) = rest.as_chunks::<FEATURE_BYTES>();
    if lengths != [key.len(), rows.len()] || !tail.is_empty() || checksum(bytes) != *sum {
        return None;
    }
    let mut features = Features::default();
    for row in rows {
        let double = |at: usize| row[at..].first_chunk().map_or(0.0, |v| f64::from_le_bytes(*v));
        features.features.push(Feature {
            bearing: [double(0), double(8), double(16)],
            view: u16::from_le_bytes([row[24], row[25]]),
            pixel: [double(26), double(34)],
            size: f32::from_le_bytes([row[42], row[43], row[44], row[45]]),
            colour: [row[46], row[47], row[48]],
        });
        features.descriptors.push(*row.last_chunk()?);
    }
    Some(features)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_as_they_were_written_and_only_whole_and_for_their_key() {
        let feature =
            Feature { bearing: [0.6, -0.0, 0.8], view: 3, pixel: [1.5, 2.25], size: 1.75, colour: [1, 2, 3] };
        let descriptor = std::array::from_fn(|k| k as u8);
        let features = Features {
            features: vec![feature.clone(), feature],
            descriptors: vec![descriptor, [9; DESCRIPTOR_LENGTH]],
        };
        let bytes = encode(&features, "key");
        let found = decode(&bytes, "key").unwrap();
        assert_eq!((found.features, found.descriptors), (features.features, features.descriptors));
        assert!(decode(&bytes, "yek").is_none() && decode(&bytes, "ke").is_none());
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], "key").is_none(), "{cut} bytes");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(decode(&bytes, "key").is_none(), "byte {at} changed");
        }
    }
}
