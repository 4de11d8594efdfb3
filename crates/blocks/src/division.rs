//! The file of a division: `RUN/blocks/division.json`.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::{Cell, Ground};

/// First key of the file.
const FORMAT: &str = "gausset division";
/// Its version.
const VERSION: u32 = 2;
/// Maximum number of blocks.
const MAX_BLOCKS: usize = 1_000;

/// How a set is divided, and what its blocks would otherwise decide by the memory of their machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    format: String,
    version: u32,
    /// XXH3-128 of the file with an empty hash.
    hash: String,
    /// Version of Gausset.
    gausset: String,
    /// What it was made of.
    pub source: DivisionSource,
    /// Bytes that the tracks of the images may use: what is beyond them is left out in each block.
    pub tracks_bytes: u64,
    /// The ground, in normalised coordinates.
    pub ground: Ground,
    /// The blocks.
    pub blocks: Vec<BlockPlan>,
    /// Training images in no block, because they show nothing of the scene or less than others.
    pub unused: Vec<String>,
}

/// What a division was made of; it is of no use to anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivisionSource {
    /// Fingerprint of the dataset.
    pub fingerprint: String,
    /// Options of the run on which results depend.
    pub options: BTreeMap<String, String>,
    /// Hash of the corrections that all blocks are given.
    pub shared: String,
}

impl DivisionSource {
    /// The hash of a text, as the fields hold it.
    #[must_use]
    pub fn hash_of(text: &str) -> String {
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// The hash of a file, in the same form.
    ///
    /// # Errors
    /// Any error of reading.
    pub fn hash_of_file(file: &mut dyn Read) -> std::io::Result<String> {
        let mut hash = Xxh3::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(format!("{:032x}", hash.digest128())),
                read => hash.update(&buffer[..read]),
            }
        }
    }
}

/// A block of a division.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockPlan {
    /// Its cell.
    pub cell: Cell,
    /// Steps of its run.
    pub steps: u64,
    /// Maximum number of splats of its run.
    pub max_splats: u64,
    /// Longest side of the depth maps for its dense points, px; `None`: it has none.
    pub stereo_side: Option<u32>,
    /// Number of images left out because others show more of the cell.
    pub left_out: u64,
    /// Names of its images, sorted.
    pub images: Vec<String>,
}

/// What files of all versions begin with.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
    #[serde(default)]
    gausset: String,
}

/// Why a division cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DivisionError {
    /// Not JSON of a division.
    #[error("not a division: {0}")]
    Format(String),
    /// A field has a value that no division has.
    #[error("{field}: expected {expected}, found {found}")]
    Value {
        /// The field.
        field: &'static str,
        /// Expected value.
        expected: String,
        /// Found value.
        found: String,
    },
}

impl Division {
    /// A division.
    #[must_use]
    pub fn new(
        source: DivisionSource,
        ground: Ground,
        tracks_bytes: u64,
        blocks: Vec<BlockPlan>,
        unused: Vec<String>,
    ) -> Self {
        let mut division = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            hash: String::new(),
            gausset: env!("CARGO_PKG_VERSION").to_owned(),
            source,
            tracks_bytes,
            ground,
            blocks,
            unused,
        };
        division.hash = division.computed_hash();
        division
    }

    /// Text of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Not a division, one of another version, or one that was changed since it was written.
    pub fn from_json(text: &str) -> Result<Self, DivisionError> {
        let bad = |error: serde_json::Error| DivisionError::Format(error.to_string());
        let Head { format, version, gausset } = serde_json::from_str(text).map_err(bad)?;
        let check = |field, is_right: bool, expected: String, found: String| match is_right {
            true => Ok(()),
            false => Err(DivisionError::Value { field, expected, found }),
        };
        check("format", format == FORMAT, FORMAT.to_owned(), format)?;
        let found = format!("{version}, by gausset {gausset}");
        check("version", version == VERSION, VERSION.to_string(), found)?;
        let read: Self = serde_json::from_str(text).map_err(bad)?;
        let count = read.blocks.len();
        check(
            "blocks",
            (1..=MAX_BLOCKS).contains(&count),
            format!("1..{MAX_BLOCKS} blocks"),
            count.to_string(),
        )?;
        let hash = read.computed_hash();
        check("hash", read.hash == hash, format!("{hash}, as of this content"), read.hash.clone())?;
        Ok(read)
    }

    /// Identifies the division.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The name of a block (counted from 0) for messages and records.
    #[must_use]
    pub fn label(&self, block: usize) -> String {
        format!("block {} of {}, division {}", block + 1, self.blocks.len(), self.hash)
    }

    fn computed_hash(&self) -> String {
        let without = Self { hash: String::new(), ..self.clone() };
        DivisionSource::hash_of(&without.to_json())
    }
}
