//! Keypoints and raw matches from other software, which COLMAP then verifies and maps.
//!
//! ```text
//! text  DIR/NAME.txt          keypoints of the image NAME (view00/frame.jpg), as COLMAP imports features
//!       DIR/matches.txt       raw matches of pairs of images, as COLMAP imports them
//! npz   DIR/keypoints.npz     keypoints as arrays, one of each image (N, 2 or more)
//!       DIR/matches.npz       matches as arrays, one of each pair "A B" (M, 2)
//! ```
//! Keypoints are x right and y down in px from the corner of the image: the centre of its first pixel is (0.5, 0.5).
//! Matches are rows of two indices into the lists of keypoints, from 0.

pub mod npz;
pub mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;
use gausset_io::text::excerpt;

use crate::model::FrameImages;

/// Largest file that is read, bytes.
const MAX_BYTES: u64 = 4 << 30;
/// Largest database, bytes.
const MAX_DATABASE_BYTES: u64 = 1 << 40;
/// File name of the list of matches.
const MATCHES_TXT: &str = "matches.txt";
/// File names of the arrays.
const KEYPOINTS_NPZ: &str = "keypoints.npz";
const MATCHES_NPZ: &str = "matches.npz";

/// Keypoints and matches that are imported instead of extracted by COLMAP.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportedMatches {
    /// Keypoints and raw matches.
    Matches(MatchLists),
    /// A COLMAP database with both.
    Database(PathBuf),
}

/// Keypoints and raw matches of images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchLists {
    /// Keypoints of each image, px.
    pub keypoints: BTreeMap<String, Vec<[f32; 2]>>,
    /// Matches of pairs of images.
    pub pairs: Vec<ImagePair>,
}

/// Matches between two images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePair {
    /// Names of the images.
    pub names: [String; 2],
    /// Indices into their lists of keypoints.
    pub matches: Vec<[u32; 2]>,
}

/// An invalid place in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct InvalidEntry {
    /// The line or array.
    pub place: String,
    /// What is wrong at this place.
    pub problem: String,
}

impl InvalidEntry {
    fn new(place: impl ToString, problem: impl ToString) -> Self {
        Self { place: place.to_string(), problem: problem.to_string() }
    }
}

/// Why matches cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatchesError {
    /// There is nothing to read.
    #[error("{}: matches: none (expected {MATCHES_TXT} with a .txt of keypoints for each image, or {KEYPOINTS_NPZ} and {MATCHES_NPZ})", .0.display())]
    None(PathBuf),
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The contents are invalid.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Place and problem.
        problem: InvalidEntry,
    },
    /// It is not a COLMAP database.
    #[error("{}: database: not a COLMAP database (expected an SQLite 3 file)", .0.display())]
    NotADatabase(PathBuf),
}

impl ImportedMatches {
    /// Reads keypoints and matches from a folder. `frames` are the images of the job and `sizes` their sizes, the same
    /// in each frame.
    ///
    /// # Errors
    /// The folder has none, a file is malformed, an image is not part of the job, a keypoint is missing or outside its
    /// image, or no match is between two frames.
    pub fn read(folder: &Path, frames: &[FrameImages], sizes: &[[u32; 2]]) -> Result<Self, MatchesError> {
        let (keypoints, matches) = (folder.join(KEYPOINTS_NPZ), folder.join(MATCHES_NPZ));
        let list = folder.join(MATCHES_TXT);
        let (found, file) = if matches.is_file() || keypoints.is_file() {
            let found = MatchLists {
                keypoints: with_path(&keypoints, npz::keypoints(&read(&keypoints)?))?,
                pairs: with_path(&matches, npz::pairs(&read(&matches)?))?,
            };
            (found, matches)
        } else if list.is_file() {
            let pairs = with_path(&list, text::pairs(&read_text(&list)?))?;
            let mut all = BTreeMap::new();
            for name in frames.iter().flat_map(|frame| &frame.images) {
                let path = folder.join(format!("{name}.txt"));
                // An image without features has no file.
                if path.is_file() {
                    all.insert(name.clone(), with_path(&path, text::keypoints(&read_text(&path)?))?);
                }
            }
            (MatchLists { keypoints: all, pairs }, list)
        } else {
            return Err(match std::fs::metadata(folder) {
                Ok(_) => MatchesError::None(folder.to_owned()),
                Err(e) => MatchesError::Read { path: folder.to_owned(), reason: plain_reason(&e) },
            });
        };
        with_path(&file, found.validated(frames, sizes)).map(Self::Matches)
    }

    /// A COLMAP database. Only its signature is checked here; COLMAP reads its contents.
    ///
    /// # Errors
    /// It cannot be read, or is not a database.
    pub fn database(path: &Path) -> Result<Self, MatchesError> {
        let failed = |e| MatchesError::Read { path: path.to_owned(), reason: plain_reason(&e) };
        let mut file = input::open(path, MAX_DATABASE_BYTES).map_err(failed)?;
        let mut head = [0; 16];
        match std::io::Read::read_exact(&mut file, &mut head) {
            Ok(()) if head == *b"SQLite format 3\0" => Ok(Self::Database(path.to_owned())),
            _ => Err(MatchesError::NotADatabase(path.to_owned())),
        }
    }
}

impl MatchLists {
    /// Checks the matches against the images and removes pairs within one frame, whose relative pose is known.
    ///
    /// # Errors
    /// An image that is not part of the job, a keypoint outside its image, a match of a missing keypoint, or no pair
    /// left.
    pub fn validated(self, frames: &[FrameImages], sizes: &[[u32; 2]]) -> Result<Self, InvalidEntry> {
        let frame_of: BTreeMap<&str, usize> = (0..)
            .zip(frames)
            .flat_map(|(at, frame)| frame.images.iter().map(move |name| (name.as_str(), at)))
            .collect();
        let absent = |name: &str| {
            let first = frames.iter().flat_map(|f| &f.images).next().cloned().unwrap_or_default();
            InvalidEntry::new(
                format!("image {:?}", excerpt(name)),
                format!("is not part of this alignment (expected names such as {first:?})"),
            )
        };
        if let Some(name) = self.keypoints.keys().find(|name| !frame_of.contains_key(name.as_str())) {
            return Err(absent(name));
        }
        for (name, &[width, height]) in frames.iter().flat_map(|frame| frame.images.iter().zip(sizes)) {
            let is_outside =
                |[x, y]: &&[f32; 2]| !(0.0..=width as f32).contains(x) || !(0.0..=height as f32).contains(y);
            if let Some([x, y]) = self.keypoints.get(name).and_then(|list| list.iter().find(is_outside)) {
                let what = format!("a keypoint is at ({x}, {y}) (expected within {width}x{height} px)");
                return Err(InvalidEntry::new(format!("image {name:?}"), what));
            }
        }
        let mut pairs = Vec::new();
        for pair in self.pairs {
            let [a, b] = &pair.names;
            let place = || format!("pair {:?} {:?}", excerpt(a), excerpt(b));
            let (Some(first), Some(second)) = (frame_of.get(a.as_str()), frame_of.get(b.as_str())) else {
                let is_first = !frame_of.contains_key(a.as_str());
                return Err(absent(if is_first { a } else { b }));
            };
            for (side, name) in [a, b].into_iter().enumerate() {
                let count = self.keypoints.get(name).map_or(0, Vec::len);
                if let Some(row) = pair.matches.iter().find(|row| row[side] as usize >= count) {
                    let what = format!(
                        "a match names keypoint {} of {name:?} (expected less than {count})",
                        row[side]
                    );
                    return Err(InvalidEntry::new(place(), what));
                }
            }
            if first != second && !pair.matches.is_empty() {
                pairs.push(pair);
            }
        }
        if pairs.is_empty() {
            return Err(InvalidEntry::new("matches", "none between images of different frames"));
        }
        // COLMAP stores one list for two images, in either order.
        let mut seen = std::collections::BTreeSet::new();
        for pair in &pairs {
            let [a, b] = &pair.names;
            if !seen.insert(if a < b { (a, b) } else { (b, a) }) {
                return Err(InvalidEntry::new(
                    format!("pair {:?} {:?}", excerpt(a), excerpt(b)),
                    "listed twice",
                ));
            }
        }
        Ok(Self { pairs, ..self })
    }
}

fn with_path<T>(path: &Path, found: Result<T, InvalidEntry>) -> Result<T, MatchesError> {
    found.map_err(|problem| MatchesError::Invalid { path: path.to_owned(), problem })
}

fn read(path: &Path) -> Result<Vec<u8>, MatchesError> {
    input::read(path, MAX_BYTES)
        .map_err(|e| MatchesError::Read { path: path.to_owned(), reason: plain_reason(&e) })
}

fn read_text(path: &Path) -> Result<String, MatchesError> {
    String::from_utf8(read(path)?)
        .map_err(|_| MatchesError::Read { path: path.to_owned(), reason: "is not UTF-8".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<FrameImages> {
        ["a", "b"]
            .map(|name| FrameImages {
                name: name.into(),
                images: vec![format!("v0/{name}.jpg"), format!("v1/{name}.jpg")],
            })
            .to_vec()
    }

    fn matches(names: [&str; 2], rows: &[[u32; 2]]) -> MatchLists {
        let all = frames().into_iter().flat_map(|frame| frame.images);
        MatchLists {
            keypoints: all.map(|name| (name, vec![[1.0, 2.0]; 3])).collect(),
            pairs: vec![ImagePair { names: names.map(str::to_owned), matches: rows.to_vec() }],
        }
    }

    #[test]
    fn pairs_of_one_frame_are_left_out_and_mistakes_are_named() {
        let mut good = matches(["v0/a.jpg", "v1/b.jpg"], &[[0, 2]]);
        good.pairs.push(ImagePair { names: ["v0/a.jpg".into(), "v1/a.jpg".into()], matches: vec![[0, 0]] });
        assert_eq!(good.clone().validated(&frames(), &[[8, 8]; 2]).unwrap().pairs, good.pairs[..1]);
        let line = |matches: MatchLists| matches.validated(&frames(), &[[8, 8]; 2]).unwrap_err().to_string();
        assert_eq!(
            line(matches(["v0/a.jpg", "v0/c.jpg"], &[[0, 0]])),
            "image \"v0/c.jpg\": is not part of this alignment (expected names such as \"v0/a.jpg\")"
        );
        assert_eq!(
            line(matches(["v0/a.jpg", "v0/b.jpg"], &[[0, 0], [1, 3]])),
            "pair \"v0/a.jpg\" \"v0/b.jpg\": a match names keypoint 3 of \"v0/b.jpg\" (expected less than 3)"
        );
        assert_eq!(
            line(matches(["v0/a.jpg", "v1/a.jpg"], &[[0, 0]])),
            "matches: none between images of different frames"
        );
        let mut outside = matches(["v0/a.jpg", "v0/b.jpg"], &[[0, 0]]);
        outside.keypoints.insert("v1/b.jpg".into(), vec![[8.0, 0.0], [8.5, 1.0]]);
        assert_eq!(line(outside), "image \"v1/b.jpg\": a keypoint is at (8.5, 1) (expected within 8x8 px)");
        let mut twice = matches(["v0/a.jpg", "v0/b.jpg"], &[[0, 0]]);
        twice.pairs.push(ImagePair { names: ["v0/b.jpg".into(), "v0/a.jpg".into()], matches: vec![[0, 0]] });
        assert!(line(twice).ends_with("listed twice"));
    }

    #[test]
    fn folders_are_read_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = ImportedMatches::read(folder.path(), &frames(), &[[9, 9]; 2]).unwrap_err().to_string();
        assert!(nothing.contains("matches: none (expected matches.txt"), "{nothing}");
        std::fs::create_dir(folder.path().join("v0")).unwrap();
        std::fs::write(folder.path().join("v0/a.jpg.txt"), "2 0\n1.5 2.5\n3 4\n").unwrap();
        std::fs::write(folder.path().join("v0/b.jpg.txt"), "1 0\n9 8\n").unwrap();
        std::fs::write(folder.path().join(MATCHES_TXT), "v0/a.jpg v0/b.jpg\n1 0\n").unwrap();
        let ImportedMatches::Matches(found) =
            ImportedMatches::read(folder.path(), &frames(), &[[9, 9]; 2]).unwrap()
        else {
            panic!()
        };
        assert_eq!(found.keypoints["v0/a.jpg"], [[1.5, 2.5], [3.0, 4.0]]);
        assert_eq!(found.pairs[0].matches, [[1, 0]]);
        std::fs::write(folder.path().join("x.db"), "no database at all").unwrap();
        let refused = ImportedMatches::database(&folder.path().join("x.db")).unwrap_err().to_string();
        assert!(refused.contains("database: not a COLMAP database"), "{refused}");
    }
}
