//! The splats of a glTF by primitive: found, checked, read and put together.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use gausset_core::Splats;
use gausset_core::splats_transform::Similarity;

use super::EXTENSION;
use super::buffers::Buffer;
use super::columns::Columns;
use super::json::{GltfRoot, PlacedMesh, Primitive};
use super::spz::{PackedSplats, is_spz_extension};
use crate::splat::source::SourceFile;
use crate::splat::usable::splat_bytes;
use crate::splat::{Format, SplatError, SplatFile};
use crate::text::quote;

/// Fewest bytes of a splat with all attributes: those of a draft with the smallest types.
const MIN_SPLAT_BYTES: u64 = 23;
/// How many meshes may share the same data.
const MAX_REUSE: u64 = 16;

/// Splats of one primitive.
enum Part {
    /// Columns that are not read yet.
    Columns(Columns),
    /// Splats that were compressed as a whole.
    Unpacked(Box<SplatFile>),
}

impl Part {
    fn degree(&self) -> u8 {
        match self {
            Self::Columns(columns) => columns.degree,
            Self::Unpacked(document) => document.splats.sh_degree,
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Columns(columns) => columns.count,
            Self::Unpacked(document) => document.splats.len() as u64,
        }
    }

    /// The splats, with an SH degree that may be higher than stored.
    fn read(
        self,
        degree: u8,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
    ) -> Result<SplatFile, SplatError> {
        match self {
            Self::Columns(columns) => columns.read(degree, source, buffers),
            Self::Unpacked(document) if document.splats.sh_degree == degree => Ok(*document),
            Self::Unpacked(document) => {
                let count = document.splats.len() as u64;
                source.memory.reserve(splat_bytes(count, degree))?;
                let splats = document.splats.with_sh_degree(degree);
                source.memory.release(splat_bytes(count, document.splats.sh_degree));
                Ok(SplatFile { splats, ..*document })
            }
        }
    }
}

/// The splats of all primitives, in the order of the scene.
pub(super) struct Parts {
    parts: Vec<Part>,
    notes: Vec<String>,
    /// Whether it is one primitive without a transform.
    pub(super) is_unmoved: bool,
}

impl Parts {
    /// Finds the splats of the meshes of a scene.
    pub(super) fn find(
        placed: &[PlacedMesh],
        source: &mut SourceFile<'_>,
        root: &GltfRoot,
        buffers: &mut [Buffer],
    ) -> Result<Self, SplatError> {
        let total = buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes()));
        let most = total.saturating_mul(MAX_REUSE) / MIN_SPLAT_BYTES;
        let mut found = Self { parts: Vec::new(), notes: Vec::new(), is_unmoved: true };
        let mut count = 0u64;
        for PlacedMesh { mesh, transform } in placed {
            let Some(mesh) = root.meshes.get(*mesh) else {
                let (expected, found) = (format!("a number below {}", root.meshes.len()), mesh.to_string());
                return Err(source.damaged_error("nodes", "there is no such mesh", expected, found));
            };
            for primitive in &mesh.primitives {
                let part = match PackedSplats::of(primitive) {
                    Some(packed) => {
                        let document = packed.read(source, root, buffers, transform)?;
                        Part::Unpacked(Box::new(document))
                    }
                    None if primitive.splat_extension().is_some() => {
                        found.check_extension(source, primitive)?;
                        let columns = Columns::from_primitive(source, root, buffers, primitive, *transform)?;
                        count = count.saturating_add(columns.count);
                        if count > most {
                            let what = "more splats than the buffers can hold";
                            let expected = format!("at most {most} in {total} bytes");
                            return Err(source.damaged_error("meshes", what, expected, count.to_string()));
                        }
                        Part::Columns(columns)
                    }
                    None => continue,
                };
                found.parts.push(part);
                found.is_unmoved = found.parts.len() == 1 && *transform == Similarity::IDENTITY;
            }
        }
        if found.parts.is_empty() {
            let (expected, found) = (format!("the extension {EXTENSION}"), "no primitive with it");
            return Err(source.damaged_error("meshes", "a glTF without splats", expected, found));
        }
        Ok(found)
    }

    /// Checks the properties of the extension of a primitive.
    fn check_extension(&mut self, source: &SourceFile<'_>, primitive: &Primitive) -> Result<(), SplatError> {
        let Some(extension) = primitive.splat_extension() else { return Ok(()) };
        let inner = extension.get("extensions").and_then(|inner| inner.as_object());
        if let Some((name, _)) =
            inner.and_then(|inner| inner.iter().find(|(name, _)| !is_spz_extension(name)))
        {
            let what = "an extension that is not read";
            return Err(source.damaged_error(EXTENSION, what, "splats that are not compressed", quote(name)));
        }
        match extension.get("kernel").and_then(|kernel| kernel.as_str()) {
            Some("ellipse") | None => {}
            Some(kernel) => {
                let what = "a shape that is not read";
                return Err(source.damaged_error("kernel", what, "ellipse", quote(kernel)));
            }
        }
        let space = extension.get("colorSpace").and_then(|space| space.as_str()).unwrap_or_default();
        if space.starts_with("lin_") {
            let note = "colorSpace: shown as they are (expected srgb_rec709_display, found linear colours)";
            if !self.notes.iter().any(|other| other == note) {
                self.notes.push(note.to_owned());
            }
        }
        Ok(())
    }

    /// Reads all splats.
    pub(super) fn read(
        self,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
    ) -> Result<SplatFile, SplatError> {
        let degree = self.parts.iter().map(Part::degree).max().unwrap_or(0);
        let count = self.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.count()));
        let mut parts = self.parts.into_iter();
        let mut all = match (parts.len(), parts.next()) {
            (1, Some(part)) => part.read(degree, source, buffers)?,
            (_, first) => {
                source.memory.reserve_rows(count, splat_bytes(count, degree))?;
                let mut all = SplatFile::new(Splats::with_capacity(degree, count as usize));
                for part in first.into_iter().chain(parts) {
                    let bytes = splat_bytes(part.count(), degree);
                    let document = part.read(degree, source, buffers)?;
                    all.splats.append(&document.splats);
                    source.memory.release(bytes);
                    all.antialiased |= document.antialiased;
                    all.sh_degree = all.sh_degree.max(document.sh_degree);
                    all.report.add(document.report);
                }
                all
            }
        };
        all.report.notes.extend(self.notes);
        Ok(SplatFile { format: Format::Gltf, ..all })
    }
}
