//! The reference data of the renderer: `raster/index.json` and one `<case>.safetensors` per case.
//!
//! The format is described in `testdata/fixtures/raster/README.md`. Loading is strict, so that nothing is skipped
//! silently: a tensor file that the index does not list, a listed case without a file, a result tensor without a rule
//! and a rule without a tensor are all failures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::paths::{FIXTURES_VARIABLE, fixtures_dir};
use crate::tensor::Tensor;

/// The kind of a case; determines its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// A render with a loss that is linear in colour, alpha and depth.
    Raster,
    /// A render with the training loss against a target.
    RasterLoss,
    /// Rotation and covariance of quaternions and log scales.
    Covariance,
    /// SH basis and colour.
    Sh,
    /// Screen-space splats.
    Projection,
    /// SSIM and the training loss of two images.
    Ssim,
    /// Steps of Adam.
    Adam,
    /// Initial scales from nearest neighbours.
    Knn,
}

impl CaseKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Raster,
        Self::RasterLoss,
        Self::Covariance,
        Self::Sh,
        Self::Projection,
        Self::Ssim,
        Self::Adam,
        Self::Knn,
    ];
}

/// Scalar settings of a case; those that do not apply to its kind are 0, `false` or empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CaseSettings {
    /// Image width in px.
    pub width: u32,
    /// Image height in px.
    pub height: u32,
    /// Active SH degree.
    pub sh_degree: u8,
    /// Whether opacity is compensated.
    pub antialiased: bool,
    /// Number of splats.
    pub num_splats: usize,
    /// Per-tile caps for which there are results; 0 = no limit.
    pub caps: Vec<u32>,
    /// Longest tile list without a cap.
    pub max_tile_list: usize,
    /// Adam: number of steps.
    pub steps: usize,
    /// Adam: steps taken before.
    pub t0: u64,
}

/// Bounds of one tensor for one precision: either of the two is enough.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Tolerance {
    /// Largest relative L2 error.
    pub rel: f64,
    /// Largest absolute error of any value.
    pub abs: f64,
}

/// How a tensor is compared.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct CompareRule {
    /// Tolerance of a single-precision backend.
    pub f32: Option<Tolerance>,
    /// Tolerance of a double-precision backend.
    pub f64: Option<Tolerance>,
    /// Whether values must be equal (integers and flags).
    #[serde(default)]
    pub equal: bool,
    /// Whether only robust pixels are compared.
    pub masked: bool,
}

/// One case with all its tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name: the file's name without its extension.
    pub name: String,
    /// Kind of the case.
    pub kind: CaseKind,
    /// One sentence.
    pub description: String,
    /// Scalar settings.
    pub settings: CaseSettings,
    /// Every tensor of the file by name, `in.*` and `mask.*` included.
    pub tensors: BTreeMap<String, Tensor>,
    /// The rule of every `out.*`, `grad.*` and `mid.*` tensor.
    pub rules: BTreeMap<String, CompareRule>,
}

/// All cases of a folder, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixtures {
    /// The folder from which they were read.
    pub folder: PathBuf,
    /// The cases in the order of their names.
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Index {
    format: String,
    cases: BTreeMap<String, IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    kind: CaseKind,
    about: String,
    #[serde(flatten)]
    settings: CaseSettings,
    tolerances: BTreeMap<String, CompareRule>,
}

impl Fixtures {
    /// Reads every case under `$GAUSSET_FIXTURES/raster`, or under the project's own copy if the variable is not set.
    ///
    /// # Panics
    /// If there is no case, or files and index are inconsistent.
    #[must_use]
    pub fn load() -> Self {
        Self::load_from(&fixtures_dir().join("raster"))
    }

    /// Reads every case of a folder.
    ///
    /// # Panics
    /// As [`Self::load`].
    #[must_use]
    pub fn load_from(folder: &Path) -> Self {
        let files = tensor_files(folder);
        assert!(
            !files.is_empty(),
            "{}: no *.safetensors there; let {FIXTURES_VARIABLE} name the folder that contains `raster`, or unset it",
            folder.display()
        );
        let mut index = read_index(&folder.join("index.json"));
        let cases = files
            .iter()
            .map(|file| {
                let name = file.file_stem().expect("the name ends in .safetensors").to_string_lossy();
                let entry = index.cases.remove(&*name).unwrap_or_else(|| {
                    panic!("{}: not listed in index.json; it would not be tested", file.display())
                });
                read_case(file, name.into_owned(), entry)
            })
            .collect();
        assert!(
            index.cases.is_empty(),
            "{}: index.json lists cases without a file: {:?}",
            folder.display(),
            index.cases.keys()
        );
        Self { folder: folder.to_owned(), cases }
    }

    /// The cases of one kind.
    pub fn with_kind(&self, kind: CaseKind) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.kind == kind)
    }

    /// The case with this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn case(&self, name: &str) -> &Case {
        let found = self.cases.iter().find(|case| case.name == name);
        found.unwrap_or_else(|| panic!("{}: no case `{name}`", self.folder.display()))
    }
}

impl Case {
    /// A tensor of the file, for example `in.means`.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("{}: no tensor `{name}` in the file", self.name))
    }

    /// Names of the tensors that a backend has to supply: `out.*` and `grad.*`, and `mid.*` if `intermediates`.
    pub fn required(&self, intermediates: bool) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str).filter(move |name| intermediates || !name.starts_with("mid."))
    }

    /// Names of the parameter groups of an Adam case: those with an `in.<group>.param`.
    pub fn parameter_groups(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().filter_map(|name| name.strip_prefix("in.")?.strip_suffix(".param"))
    }
}

fn tensor_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|err| {
        panic!(
            "{}: {err}; let {FIXTURES_VARIABLE} name the folder that contains `raster`, or unset it",
            folder.display()
        )
    });
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    files.sort();
    files
}

fn read_index(path: &Path) -> Index {
    let text = std::fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    let index: Index = serde_json::from_str(&text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    assert_eq!(index.format, "gausset-fixtures/1", "{}: format", path.display());
    index
}

fn read_case(file: &Path, name: String, entry: IndexEntry) -> Case {
    let bytes = std::fs::read(file).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
    let views = SafeTensors::deserialize(&bytes).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
    let mut tensors = BTreeMap::new();
    for (tensor_name, view) in views.tensors() {
        let values = to_f64(view.dtype(), view.data()).unwrap_or_else(|| {
            panic!(
                "{}: `{tensor_name}` has type {:?} (expected F64, F32, I32 or U8)",
                file.display(),
                view.dtype()
            )
        });
        tensors.insert(tensor_name, Tensor::new(view.shape(), &values));
    }
    for tensor_name in tensors.keys().filter(|n| !n.starts_with("in.") && !n.starts_with("mask.")) {
        assert!(
            entry.tolerances.contains_key(tensor_name),
            "{}: index.json has no rule for `{tensor_name}`; it would not be tested",
            file.display()
        );
    }
    for (tensor_name, rule) in &entry.tolerances {
        assert!(tensors.contains_key(tensor_name), "{}: tensor `{tensor_name}` is missing", file.display());
        assert!(
            rule.equal || (rule.f32.is_some() && rule.f64.is_some()),
            "{}: `{tensor_name}` has neither tolerances nor `equal` in index.json",
            file.display()
        );
    }
    Case {
        name,
        kind: entry.kind,
        description: entry.about,
        settings: entry.settings,
        tensors,
        rules: entry.tolerances,
    }
}

/// Little-endian bytes as f64 values.
fn to_f64(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        Dtype::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
        Dtype::I32 => bytes.as_chunks().0.iter().map(|b| f64::from(i32::from_le_bytes(*b))).collect(),
        Dtype::U8 => bytes.iter().map(|&b| f64::from(b)).collect(),
        _ => return None,
    })
}
