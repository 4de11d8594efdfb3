//! Stores the state of a training run in a file, exact to the bit.
//!
//! A [`crate::container`] whose header is `{"kind", "caller", "state"}`: `caller` is the header that the trainer passed
//! (step, data cursor, options), `state` the scalars of [`TrainState`]. The arrays are sections:
//!
//! | section | values |
//! |---|---|
//! | `splats.*`, `moments.m.*`, `moments.v.*` | `means log_scales quats opacity_logits sh` |
//! | `clocks`, `ids` | one u32 per splat |
//! | `statistics.*` | `gradient_sum visible_steps max_radius` |
//! | `extras.N.*` | `values m v clocks` of the N-th parameter group in addition to the splats |
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::path::{Path, PathBuf};

use gausset_core::Splats;
use gausset_core::engine::{AdamMoments, CorrectionGroup, CorrectionKind, DensityStatistics, TrainState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::atomic::{FileSystem, WriteError, WriteOptions, WriteStats, write_atomic_with};
use crate::container::{ContainerError, ContainerReader, ContainerWriter, Requirement};
use crate::splat::ReadLimits;
use crate::text::{self, quote};

/// Value of `kind` in the header.
const KIND: &str = "gausset training state";

/// Largest number of parameter groups in addition to the splats.
const MAX_EXTRAS: usize = 64;

/// Why a checkpoint could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Writing failed; an existing file is unchanged.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file is damaged, truncated or not a container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The file is intact but does not contain a training state.
    #[error("{}: {place}: not a training state (expected {expected}, found {found})", path.display())]
    State {
        /// The file, which is a valid container.
        path: PathBuf,
        /// Header field or array.
        place: String,
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
}

impl CheckpointError {
    /// Whether the bytes of the file are damaged. A failed read, another version and too little memory are no damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use ContainerError::{Checksum, Header, NotAContainer, Structure};
        matches!(
            self,
            Self::Container(Checksum { .. } | Structure { .. } | NotAContainer { .. } | Header { .. })
        )
    }
}

/// The header of the container.
#[derive(Serialize, Deserialize)]
struct CheckpointHeader {
    kind: String,
    caller: Value,
    state: StateScalars,
}

/// The scalars of a [`TrainState`].
#[derive(Serialize, Deserialize)]
struct StateScalars {
    /// SH degrees of the splats and of their first and second moments.
    sh_degrees: [u8; 3],
    group_clock: u64,
    next_id: u32,
    extras: Vec<ExtraScalars>,
}

/// The scalars of an [`CorrectionGroup`].
#[derive(Serialize, Deserialize)]
struct ExtraScalars {
    name: String,
    width: u32,
}

/// Saves a training state and the caller's own `header` (step, data cursor, options …) atomically.
///
/// # Errors
/// Less free space than twice the size, a failed write, or a header larger than 1 MiB.
pub fn save_train_state(
    fs: &dyn FileSystem,
    path: &Path,
    state: &TrainState,
    header: &Value,
) -> Result<WriteStats, CheckpointError> {
    check_shapes(state).map_err(|m| m.at(path))?;
    let extras = state
        .corrections
        .iter()
        .map(|g| ExtraScalars { name: g.group.name().to_owned(), width: g.group.values_per_row() as u32 });
    let scalars = StateScalars {
        sh_degrees: [state.splats.sh_degree, state.moments.m.sh_degree, state.moments.v.sh_degree],
        group_clock: state.dense_update_count,
        next_id: state.next_id,
        extras: extras.collect(),
    };
    let header = CheckpointHeader { kind: KIND.to_owned(), caller: header.clone(), state: scalars };
    let options = WriteOptions {
        label: "checkpoint",
        needed_bytes: 2 * train_state_bytes(state),
        ..WriteOptions::default()
    };
    let ((), committed) = write_atomic_with(fs, path, &options, |file| {
        let mut out = ContainerWriter::new(file, &serde_json::to_value(&header)?)?;
        for (prefix, splats) in splat_sets(state) {
            out.section(&format!("{prefix}.means"), Requirement::Required, &splats.means)?;
            out.section(&format!("{prefix}.log_scales"), Requirement::Required, &splats.log_scales)?;
            out.section(&format!("{prefix}.quats"), Requirement::Required, &splats.quats)?;
            out.section(&format!("{prefix}.opacity_logits"), Requirement::Required, &splats.opacity_logits)?;
            out.section(&format!("{prefix}.sh"), Requirement::Required, &splats.sh)?;
        }
        out.section("clocks", Requirement::Required, &state.update_counts)?;
        out.section("ids", Requirement::Required, &state.ids)?;
        out.section("statistics.gradient_sum", Requirement::Required, &state.statistics.gradient_sum)?;
        out.section("statistics.visible_steps", Requirement::Required, &state.statistics.visible_steps)?;
        out.section("statistics.max_radius", Requirement::Required, &state.statistics.max_radius)?;
        for (i, group) in state.corrections.iter().enumerate() {
            out.section(&format!("extras.{i}.values"), Requirement::Required, &group.values)?;
            out.section(&format!("extras.{i}.m"), Requirement::Required, &group.m)?;
            out.section(&format!("extras.{i}.v"), Requirement::Required, &group.v)?;
            out.section(&format!("extras.{i}.clocks"), Requirement::Required, &group.update_counts)?;
        }
        out.finish().map(|_| ())
    })?;
    Ok(committed)
}

/// Loads a training state and the caller's header, and verifies every byte.
///
/// # Errors
/// The file is damaged or does not contain a training state.
pub fn load_train_state(path: &Path) -> Result<(TrainState, Value), CheckpointError> {
    // `section` verifies each section that it reads, and all sections are read.
    let container = ContainerReader::open_header(path)?;
    let bytes: u64 = container.sections().iter().map(|section| section.bytes).sum();
    let limit = ReadLimits::default().memory_bytes.saturating_mul(2);
    if bytes > limit {
        let (expected, found) = (
            format!("at most the memory of this machine, {}", text::format_bytes(limit)),
            text::format_bytes(bytes),
        );
        return Err(Inconsistency { place: "sections".to_owned(), expected, found }.at(path));
    }
    StateReader { container, path }.read()
}

/// As [`load_train_state`], from bytes in memory; `path` is for messages.
///
/// ```
/// use gausset_io::checkpoint::parse_train_state;
///
/// assert!(parse_train_state(b"not a checkpoint", "run.ckpt".as_ref()).is_err());
/// ```
///
/// # Errors
/// As [`load_train_state`].
pub fn parse_train_state(bytes: &[u8], path: &Path) -> Result<(TrainState, Value), CheckpointError> {
    let container = ContainerReader::from_source(std::io::Cursor::new(bytes), path)?;
    StateReader { container, path }.read()
}

/// Bytes of the arrays of a state in a file.
#[must_use]
pub fn train_state_bytes(state: &TrainState) -> u64 {
    let splats = |s: &Splats| {
        3 * s.means.len() + 3 * s.log_scales.len() + 4 * s.quats.len() + s.opacity_logits.len() + s.sh.len()
    };
    let statistics = &state.statistics;
    let extra = |g: &CorrectionGroup| g.values.len() + g.m.len() + g.v.len() + g.update_counts.len();
    let words = splats(&state.splats)
        + splats(&state.moments.m)
        + splats(&state.moments.v)
        + state.update_counts.len()
        + state.ids.len()
        + statistics.gradient_sum.len()
        + statistics.visible_steps.len()
        + statistics.max_radius.len()
        + state.corrections.iter().map(extra).sum::<usize>();
    4 * words as u64
}

/// The three splat-shaped sets of arrays and the prefixes of their sections.
fn splat_sets(state: &TrainState) -> [(&'static str, &Splats); 3] {
    [("splats", &state.splats), ("moments.m", &state.moments.m), ("moments.v", &state.moments.v)]
}

/// Reads a state from a container.
struct StateReader<'a, R> {
    container: ContainerReader<R>,
    path: &'a Path,
}

impl<R: std::io::Read + std::io::Seek> StateReader<'_, R> {
    fn read(mut self) -> Result<(TrainState, Value), CheckpointError> {
        let header = self.header()?;
        let scalars = header.state;
        let groups: Vec<CorrectionKind> =
            scalars.extras.iter().map(parse_group).collect::<Result<_, _>>().map_err(|m| m.at(self.path))?;
        self.container.refuse_unknown(|name| {
            let group = name.strip_prefix("extras.").and_then(|rest| rest.split('.').next());
            match group {
                Some(number) => number.parse().is_ok_and(|n: usize| n < groups.len()),
                None => ["splats.", "moments.m.", "moments.v.", "clocks", "ids", "statistics."]
                    .iter()
                    .any(|known| name.starts_with(known)),
            }
        })?;
        let [splats_degree, m_degree, v_degree] = scalars.sh_degrees;
        let state = TrainState {
            splats: self.splats("splats", splats_degree)?,
            moments: AdamMoments {
                m: self.splats("moments.m", m_degree)?,
                v: self.splats("moments.v", v_degree)?,
            },
            update_counts: self.container.section("clocks")?,
            dense_update_count: scalars.group_clock,
            ids: self.container.section("ids")?,
            next_id: scalars.next_id,
            statistics: DensityStatistics {
                gradient_sum: self.container.section("statistics.gradient_sum")?,
                visible_steps: self.container.section("statistics.visible_steps")?,
                max_radius: self.container.section("statistics.max_radius")?,
            },
            corrections: groups
                .into_iter()
                .enumerate()
                .map(|(i, g)| self.extra(i, g))
                .collect::<Result<_, _>>()?,
        };
        check_shapes(&state).map_err(|m| m.at(self.path))?;
        Ok((state, header.caller))
    }

    fn header(&self) -> Result<CheckpointHeader, CheckpointError> {
        let json = self.container.header();
        let found = json.get("kind").and_then(Value::as_str).unwrap_or("no kind");
        if found != KIND {
            let place = "header field kind".to_owned();
            let (expected, found) = (format!("\"{KIND}\""), quote(found));
            return Err(Inconsistency { place, expected, found }.at(self.path));
        }
        CheckpointHeader::deserialize(json).map_err(|e| {
            let (place, expected) = ("header".to_owned(), "its fields".to_owned());
            Inconsistency { place, expected, found: e.to_string() }.at(self.path)
        })
    }

    fn splats(&mut self, prefix: &str, sh_degree: u8) -> Result<Splats, ContainerError> {
        Ok(Splats {
            sh_degree,
            means: self.container.section(&format!("{prefix}.means"))?,
            log_scales: self.container.section(&format!("{prefix}.log_scales"))?,
            quats: self.container.section(&format!("{prefix}.quats"))?,
            opacity_logits: self.container.section(&format!("{prefix}.opacity_logits"))?,
            sh: self.container.section(&format!("{prefix}.sh"))?,
        })
    }

    fn extra(&mut self, number: usize, group: CorrectionKind) -> Result<CorrectionGroup, ContainerError> {
        Ok(CorrectionGroup {
            group,
            values: self.container.section(&format!("extras.{number}.values"))?,
            m: self.container.section(&format!("extras.{number}.m"))?,
            v: self.container.section(&format!("extras.{number}.v"))?,
            update_counts: self.container.section(&format!("extras.{number}.clocks"))?,
        })
    }
}

/// The group with this name, if its row width is as expected.
fn parse_group(scalars: &ExtraScalars) -> Result<CorrectionKind, Inconsistency> {
    let misfit =
        |expected: String, found: String| Inconsistency { place: "extras".to_owned(), expected, found };
    let Some(group) = CorrectionKind::from_name(&scalars.name) else {
        let names = CorrectionKind::ALL.map(CorrectionKind::name).join(", ");
        return Err(misfit(format!("one of {names}"), quote(&scalars.name)));
    };
    if scalars.width as usize != group.values_per_row() {
        let expected = format!("{} values in a row of {group}", group.values_per_row());
        return Err(misfit(expected, scalars.width.to_string()));
    }
    Ok(group)
}

/// A part of a state that is inconsistent with the rest.
struct Inconsistency {
    place: String,
    expected: String,
    found: String,
}

impl Inconsistency {
    fn at(self, path: &Path) -> CheckpointError {
        let Self { place, expected, found } = self;
        CheckpointError::State { path: path.to_owned(), place, expected, found }
    }
}

/// Checks that all arrays have the same number of splats.
fn check_shapes(state: &TrainState) -> Result<(), Inconsistency> {
    let misfit = |place: &str, expected: String, found: String| Inconsistency {
        place: place.to_owned(),
        expected,
        found,
    };
    let n = state.splats.len();
    for (prefix, splats) in splat_sets(state) {
        splats.validate().map_err(|e| misfit(prefix, "arrays that fit".to_owned(), e.to_string()))?;
        if splats.len() != n || splats.sh_degree != state.splats.sh_degree {
            let expected = format!("{n} rows of SH degree {}", state.splats.sh_degree);
            return Err(misfit(prefix, expected, format!("{} of degree {}", splats.len(), splats.sh_degree)));
        }
    }
    let mut lengths = vec![
        ("clocks".to_owned(), state.update_counts.len(), n),
        ("ids".to_owned(), state.ids.len(), n),
        ("statistics.gradient_sum".to_owned(), state.statistics.gradient_sum.len(), n),
        ("statistics.visible_steps".to_owned(), state.statistics.visible_steps.len(), n),
        ("statistics.max_radius".to_owned(), state.statistics.max_radius.len(), n),
        ("extras".to_owned(), state.corrections.len(), state.corrections.len().min(MAX_EXTRAS)),
    ];
    for (i, group) in state.corrections.iter().enumerate() {
        let values = group.values.len();
        let rows = values / group.group.values_per_row();
        lengths.push((format!("extras.{i}.values"), values, rows * group.group.values_per_row()));
        lengths.push((format!("extras.{i}.m"), group.m.len(), values));
        lengths.push((format!("extras.{i}.v"), group.v.len(), values));
        lengths.push((format!("extras.{i}.clocks"), group.update_counts.len(), rows));
    }
    match lengths.into_iter().find(|(_, found, expected)| found != expected) {
        Some((place, found, expected)) => {
            Err(misfit(&place, format!("{expected} values"), found.to_string()))
        }
        None => Ok(()),
    }
}
