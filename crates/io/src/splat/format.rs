//! Names of the formats, and the start of a file, by which a format recognises its files. Their properties are in
//! [`super::table`].

/// A file format for splats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// PLY of PlayCanvas: 16 bytes per splat and one per SH coefficient.
    CompressedPly,
    /// The `.ply` of the released 3DGS code (Kerbl et al. 2023): raw parameters, f32.
    Ply,
    /// glTF with `KHR_gaussian_splatting`, usually as a GLB.
    Gltf,
    /// Format of Niantic: quantised and compressed.
    Spz,
    /// Format of PlayCanvas: images with one pixel per splat.
    Sog,
    /// Folder of PlayCanvas with SOGs of parts of space at several levels of detail.
    StreamedSog,
    /// Format of mkkellogg: read only.
    Ksplat,
    /// HTML page of Gausset that contains a compressed PLY.
    Html,
    /// Format of antimatter15: 32 bytes per splat, no SH.
    Splat,
}

/// The start of a file.
pub(super) struct FileStart {
    /// Its first bytes.
    pub(super) bytes: Vec<u8>,
    /// Length of the whole file.
    pub(super) file_bytes: u64,
}

impl FileStart {
    /// Whether the file may be JSON.
    pub(super) fn is_json(&self) -> bool {
        self.bytes.trim_ascii_start().starts_with(b"{")
    }

    /// Whether the start contains a text.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Whether the first bytes are text rather than numbers.
    pub(super) fn is_text(&self) -> bool {
        let start = self.bytes.get(..64).unwrap_or(&self.bytes);
        start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
    }

    /// Whether it is a PLY of any kind.
    pub(super) fn is_ply(&self) -> bool {
        self.bytes.starts_with(b"ply\n") || self.bytes.starts_with(b"ply\r")
    }
}
