//! SPZ in a buffer view of a glTF: drafts of the compression of a primitive's splats as a whole.
//!
//! The drafts say that an SPZ decodes to the axes of glTF, as from RUB, those of its specification. CesiumJS, for which the
//! first drafts were written, keeps the axes that are stored, and so do the files of that time; they lack the `kernel` of
//! the final base extension.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::Cursor;

use gausset_core::splats_transform::Similarity;

use super::buffers::Buffer;
use super::columns::to_training_axes;
use super::json::{GltfRoot, Primitive};
use crate::splat::axes::HalfTurn;
use crate::splat::source::SourceFile;
use crate::splat::spz::{self, AS_IS};
use crate::splat::{Initial, LoadOptions, SplatError, SplatFile, SpzAxes};

/// Names of the extension in its drafts, inside the base extension or next to it.
const NAMES: [&str; 4] = [
    "KHR_spz_compression",
    "KHR_spz_gaussian_splats_compression",
    "KHR_gaussian_splatting_compression_spz",
    "KHR_gaussian_splatting_compression_spz_2",
];

/// Whether this is the extension in one of its drafts.
pub(super) fn is_spz_extension(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The SPZ of a primitive.
pub(super) struct PackedSplats {
    /// Index of the buffer view; `None` if the extension names none.
    view: Option<usize>,
    /// Axes of an SPZ that does not specify them.
    axes: SpzAxes,
}

impl PackedSplats {
    /// The SPZ of a primitive; `None` if its splats are not compressed.
    pub(super) fn of(primitive: &Primitive) -> Option<Self> {
        let base = primitive.splat_extension();
        let inside = base.and_then(|base| base.get("extensions"));
        let extension = NAMES.iter().find_map(|name| {
            inside.and_then(|inside| inside.get(name)).or_else(|| primitive.extensions.get(*name))
        })?;
        let view = extension.get("bufferView").and_then(|index| index.as_u64());
        let is_final = base.is_some_and(|base| base.get("kernel").is_some());
        Some(Self {
            view: view.and_then(|index| usize::try_from(index).ok()),
            axes: if is_final { SpzAxes::Rub } else { SpzAxes::AsIs },
        })
    }

    /// Reads the splats of a primitive with this transform in the scene, in the axes of training.
    pub(super) fn read(
        &self,
        source: &mut SourceFile<'_>,
        root: &GltfRoot,
        buffers: &mut [Buffer],
        transform: &Similarity,
    ) -> Result<SplatFile, SplatError> {
        let content = self.bytes(source, root, buffers)?;
        let spz_frame = Some(source.options.spz_frame.unwrap_or(self.axes));
        let options = &LoadOptions { spz_frame, ..*source.options };
        let (bytes, path, memory) = (content.len() as u64, source.path, source.memory);
        let stream = &mut Cursor::new(content);
        let read = spz::read(&mut SourceFile { stream, bytes, path, folder: None, options, memory })?;
        memory.release(bytes);
        let Initial::Splats(SplatFile { mut splats, antialiased, frame, sh_degree, report, .. }) = read
        else {
            return Err(source.damaged_error("meshes", "points in an SPZ", "splats", "points"));
        };
        if frame.as_deref() != Some(AS_IS) {
            HalfTurn::apply(&mut splats);
        }
        to_training_axes(&mut splats, transform);
        Ok(SplatFile { antialiased, frame, sh_degree, report, ..SplatFile::new(splats) })
    }

    /// Content of the buffer view.
    fn bytes(
        &self,
        source: &mut SourceFile<'_>,
        root: &GltfRoot,
        buffers: &mut [Buffer],
    ) -> Result<Vec<u8>, SplatError> {
        let view = self.view.and_then(|index| root.buffer_views.get(index));
        let missing = || {
            let found = self.view.map_or("none".to_owned(), |index| format!("number {index}"));
            source.damaged_error("SPZ", "no such bufferView", "one with a buffer", found)
        };
        let view = view.ok_or_else(missing)?;
        let buffer = buffers.get_mut(view.buffer).ok_or_else(missing)?;
        let end = view.byte_offset.checked_add(view.byte_length);
        if end.is_none_or(|end| end > buffer.bytes()) {
            let (expected, found) =
                (format!("{} bytes", buffer.bytes()), format!("{} more", view.byte_length));
            return Err(source.damaged_error("SPZ", "a view outside its buffer", expected, found));
        }
        let mut content = source.memory.vec_with_capacity(view.byte_length)?;
        content.resize(view.byte_length as usize, 0);
        buffer.read(source, view.byte_offset, &mut content)?;
        Ok(content)
    }
}
