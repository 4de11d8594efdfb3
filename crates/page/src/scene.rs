//! A scene as one file that a browser opens from disk: an HTML page with a compressed PLY in it.
//!
//! ```text
//! page … <script type="application/octet-stream" id="splats" data-bytes="N">S</script> … script
//! ```
//! S is the PLY, compressed with zlib to N bytes, as text of 7 bits per character ([`crate::text::write_base128`]). The
//! content policy of the page forbids all loading and allows only the page's own script, by its SHA-256.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use crate::text::{csp_hash, escape_html, read_base128, script_json, write_base128};
use crate::{
    BASE, CAMERA, CONTROLS, INPUT, SPLATS, UNPACK, bundle, fill_template, is_gausset_page, unindented,
};

const TEMPLATE: &str = include_str!("../script/alone.html");
const STYLE: &str = include_str!("../script/alone.css");
const SCENE_SCRIPT: &str = include_str!("../script/alone.js");
/// Most bytes of compressed splats in a page: a string in a browser (V8) has at most 2^29 characters.
const MAX_PACKED_BYTES: usize = 450_000_000;
/// Precedes the length of the splats in the page.
const LENGTH_ATTRIBUTE: &[u8] = b"id=\"splats\" data-bytes=\"";

/// Data of the page in addition to the splats. The page estimates missing values from the splats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScenePage {
    /// Title shown on the page.
    pub title: String,
    /// Up direction. All values here are in the axes of the splats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<[f64; 3]>,
    /// Point to orbit around.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centre: Option<[f64; 3]>,
    /// Radius of the scene around the centre, scene units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radius: Option<f64>,
    /// Colour behind the splats, 0 to 1.
    pub background: [f32; 3],
    /// Nearest depth that is rendered, scene units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
    /// Initial view if there are no cameras.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<PageCamera>,
    /// Number of splats that are a sky around the scene.
    pub sky: usize,
    /// Cameras that the user can select; the first is the initial view.
    pub cameras: Vec<PageCamera>,
}

/// A camera that the user can select.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageCamera {
    /// Name shown on the page.
    pub name: String,
    /// Width, height, focal lengths, principal point, px.
    pub camera: [f32; 6],
    /// Rows of `camera_from_world`, 3x4.
    pub pose: [f32; 12],
}

/// The script of the page.
fn script() -> String {
    bundle(&[CAMERA, CONTROLS, INPUT, UNPACK, SPLATS, SCENE_SCRIPT])
}

/// The style of the page.
fn style() -> String {
    format!("{}\n{}", unindented(BASE), unindented(STYLE))
}

/// Content policy sources of the script and the style of the page.
pub(crate) fn hashes() -> [String; 2] {
    [csp_hash(&script()), csp_hash(&style())]
}

/// Writes the page of a scene whose splats are these bytes of a compressed PLY. Returns the length of the page.
///
/// # Errors
/// The writer failed.
pub fn write(out: &mut dyn Write, scene: &ScenePage, ply: &[u8]) -> io::Result<u64> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(ply)?;
    let packed = packer.finish()?;
    if packed.len() > MAX_PACKED_BYTES {
        let megabytes = |bytes: usize| bytes / 1_000_000;
        let line = format!(
            "{} MB of splats are too many for a web page (expected at most {} MB): use fewer splats or a lower SH degree",
            megabytes(packed.len()),
            megabytes(MAX_PACKED_BYTES)
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, line));
    }
    let (script, style) = (script(), style());
    let [script_hash, style_hash] = hashes();
    let policy = format!(
        "default-src 'none'; script-src {script_hash}; style-src {style_hash}; img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
    );
    let text = |name: &str| match name {
        "policy" => policy.clone(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "title" => escape_html(&scene.title),
        "style" => style.clone(),
        "scene" => script_json(scene),
        "bytes" => packed.len().to_string(),
        "script" => script.clone(),
        _ => String::new(),
    };
    let (before, after) = TEMPLATE.split_once("{splats}").unwrap_or((TEMPLATE, ""));
    let mut counted = CountingWriter { out, bytes: 0 };
    counted.write_all(fill_template(before, text).as_bytes())?;
    write_base128(&mut counted, &packed)?;
    counted.write_all(fill_template(after, text).as_bytes())?;
    Ok(counted.bytes)
}

/// Whether a file that begins with these bytes is a page written by [`write()`].
#[must_use]
pub fn is_scene_page(start: &[u8]) -> bool {
    let policy = b"worker-src blob:; base-uri";
    is_gausset_page(start) && start.windows(policy.len()).any(|window| window == policy)
}

/// The compressed PLY in a page, still packed with zlib; `None` if the page has none.
#[must_use]
pub fn packed_ply(page: &[u8]) -> Option<Vec<u8>> {
    let at = page.windows(LENGTH_ATTRIBUTE.len()).position(|window| window == LENGTH_ATTRIBUTE)?
        + LENGTH_ATTRIBUTE.len();
    let rest = page.get(at..)?;
    let digits = rest.iter().take(20).position(|byte| *byte == b'"')?;
    let bytes = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
    let text = rest.get(digits..)?.strip_prefix(b"\">")?;
    let text = text.get(..text.iter().position(|byte| *byte == b'<')?)?;
    Some(read_base128(text, bytes))
}

/// Counts the bytes that it writes.
struct CountingWriter<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    fn page(scene: &ScenePage, ply: &[u8]) -> Vec<u8> {
        let mut page = Vec::new();
        assert_eq!(write(&mut page, scene, ply).unwrap(), page.len() as u64);
        page
    }

    #[test]
    fn the_splats_come_back_from_the_page() {
        let ply: Vec<u8> = (0..10_000u32).map(|i| ((i * i) >> 3) as u8).collect();
        let page = page(&ScenePage::default(), &ply);
        assert!(is_scene_page(&page) && !is_scene_page(&ply));
        let mut found = Vec::new();
        ZlibDecoder::new(&packed_ply(&page).unwrap()[..]).read_to_end(&mut found).unwrap();
        assert!(found == ply);
        for cut in (0..page.len()).step_by(97) {
            let _ = packed_ply(&page[..cut]);
        }
    }

    #[test]
    fn a_name_is_no_part_of_the_page() {
        let view =
            PageCamera { name: "</script><script>alert(1)</script>".to_owned(), ..PageCamera::default() };
        let title = "<img src=x onerror=alert(1)>".to_owned();
        let text =
            String::from_utf8(page(&ScenePage { title, cameras: vec![view], ..ScenePage::default() }, b""))
                .unwrap();
        assert!(!text.contains("<img") && !text.contains("<script>"));
        assert_eq!(text.matches("</script>").count(), 3);
    }

    #[test]
    fn a_messenger_finds_a_title_and_a_description_and_the_page_has_two_palettes() {
        let scene = ScenePage { title: "A \"castle\"".to_owned(), ..ScenePage::default() };
        let text = String::from_utf8(page(&scene, b"")).unwrap();
        assert!(text.contains("<meta property=\"og:title\" content=\"A &quot;castle&quot;\">"));
        assert!(
            text.contains("<meta property=\"og:description\"") && text.contains("<meta name=\"description\"")
        );
        assert!(text.contains("prefers-color-scheme: dark") && text.contains("color-scheme: light dark"));
        assert!(text.contains("id=\"full\""));
    }

    #[test]
    fn the_page_is_small_and_names_no_other_place() {
        let text = String::from_utf8(page(&ScenePage::default(), b"")).unwrap();
        assert!(text.len() < 60 << 10, "{}", text.len());
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("<link"));
        assert!(!script().contains("</script") && !script().contains("<!--"));
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(script().as_bytes()).unwrap();
        assert!(packed.finish().unwrap().len() < 40 << 10);
    }
}
