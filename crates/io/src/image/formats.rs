//! The formats of pictures, by file name: one list for photographs, training and panoramas.
//!
//! Files are decoded by their content; names only decide which files of a folder are pictures.

use std::path::Path;

/// What a file with the name of a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedFormat {
    /// Is read: JPEG, PNG, TIFF or WebP.
    Readable,
    /// HEIC, HEIF or AVIF.
    Heif,
    /// A raw photograph.
    Raw,
    /// Another picture format.
    Other,
}

/// Endings of pictures that are read; `.insp` is a JPEG of Insta360.
const READABLE: [&str; 9] = ["jpg", "jpeg", "jpe", "jfif", "insp", "png", "tif", "tiff", "webp"];
const HEIF: [&str; 6] = ["heic", "heif", "hif", "avif", "heics", "avci"];
const RAW: [&str; 20] = [
    "dng", "cr2", "cr3", "crw", "nef", "nrw", "arw", "srf", "sr2", "orf", "rw2", "raf", "pef", "srw", "x3f",
    "3fr", "iiq", "gpr", "raw", "rwl",
];
const OTHER: [&str; 14] =
    ["bmp", "gif", "jxl", "jp2", "j2k", "exr", "hdr", "tga", "psd", "ppm", "pgm", "mpo", "dds", "jxr"];

/// The format of a file by its ending, in any case; `None` if it is no picture.
#[must_use]
pub fn named_format(path: &Path) -> Option<NamedFormat> {
    format_of_ending(path.extension()?.to_str()?)
}

/// The format of files with an ending, in any case; `None` if they are no pictures.
pub(crate) fn format_of_ending(ending: &str) -> Option<NamedFormat> {
    let ending = ending.to_ascii_lowercase();
    let is_one_of = |list: &[&str]| list.contains(&ending.as_str());
    match () {
        () if is_one_of(&READABLE) => Some(NamedFormat::Readable),
        () if is_one_of(&HEIF) => Some(NamedFormat::Heif),
        () if is_one_of(&RAW) => Some(NamedFormat::Raw),
        () if is_one_of(&OTHER) => Some(NamedFormat::Other),
        () => None,
    }
}

/// Whether a file has the ending of a picture that is read.
#[must_use]
pub fn is_readable(path: &Path) -> bool {
    named_format(path) == Some(NamedFormat::Readable)
}

impl NamedFormat {
    /// What to do with pictures of this format; `None` if they are read.
    #[must_use]
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::Readable => None,
            Self::Heif => {
                Some("convert them to JPEG, e.g. `heif-convert` or `magick mogrify -format jpg *.HEIC`")
            }
            Self::Raw => Some("develop them to JPEG or TIFF, e.g. `darktable-cli` or `dcraw -T`"),
            Self::Other => Some("convert them to JPEG or PNG, e.g. `magick mogrify -format png`"),
        }
    }
}

/// `40 HEIC files left out: convert them …`: names by their ending.
#[must_use]
pub fn left_out_line(format: NamedFormat, ending: &str, count: usize) -> Option<String> {
    let (files, them) = if count == 1 { ("file", " it ") } else { ("files", " them ") };
    let ending = ending.to_ascii_uppercase();
    format
        .advice()
        .map(|advice| format!("{count} {ending} {files} left out: {}", advice.replacen(" them ", them, 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_one_format_in_any_case() {
        let of = |name: &str| named_format(Path::new(name));
        for (name, format) in [
            ("a.JPG", Some(NamedFormat::Readable)),
            ("a.b.webp", Some(NamedFormat::Readable)),
            ("IMG_1.HEIC", Some(NamedFormat::Heif)),
            ("x.dng", Some(NamedFormat::Raw)),
            ("x.Cr3", Some(NamedFormat::Raw)),
            ("x.bmp", Some(NamedFormat::Other)),
            ("x.mp4", None),
            ("jpg", None),
        ] {
            assert_eq!(of(name), format, "{name}");
        }
        let mut all = [&READABLE[..], &HEIF, &RAW, &OTHER].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(
            left_out_line(NamedFormat::Raw, "dng", 1).unwrap(),
            "1 DNG file left out: develop it to JPEG or TIFF, e.g. `darktable-cli` or `dcraw -T`"
        );
    }
}
