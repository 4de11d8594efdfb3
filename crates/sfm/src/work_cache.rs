//! Features and matches of an interrupted alignment of the built-in aligner: used again by the same job.
//!
//! The work folder holds files for each frame, `features/NUMBER.bin`, and `matches/NUMBER.bin` with its matches with later
//! frames, each written whole once it is known:
//! ```text
//! bytes of the key (u32), rows (u32)   little-endian, as all numbers
//! key       text: settings and, of each image and mask of the frames, name, size and time
//! rows      features: bearing (3 f64), view (u16), pixel (2 f64), size (f32), colour (3 u8), descriptor (128 u8)
//!           matches: a pair of features (2 u32); for each partner first their number, twice
//! checksum  FNV-1a of everything before (u64)
//! ```
//! A file of another key, or a damaged one, is passed over and written again.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::{input, ownership};

use crate::align::{AlignError, AlignJob, WORK_FOLDER_KIND, create_folder};
use crate::reconstruction::MatchStore;
use crate::reconstruction::features::{DESCRIPTOR_LENGTH, Feature, Features};
use crate::resume::size_and_time;

/// Folders of the files.
const FEATURE_FOLDER: &str = "features";
const MATCH_FOLDER: &str = "matches";
/// Bytes of a feature.
const FEATURE_BYTES: usize = 24 + 2 + 16 + 4 + 3 + DESCRIPTOR_LENGTH;
/// Bytes of a match.
const MATCH_BYTES: usize = 8;
/// Largest file, bytes: more than the features of any frame take, or its matches.
const MAX_BYTES: u64 = 64 << 20;

/// The files of a job.
pub(crate) struct WorkCache<'a> {
    job: &'a AlignJob,
    settings: String,
}

impl<'a> WorkCache<'a> {
    /// Claims the work folder. `settings` is everything besides the images on which features depend.
    pub(crate) fn open(job: &'a AlignJob, settings: &str) -> Result<Self, AlignError> {
        ownership::claim_folder(&Disk, &job.work_folder, WORK_FOLDER_KIND, Overwrite::Refuse)?;
        create_folder(&job.work_folder.join(FEATURE_FOLDER))?;
        create_folder(&job.work_folder.join(MATCH_FOLDER))?;
        let settings = format!("gausset {} {settings}", env!("CARGO_PKG_VERSION"));
        Ok(Self { job, settings })
    }

    /// The features of a frame: read, or made and kept.
    pub(crate) fn features(
        &self,
        frame: usize,
        make: impl FnOnce() -> Result<Features, AlignError>,
    ) -> Result<Features, AlignError> {
        let (key, path) = (self.key(&[frame]), self.path(FEATURE_FOLDER, frame));
        if let Some(rows) = read(&path, &key) {
            return Ok(features_of(&rows));
        }
        let features = make()?;
        write(&path, &key, &feature_rows(&features));
        Ok(features)
    }

    fn path(&self, folder: &str, frame: usize) -> PathBuf {
        self.job.work_folder.join(folder).join(format!("{frame}.bin"))
    }

    fn key(&self, frames: &[usize]) -> String {
        let image = |name: &String| {
            let mask = self.job.masks.get(name).map(|path| (size_and_time(path), self.job.invert_masks));
            (name.clone(), size_and_time(&self.job.image_folder.join(name)), mask)
        };
        let images = frames.iter().flat_map(|&frame| &self.job.frames[frame].images);
        format!("{} {:?}", self.settings, images.map(image).collect::<Vec<_>>())
    }

    fn match_key(&self, frame: usize, partners: &[usize]) -> String {
        self.key(&[&[frame], partners].concat())
    }
}

impl MatchStore for WorkCache<'_> {
    fn load(&self, frame: usize, partners: &[usize]) -> Option<Vec<Vec<[u32; 2]>>> {
        let rows = read(&self.path(MATCH_FOLDER, frame), &self.match_key(frame, partners))?;
        matches_of(&rows, partners.len())
    }

    fn save(&self, frame: usize, partners: &[usize], matches: &[Vec<[u32; 2]>]) {
        let key = self.match_key(frame, partners);
        write(&self.path(MATCH_FOLDER, frame), &key, &match_rows(matches));
    }
}

/// The rows of a file, if it is whole and of this key.
fn read<const N: usize>(path: &Path, key: &str) -> Option<Vec<[u8; N]>> {
    let bytes = input::read(path, MAX_BYTES).ok()?;
    let rows = decode(&bytes, key).map(<[_]>::to_vec);
    if rows.is_none() {
        tracing::info!("{}: of other input or damaged: made again", path.display());
    }
    rows
}

/// Writes a file. Without it the alignment is as good; only an interruption costs more.
fn write<const N: usize>(path: &Path, key: &str, rows: &[[u8; N]]) {
    let bytes = encode(rows, key);
    if let Err(error) = write_atomic(&Disk, path, |file| file.write_all(&bytes)) {
        tracing::warn!("{error}");
    }
}

/// Whether a work folder has features.
pub(crate) fn has_features(work_folder: &Path) -> bool {
    Disk.list(&work_folder.join(FEATURE_FOLDER)).is_ok_and(|names| !names.is_empty())
}

/// FNV-1a.
pub(crate) fn checksum(bytes: impl IntoIterator<Item = u8>) -> [u8; 8] {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, mix).to_le_bytes()
}

fn encode<const N: usize>(rows: &[[u8; N]], key: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + key.len() + rows.len() * N);
    out.extend((key.len() as u32).to_le_bytes());
    out.extend((rows.len() as u32).to_le_bytes());
    out.extend(key.as_bytes());
    out.extend(rows.as_flattened());
    out.extend(checksum(out.iter().copied()));
    out
}

/// The rows, if the file is whole and of this key.
fn decode<'a, const N: usize>(bytes: &'a [u8], key: &str) -> Option<&'a [[u8; N]]> {
    let (bytes, sum) = bytes.split_last_chunk::<8>()?;
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *head;
    let lengths = [[a, b, c, d], [e, f, g, h]].map(|v| u32::from_le_bytes(v) as usize);
    let rest = rest.strip_prefix(key.as_bytes())?;
    let (rows, tail) = rest.as_chunks::<N>();
    let is_whole =
        lengths == [key.len(), rows.len()] && tail.is_empty() && checksum(bytes.iter().copied()) == *sum;
    is_whole.then_some(rows)
}

fn feature_rows(features: &Features) -> Vec<[u8; FEATURE_BYTES]> {
    let row = |(feature, descriptor): (&Feature, &[u8; DESCRIPTOR_LENGTH])| {
        let mut bytes = Vec::with_capacity(FEATURE_BYTES);
        feature.bearing.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        bytes.extend(feature.view.to_le_bytes());
        feature.pixel.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        bytes.extend(feature.size.to_le_bytes());
        bytes.extend(feature.colour);
        bytes.extend(descriptor);
        let mut row = [0; FEATURE_BYTES];
        row.copy_from_slice(&bytes);
        row
    };
    features.features.iter().zip(&features.descriptors).map(row).collect()
}

fn features_of(rows: &[[u8; FEATURE_BYTES]]) -> Features {
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
        features.descriptors.push(std::array::from_fn(|k| row[FEATURE_BYTES - DESCRIPTOR_LENGTH + k]));
    }
    features
}

fn match_rows(matches: &[Vec<[u32; 2]>]) -> Vec<[u8; MATCH_BYTES]> {
    let row = |[a, b]: [u32; 2]| (u64::from(a) | u64::from(b) << 32).to_le_bytes();
    let of_partner = |matches: &Vec<[u32; 2]>| {
        let count = [matches.len() as u32; 2];
        std::iter::once(count).chain(matches.iter().copied()).map(row).collect::<Vec<_>>()
    };
    matches.iter().flat_map(of_partner).collect()
}

/// The matches with each of so many partners.
fn matches_of(rows: &[[u8; MATCH_BYTES]], partners: usize) -> Option<Vec<Vec<[u32; 2]>>> {
    let pair = |row: &[u8; MATCH_BYTES]| {
        let both = u64::from_le_bytes(*row);
        [both as u32, (both >> 32) as u32]
    };
    let (mut rest, mut found) = (rows, Vec::with_capacity(partners));
    for _ in 0..partners {
        let (count, after) = rest.split_first()?;
        let (own, after) = after.split_at_checked(pair(count)[0] as usize)?;
        found.push(own.iter().map(pair).collect());
        rest = after;
    }
    rest.is_empty().then_some(found)
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
        let bytes = encode(&feature_rows(&features), "key");
        let decode = |bytes: &[u8], key| decode::<FEATURE_BYTES>(bytes, key).map(features_of);
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

    #[test]
    fn matches_are_read_as_they_were_written() {
        let matches = vec![vec![[3, 70_000], [4, 5]], Vec::new(), vec![[u32::MAX, 0]]];
        let rows = match_rows(&matches);
        assert_eq!(matches_of(&rows, 3), Some(matches));
        // Of another number of partners, or cut.
        assert!(matches_of(&rows, 2).is_none() && matches_of(&rows, 4).is_none());
        assert!((0..rows.len()).all(|count| matches_of(&rows[..count], 3).is_none()));
    }
}
