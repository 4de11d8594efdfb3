//! The fingerprint of a dataset, by which a resumed run checks that its data is unchanged.
//!
//! XXH3 (128 bits) of everything that training depends on: names, cameras, poses, points, and the length and a
//! [`Sample`] of each image and mask. Options that are recorded elsewhere (resolution, every n-th image) are excluded,
//! and so are locations and timestamps: a copy of a dataset is the same dataset, and `cp`, `git` and archives change
//! timestamps.
//!
//! A hash alone cannot say what changed. A run keeps the list that [`Dataset::data_list`] makes, and
//! [`Dataset::difference_from`] names the first picture that is not as it was.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::source::SplitRole;
use super::{Dataset, ImageEntry};
use crate::input;

/// Bytes of each of the three parts of a [`Sample`].
const SAMPLE_PART_BYTES: u64 = 16 << 10;

/// Prefix of fingerprints of this kind.
const VERSION_PREFIX: &str = "2-";

/// XXH3 of the first, middle and last 16 KiB of a file, or of the whole file up to 48 KiB.
///
/// Reading every file in full would be too slow: a 24-megapixel photograph is 8 MB, and ten thousand of them take
/// minutes to read before the first step. Three parts are 48 KiB: 2.3 ms instead of 64 ms for an image that is not in
/// the page cache (two busy cores). An image that was edited, exported or replaced differs in them: its length or its
/// entropy-coded data shift, and a PNG ends with a checksum of all its pixels. A flipped byte elsewhere in a large JPEG
/// is not detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample(u64);

impl Sample {
    /// The sample of a file content in memory.
    pub(super) fn fingerprint(content: &[u8]) -> Self {
        let part = SAMPLE_PART_BYTES as usize;
        if content.len() <= 3 * part {
            return Self(xxh3_64(content));
        }
        let starts = [0, (content.len() - part) / 2, content.len() - part];
        Self(xxh3_64(&starts.map(|start| &content[start..start + part]).concat()))
    }

    /// Length and sample of a file.
    ///
    /// # Errors
    /// As [`input::open`].
    pub fn from_file(path: &Path) -> io::Result<(u64, Self)> {
        let mut file = input::open(path, input::NO_LIMIT)?;
        let bytes = file.metadata()?.len();
        let mut content = Vec::new();
        if bytes <= 3 * SAMPLE_PART_BYTES {
            // A file that grows meanwhile has another length next time.
            file.take(3 * SAMPLE_PART_BYTES).read_to_end(&mut content)?;
            return Ok((bytes, Self(xxh3_64(&content))));
        }
        for start in [0, (bytes - SAMPLE_PART_BYTES) / 2, bytes - SAMPLE_PART_BYTES] {
            file.seek(SeekFrom::Start(start))?;
            (&mut file).take(SAMPLE_PART_BYTES).read_to_end(&mut content)?;
        }
        Ok((bytes, Self(xxh3_64(&content))))
    }
}

impl Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Checksum of a dataset by which a resumed run recognises its data; displays as the run records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fingerprint of a dataset; `roles` are the halves of the split that the dataset itself assigns, in the order of
/// its images.
pub(super) fn from_content(dataset: &Dataset, roles: &[SplitRole]) -> Fingerprint {
    let mut hash = FingerprintHasher::default();
    hash.number(dataset.images.len() as u64);
    for (image, role) in dataset.images.iter().zip(roles) {
        hash.text(&image.name);
        hash.content(Some((image.file_bytes, image.sample)));
        hash.content(image.mask_content);
        hash.number(view_hash(dataset, image));
        hash.number(match role {
            SplitRole::Undecided => 0,
            SplitRole::Train => 1,
            SplitRole::Test => 2,
            SplitRole::Unused => 3,
        });
    }
    hash.points(dataset);
    Fingerprint(format!("{VERSION_PREFIX}{:032x}", hash.0.digest128()))
}

/// Camera, pose and frame of an image as one hash.
fn view_hash(dataset: &Dataset, image: &ImageEntry) -> u64 {
    let mut hash = FingerprintHasher::default();
    hash.camera(dataset, image);
    hash.number(image.frame.map_or(u64::MAX, u64::from));
    hash.0.digest()
}

/// XXH3 over numbers in little-endian order.
#[derive(Default)]
struct FingerprintHasher(Xxh3);

impl FingerprintHasher {
    fn number(&mut self, value: u64) {
        self.0.update(&value.to_le_bytes());
    }

    fn real(&mut self, value: f64) {
        self.number(value.to_bits());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn content(&mut self, content: Option<(u64, Sample)>) {
        let (bytes, Sample(sample)) = content.unwrap_or((u64::MAX, Sample(0)));
        self.number(bytes);
        self.number(sample);
    }

    fn camera(&mut self, dataset: &Dataset, image: &ImageEntry) {
        image.stored_size.iter().for_each(|&v| self.number(u64::from(v)));
        let camera = &dataset.cameras[image.source_camera];
        self.number(u64::from(camera.model.id()));
        self.number(u64::from(camera.width));
        self.number(u64::from(camera.height));
        camera.params.iter().for_each(|&v| self.real(v));
        if let super::Turn::Pixels(orientation) = image.turn {
            self.number(u64::from(orientation));
        }
        image.pose.rotation.iter().flatten().chain(&image.pose.translation).for_each(|&v| self.real(v));
    }

    fn points(&mut self, dataset: &Dataset) {
        self.number(dataset.points.len() as u64);
        for point in &dataset.points {
            point.position.iter().for_each(|&v| self.real(v));
            self.0.update(&point.colour);
        }
    }
}

/// First line of a list of data.
const LIST_HEAD: &str = "# The data of this run, which a resumed run compares. Of each picture: length, sample, mask (length, \
                         sample), view, name; then the points.";
/// Name of the points in a list of data: no image has an empty name.
const POINTS: &str = "";

impl Dataset {
    /// The data as text, one line per image. A run keeps it so that a later difference can be named.
    #[must_use]
    pub fn data_list(&self) -> String {
        let mut text = format!("{LIST_HEAD}\n");
        for (name, facts) in self.listed_data() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{facts} {name}");
        }
        text
    }

    /// Describes the first kind of difference to a list of data; `None` if there is none or the list is not valid.
    #[must_use]
    pub fn difference_from(&self, list: &str) -> Option<String> {
        let parse = |line: &str| {
            let (facts, name) = line.split_at_checked(line.match_indices(' ').nth(4)?.0)?;
            Some((name.get(1..)?.to_owned(), facts.to_owned()))
        };
        let before: BTreeMap<String, String> =
            list.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect();
        let now: BTreeMap<String, String> = self.listed_data().collect();
        // An empty or third-party list has no entry for the points.
        before.get(POINTS)?;
        let field = |facts: &str, range: std::ops::Range<usize>| -> Vec<String> {
            facts.split(' ').skip(range.start).take(range.len()).map(str::to_owned).collect()
        };
        let changed = |range: std::ops::Range<usize>| -> Vec<&String> {
            let differs = |(name, facts): &(&String, &String)| {
                before.get(*name).is_some_and(|b| field(b, range.clone()) != field(facts, range.clone()))
            };
            now.iter().filter(|(name, _)| *name != POINTS).filter(differs).map(|(name, _)| name).collect()
        };
        let kinds = [
            (before.keys().filter(|name| !now.contains_key(*name)).collect(), "missing"),
            (now.keys().filter(|name| !before.contains_key(*name)).collect(), "new"),
            (changed(0..2), "changed content"),
            (changed(2..4), "changed mask"),
            (changed(4..5), "changed camera or pose"),
        ];
        let named = kinds.into_iter().find_map(|(names, what): (Vec<&String>, &str)| {
            let more = match names.len().checked_sub(1)? {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Some(format!("{what}: {}{more}", names.first()?))
        });
        named.or_else(|| (before.get(POINTS) != now.get(POINTS)).then(|| "other points".to_owned()))
    }

    /// Text of each image and of the points, by name.
    fn listed_data(&self) -> impl Iterator<Item = (String, String)> {
        let mut points = FingerprintHasher::default();
        points.points(self);
        let content = |content: Option<(u64, Sample)>| match content {
            Some((bytes, sample)) => format!("{bytes} {sample}"),
            None => "- -".to_owned(),
        };
        let pictures = self.images.iter().map(move |image| {
            let picture = content(Some((image.file_bytes, image.sample)));
            let (mask, view) = (content(image.mask_content), view_hash(self, image));
            (image.name.escape_debug().to_string(), format!("{picture} {mask} {view:016x}"))
        });
        let points = format!("{} {:016x} - - -", self.points.len(), points.0.digest());
        pictures.chain([(POINTS.to_owned(), points)])
    }
}
