//! `pano preview --page`: shows a panorama to look around in, with the outlines of the views that are cut from it.
//!
//! The browser renders (WebGL 2) with data from this server: coverage, rotations and colours are computed by the same
//! functions as those of a split.
//!
//! | request | answer |
//! |---|---|
//! | `/api/preview` | JSON: title, area of the sphere that the panorama covers, views, colour settings |
//! | `/api/panorama` | the panorama with unchanged colours, JPEG, at most 4096 px wide |
//! | `/api/mask` | its mask, PNG |
//! | `/api/views?YAW,PITCH,ROLL,HFOV,WIDTH,HEIGHT;...` | JSON: rotation and tangents of each view; coverage, largest hole |
//! | `/api/counts?...` (the same) | number of views that see each cell of a 512 x 256 grid, bytes |
//! | `/api/table?KEY=VALUE,...` | the colour table, 33 x 33 x 33 RGB bytes, red fastest |

use gausset_core::RgbImage8;
use gausset_io::image::{Mask, encode};
use gausset_pano::coverage::{self, Coverage};
use gausset_pano::geometry::View;
use gausset_pano::grade::{Colouring, Grade};
use gausset_pano::layout::{Layout, check_view};
use gausset_pano::look::ColourSettings;
use gausset_pano::projection::Equirect;
use serde_json::json;

use crate::encode::{Codec, EncodeError};
use crate::site::{Site, SiteAnswer};

/// Largest width of the panorama, px: the texture size that every browser supports.
pub const MAX_WIDTH: u32 = 4096;
/// Largest number of views.
const MAX_VIEWS: usize = 128;
/// Columns and rows of the coverage map.
const GRID: [usize; 2] = [512, 256];
/// Steps per colour channel of the table.
const TABLE: usize = 33;
/// JPEG quality of the panorama.
const QUALITY: u8 = 90;

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("../page/preview.html")),
    ("/assets/style.css", "text/css; charset=utf-8", include_str!("../page/style.css")),
    ("/assets/base.css", "text/css; charset=utf-8", gausset_page::BASE),
    ("/assets/controls.js", SCRIPT, gausset_page::CONTROLS),
    ("/assets/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("/assets/preview.js", SCRIPT, include_str!("../page/preview.js")),
    ("/assets/sphere.js", SCRIPT, include_str!("../page/sphere.js")),
];

/// Contents of the preview page.
#[derive(Clone, Debug)]
pub struct PreviewOptions {
    /// Name of the panorama.
    pub title: String,
    /// The panorama before colour changes, at most [`MAX_WIDTH`] wide.
    pub panorama: RgbImage8,
    /// Its area of the sphere, independent of its size.
    pub equirect: Equirect,
    /// Its mask, if it has one.
    pub mask: Option<Mask>,
    /// Views to show, with their directions.
    pub views: Vec<View>,
    /// How colours of the footage are converted.
    pub colouring: Colouring,
}

/// Why a preview page cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The panorama or the mask cannot be encoded.
    #[error(transparent)]
    Picture(#[from] EncodeError),
    /// The colour settings cannot be described.
    #[error(transparent)]
    Look(#[from] serde_json::Error),
}

/// The preview page with its encoded data.
#[derive(Debug)]
pub struct PreviewPage {
    description: String,
    panorama: Vec<u8>,
    mask: Option<Vec<u8>>,
    /// The colour conversion without settings.
    colouring: Colouring,
}

impl PreviewPage {
    /// Encodes the data of the page.
    ///
    /// # Errors
    /// The panorama or the mask cannot be encoded.
    pub fn new(options: &PreviewOptions) -> Result<Self, PreviewError> {
        let PreviewOptions { title, panorama, equirect, mask, views, colouring } = options;
        let packed = Codec::JpegMoving(QUALITY).encode(panorama)?;
        let mask = mask.as_ref().map(|mask| {
            let data = mask.values.iter().flat_map(|&keep| [if keep == 0 { 0 } else { 255 }; 3]).collect();
            encode::png_rgb8(&RgbImage8 { width: mask.width, height: mask.height, data })
        });
        let mask = mask.transpose().map_err(EncodeError::from)?;
        // The area of the sphere that is covered: left, top, width, height as fractions of the whole.
        let part = [
            equirect.left / equirect.full_width,
            equirect.top / equirect.full_height,
            f64::from(equirect.width) / equirect.full_width,
            f64::from(equirect.height) / equirect.full_height,
        ];
        let look = serde_json::to_value(colouring.look)?;
        let list = |views: &[View]| -> Vec<_> {
            let view = |v: &View| json!({"yaw": v.yaw, "pitch": v.pitch, "roll": v.roll, "hfov": v.hfov, "width": v.width, "height": v.height});
            views.iter().map(view).collect()
        };
        let layouts = Layout::ALL.map(|layout| {
            let side = layout.native_view_side(equirect.full_width.round() as u32, None);
            json!({"name": layout.name(), "views": list(&layout.views(side, side, None))})
        });
        let about = json!({
            "schema": 1, "title": title, "part": part, "mask": mask.is_some(), "views": list(views), "layouts": layouts, "look": look,
            "settings": ColourSettings::KEYS, "most_views": MAX_VIEWS, "grid": GRID, "table": TABLE,
        });
        let colouring = Colouring { look: ColourSettings::default(), lut: colouring.lut.clone() };
        Ok(Self { description: about.to_string(), panorama: packed, mask, colouring })
    }

    /// The colour table for these settings.
    fn table(&self, query: &str) -> Option<Vec<u8>> {
        let look =
            if query.is_empty() { ColourSettings::default() } else { ColourSettings::parse(query).ok()? };
        let grade = Grade::new(Colouring { look, ..self.colouring.clone() }, [1.0; 3]);
        let step = |index: usize| index as f32 / (TABLE - 1) as f32;
        let at = |i: usize| [step(i % TABLE), step(i / TABLE % TABLE), step(i / (TABLE * TABLE))];
        let byte = |value: f32| (255.0 * value.clamp(0.0, 1.0)).round() as u8;
        Some((0..TABLE * TABLE * TABLE).flat_map(|i| grade.rgb(at(i)).map(byte)).collect())
    }
}

/// Parses views as the page writes them.
fn parse_views(query: &str) -> Option<Vec<View>> {
    let parts: Vec<&str> = query.split(';').filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_VIEWS {
        return None;
    }
    let view = |(index, part): (usize, &&str)| {
        let numbers: Vec<f64> = part.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [yaw, pitch, roll, hfov, width, height] = numbers[..] else { return None };
        let side =
            |side: f64| (side.fract() == 0.0 && (0.0..=65_535.0).contains(&side)).then_some(side as u32);
        let (width, height) = (side(width)?, side(height)?);
        let view = View { name: format!("view{index:02}"), yaw, pitch, roll, hfov, width, height };
        check_view(&view).ok().map(|()| view)
    };
    parts.iter().enumerate().map(view).collect()
}

/// JSON description of the views for the page.
fn describe_views(views: &[View]) -> String {
    let coverage = Coverage::new(views);
    let drawn: Vec<_> = views
        .iter()
        .map(|view| {
            let tangents = [view.width, view.height].map(|side| 0.5 * f64::from(side) / view.focal());
            json!({"pano_from_camera": view.pano_from_camera(), "tangents": tangents, "share": coverage::view_fraction(view)})
        })
        .collect();
    let hole = coverage.holes.first().map(
        |hole| json!({"share": hole.fraction, "yaw": hole.yaw, "pitch": hole.pitch, "radius": hole.radius}),
    );
    json!({"views": drawn, "share": coverage.fraction, "mean": coverage.mean_views, "least": coverage.min_views, "hole": hole})
        .to_string()
}

impl Site for PreviewPage {
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)> {
        FILES.iter().find(|file| file.0 == path).map(|&(_, kind, text)| (kind, text))
    }

    fn answer(&self, path: &str, query: &str) -> Option<SiteAnswer> {
        let (kind, bytes) = match path {
            "/api/preview" => (JSON, self.description.clone().into_bytes()),
            "/api/panorama" => ("image/jpeg", self.panorama.clone()),
            "/api/mask" => ("image/png", self.mask.clone()?),
            "/api/views" => (JSON, describe_views(&parse_views(query)?).into_bytes()),
            "/api/counts" => {
                let counts = coverage::view_count_grid(&parse_views(query)?, GRID[0], GRID[1]);
                (BYTES, counts.into_iter().map(|count| count.min(255) as u8).collect())
            }
            "/api/table" => (BYTES, self.table(query)?),
            _ => return None,
        };
        Some(SiteAnswer { media_type: kind, body: bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> PreviewPage {
        let panorama = RgbImage8::new(64, 32);
        let options = PreviewOptions {
            title: "a.jpg".to_owned(),
            panorama,
            equirect: Equirect::whole(64, 32),
            mask: None,
            views: Layout::Ring8.views(16, 16, None),
            colouring: Colouring::default(),
        };
        PreviewPage::new(&options).unwrap()
    }

    #[test]
    fn coverage_and_colours_are_those_of_a_split() {
        let page = page();
        let json = |path: &str, query: &str| -> serde_json::Value {
            serde_json::from_slice(&page.answer(path, query).unwrap().body).unwrap()
        };
        let about = json("/api/preview", "");
        let of = |view: &serde_json::Value| {
            ["yaw", "pitch", "roll", "hfov", "width", "height"].map(|key| view[key].to_string()).join(",")
        };
        let query = about["views"].as_array().unwrap().iter().map(of).collect::<Vec<_>>().join(";");
        let seen = json("/api/views", &query);
        assert!((seen["share"].as_f64().unwrap() - 0.6978).abs() < 1e-4, "{seen}");
        assert_eq!(seen["views"].as_array().unwrap().len(), 8);
        // Named layouts to choose from, with the views that a split would cut.
        let cube =
            about["layouts"].as_array().unwrap().iter().find(|layout| layout["name"] == "cube6").unwrap();
        let whole = cube["views"].as_array().unwrap().iter().map(of).collect::<Vec<_>>().join(";");
        assert!(json("/api/views", &whole)["share"].as_f64().unwrap() > 0.9999);
        let counts = page.answer("/api/counts", &query).unwrap().body;
        assert_eq!((counts.len(), counts[0], counts[256 * 512 / 2] > 0), (512 * 256, 0, true));
        // The identity; then a table that is brighter by one stop.
        let same = page.answer("/api/table", "").unwrap().body;
        let at =
            |table: &[u8], rgb: [usize; 3]| table[3 * (rgb[0] + 33 * (rgb[1] + 33 * rgb[2]))..][..3].to_vec();
        assert_eq!((at(&same, [32, 0, 16]), same.len()), (vec![255, 0, 128], 3 * 33 * 33 * 33));
        assert!(at(&page.answer("/api/table", "exposure=1").unwrap().body, [8, 8, 8])[0] > 80);
    }

    #[test]
    fn nonsense_has_no_answer() {
        let page = page();
        for (path, query) in [
            ("/api/views", "1,2,3"),
            ("/api/views", "0,0,0,179,16,16"),
            ("/api/views", "0,0,0,90,16,1e9"),
            ("/api/views", "nan,0,0,90,16,16"),
            ("/api/table", "exposure=99"),
            ("/api/mask", ""),
            ("/api/other", ""),
        ] {
            assert_eq!(page.answer(path, query), None, "{path}?{query}");
        }
        assert_eq!(page.answer("/api/counts", &"0,0,0,90,16,16;".repeat(129)), None);
        assert!(page.answer("/api/views", "").is_some(), "no view at all");
    }

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for (path, _, text) in FILES {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
            packed.write_all(text.as_bytes()).unwrap();
        }
        let bytes = packed.finish().unwrap().len();
        assert!(bytes <= 25 << 10, "{bytes}");
        let html = FILES[0].2;
        assert!(!html.contains("style=") && !html.contains("onclick"));
    }
}
