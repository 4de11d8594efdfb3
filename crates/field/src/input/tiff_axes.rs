//! Axes of the pages of a TIFF, from its description.
//!
//! | writer | description |
//! |---|---|
//! | ImageJ | lines `images=`, `channels=`, `slices=`, `frames=`, `spacing=`, `unit=`; channels fastest, then slices |
//! | OME-TIFF | XML: `SizeX … SizeT`, `DimensionOrder`, `PhysicalSizeX … Z`, `TiffData` |
//! | tifffile | JSON: `shape`, possibly `axes` |
//!
//! Formulas: ImageJ's `TiffDecoder.java` and `Opener.java`; OME-XML 2016-06; tifffile.

use roxmltree::{Document, Node};
use serde_json::Value;

use crate::error::ContentError;

/// What a description says about the pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Axes {
    /// Number of slices, channels, frames.
    pub(super) slices: u64,
    pub(super) channels: u64,
    pub(super) frames: u64,
    /// The axes of the pages, fastest first: `C`, `Z`, `T`.
    order: [char; 3],
    /// Index of the page of each plane, for OME-TIFF; otherwise planes are pages.
    pages: Option<Vec<u64>>,
    /// Voxel size along x and y, if the description has it; from the resolution for ImageJ.
    pub(super) pixel: PixelSize,
    /// Distance of the slices.
    pub(super) depth: Option<f64>,
    /// Names of the channels.
    pub(super) names: Vec<String>,
    /// Whether only the first page has an entry and the others follow its data.
    pub(super) is_contiguous: bool,
}

/// Where the size of a pixel is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum PixelSize {
    #[default]
    Unknown,
    /// The reciprocal of the resolution tags, in the unit of the description.
    Resolution,
    /// Here.
    Is([f64; 2]),
}

impl Axes {
    /// Pages that are all slices.
    pub(super) fn of_slices(slices: u64) -> Self {
        Self::new(slices, 1, 1)
    }

    fn new(slices: u64, channels: u64, frames: u64) -> Self {
        let order = ['C', 'Z', 'T'];
        Self { slices, channels, frames, order, ..Self::default() }
    }

    /// Whether the description says which page is which plane.
    pub(super) const fn has_pages(&self) -> bool {
        self.pages.is_some()
    }

    /// Number of planes; `u64::MAX` if it overflows.
    pub(super) fn planes(&self) -> u64 {
        self.slices.saturating_mul(self.channels).saturating_mul(self.frames)
    }

    /// Index of the page of a plane.
    pub(super) fn page(&self, slice: u64, channel: u64, frame: u64) -> u64 {
        let plane = self.plane(slice, channel, frame);
        match &self.pages {
            Some(pages) => pages.get(plane as usize).copied().unwrap_or(u64::MAX),
            None => plane,
        }
    }

    fn plane(&self, slice: u64, channel: u64, frame: u64) -> u64 {
        let (mut plane, mut stride) = (0, 1);
        for axis in self.order {
            let (at, size) = match axis {
                'C' => (channel, self.channels),
                'Z' => (slice, self.slices),
                _ => (frame, self.frames),
            };
            plane += at * stride;
            stride *= size;
        }
        plane
    }
}

/// Parses a description; `None` if it says nothing about axes. `pages` is the number of pages in the file, and
/// `samples` the number of channels within each.
pub(super) fn parse(text: &str, pages: u64, samples: u64) -> Result<Option<Axes>, ContentError> {
    let text = text.trim_matches(['\0', ' ', '\n', '\r', '\u{feff}']);
    if text.starts_with("ImageJ=") || text.starts_with("SCIFIO=") {
        return imagej(text, pages).map(Some);
    }
    if text.starts_with('<') && (text.contains("<OME") || text.contains(":OME ")) {
        return ome(text, pages, samples);
    }
    if text.starts_with('{') && text.contains("\"shape\"") {
        return shaped(text, samples);
    }
    Ok(None)
}

fn imagej(text: &str, pages: u64) -> Result<Axes, ContentError> {
    let value = |key: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back()
    };
    let count = |key: &str| -> Result<Option<u64>, ContentError> {
        let Some(text) = value(key) else { return Ok(None) };
        let number = text.parse().ok().filter(|n| *n > 0);
        let wrong = || ContentError::unexpected("description", key, "a whole number above 0", text);
        number.map(Some).ok_or_else(wrong)
    };
    let [channels, slices, frames] = [count("channels")?, count("slices")?, count("frames")?];
    let images = count("images")?;
    let mut axes = Axes::new(slices.unwrap_or(1), channels.unwrap_or(1), frames.unwrap_or(1));
    // A stack whose axes do not give its images has only slices.
    let all = images.unwrap_or_else(|| pages.max(axes.planes()));
    if axes.planes() != all {
        axes = Axes::new(all, 1, 1);
    }
    axes.is_contiguous = true;
    let depth = value("spacing").and_then(|text| text.parse::<f64>().ok()).map(f64::abs);
    axes.depth = depth.filter(|d| d.is_finite() && *d > 0.0);
    let is_calibrated = value("unit").is_some_and(|unit| !unit.starts_with("pixel")) || axes.depth.is_some();
    if is_calibrated {
        axes.pixel = PixelSize::Resolution;
    }
    Ok(axes)
}

fn ome(text: &str, pages: u64, samples: u64) -> Result<Option<Axes>, ContentError> {
    let wrong = |what: &str| ContentError::unread("OME-XML", what);
    let document =
        Document::parse(text).map_err(|error| wrong(&gausset_io::text::excerpt(&error.to_string())))?;
    let named = |name: &'static str| move |node: &Node<'_, '_>| node.tag_name().name() == name;
    // A file whose axes are described elsewhere (`BinaryOnly`) has none here.
    let Some(pixels) = document.descendants().find(named("Pixels")) else { return Ok(None) };
    let size = |name: &str| -> Result<u64, ContentError> {
        let text = pixels.attribute(name).unwrap_or("1");
        let number = text.trim().parse().ok().filter(|n| *n > 0);
        number.ok_or_else(|| ContentError::unexpected("OME-XML", name, "a whole number above 0", text))
    };
    let channels = size("SizeC")?;
    if !channels.is_multiple_of(samples.max(1)) {
        let found = format!("{samples} in each page");
        return Err(ContentError::unexpected("OME-XML", "SizeC", channels, found));
    }
    let mut axes = Axes::new(size("SizeZ")?, channels / samples.max(1), size("SizeT")?);
    let order = pixels.attribute("DimensionOrder").unwrap_or("XYCZT");
    let mut letters: Vec<char> = order.chars().filter(|letter| "CZT".contains(*letter)).collect();
    axes.order = letters.clone().try_into().unwrap_or(['C', 'Z', 'T']);
    letters.sort_unstable();
    if letters != ['C', 'T', 'Z'] {
        return Err(ContentError::unexpected("OME-XML", "DimensionOrder", "XY and C, Z, T once each", order));
    }
    let names = pixels.children().filter(named("Channel")).filter_map(|node| node.attribute("Name"));
    axes.names = names.map(str::to_owned).collect();
    // Sizes in other units are converted to that of x.
    let unit = |axis: &str| micrometres(pixels.attribute(format!("PhysicalSize{axis}Unit").as_str()));
    let length = |axis: &str| {
        let number = pixels.attribute(format!("PhysicalSize{axis}").as_str())?.trim().parse::<f64>().ok()?;
        let number = match (unit(axis), unit("X")) {
            (Some(own), Some(first)) => number * own / first,
            _ => number,
        };
        (number.is_finite() && number > 0.0).then_some(number)
    };
    if let (Some(x), Some(y)) = (length("X"), length("Y")) {
        axes.pixel = PixelSize::Is([x, y]);
    }
    axes.depth = length("Z");
    let planes = axes.planes();
    if planes > pages {
        let expected =
            format!("{planes} for {} slices, {channels} channels, {} frames", axes.slices, axes.frames);
        let error = ContentError::unexpected("pages", "fewer than OME-XML declares", expected, pages);
        return Err(error.with_advice("if the others are in other files, save them as one"));
    }
    axes.pages = ome_pages(&axes, pixels);
    Ok(Some(axes))
}

/// The page of each plane by the elements `TiffData`; `None` if planes are pages. There are at most as many planes as
/// pages.
fn ome_pages(axes: &Axes, pixels: Node<'_, '_>) -> Option<Vec<u64>> {
    let planes = axes.planes();
    let mut pages = vec![u64::MAX; planes as usize];
    let mut is_mapped = false;
    for node in pixels.children().filter(|node| node.tag_name().name() == "TiffData") {
        let number = |name: &str| node.attribute(name).and_then(|text| text.trim().parse::<u64>().ok());
        let [z, c, t] = ["FirstZ", "FirstC", "FirstT"].map(|name| number(name).unwrap_or(0));
        if z >= axes.slices || c >= axes.channels || t >= axes.frames {
            continue;
        }
        let first = axes.plane(z, c, t);
        let page = number("IFD");
        let count = number("PlaneCount").unwrap_or(if page.is_some() { 1 } else { planes });
        for i in 0..count.min(planes - first) {
            pages[(first + i) as usize] = page.unwrap_or(0).saturating_add(i);
        }
        is_mapped = true;
    }
    is_mapped.then_some(pages)
}

/// Micrometres in a unit of OME-XML, whose default is µm; `None` for units that are no length.
fn micrometres(unit: Option<&str>) -> Option<f64> {
    Some(match unit.unwrap_or("µm") {
        "m" => 1e6,
        "dm" => 1e5,
        "cm" => 1e4,
        "mm" => 1e3,
        // U+00B5 and U+03BC
        "\u{b5}m" | "\u{3bc}m" | "um" => 1.0,
        "nm" => 1e-3,
        "pm" => 1e-6,
        "\u{c5}" | "\u{212b}" => 1e-4,
        "in" => 25_400.0,
        _ => return None,
    })
}

fn shaped(text: &str, samples: u64) -> Result<Option<Axes>, ContentError> {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let shape: Option<Vec<u64>> =
        value["shape"].as_array().map(|sides| sides.iter().map(|side| side.as_u64().unwrap_or(0)).collect());
    let Some(shape) = shape.filter(|shape| shape.len() >= 2 && !shape.contains(&0)) else { return Ok(None) };
    let letters = value["axes"].as_str().filter(|axes| axes.chars().count() == shape.len());
    let is_contiguous = value["truncated"].as_bool().unwrap_or(false);
    if let Some(letters) = letters {
        let pages =
            letters.chars().zip(&shape).filter(|(letter, side)| !"YXS".contains(*letter) && **side > 1);
        let pages: Vec<(char, u64)> = pages.map(|(letter, side)| (letter, *side)).collect();
        let side = |axis: char| pages.iter().find(|(letter, _)| *letter == axis).map_or(1, |(_, side)| *side);
        // Axes of another meaning count as slices if there is only one.
        let others: Vec<u64> =
            pages.iter().filter(|(letter, _)| !"CT".contains(*letter)).map(|p| p.1).collect();
        if others.len() <= 1 {
            let mut axes = Axes::new(others.first().copied().unwrap_or(1), side('C'), side('T'));
            let fastest =
                pages.iter().rev().map(|(letter, _)| if "CT".contains(*letter) { *letter } else { 'Z' });
            let mut order: Vec<char> = fastest.collect();
            order
                .extend(['C', 'Z', 'T'].into_iter().filter(|axis| !order.contains(axis)).collect::<Vec<_>>());
            axes.order = order.try_into().unwrap_or(['C', 'Z', 'T']);
            axes.is_contiguous = is_contiguous;
            return Ok(Some(axes));
        }
    } else {
        let inner = if samples > 1 { 3 } else { 2 };
        let outer: Vec<u64> =
            shape.iter().take(shape.len().saturating_sub(inner)).copied().filter(|side| *side > 1).collect();
        if outer.len() <= 1 {
            let axes = Axes::new(outer.first().copied().unwrap_or(1), 1, 1);
            return Ok(Some(Axes { is_contiguous, ..axes }));
        }
    }
    let error =
        ContentError::unexpected("description", "axes without a meaning", "slices", format!("{shape:?}"));
    Err(error
        .with_advice("save it with the axes of ImageJ or OME, so that channels and slices can be told apart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(axes: &Axes, channel: u64, frame: u64) -> Vec<u64> {
        (0..axes.slices).map(|z| axes.page(z, channel, frame)).collect()
    }

    #[test]
    fn imagej_has_channels_fastest_then_slices_then_frames() {
        let axes =
            imagej("ImageJ=1.53\nimages=12\nchannels=2\nslices=3\nframes=2\nspacing=-2.5\n", 12).unwrap();
        assert_eq!((pages(&axes, 1, 0), pages(&axes, 0, 1)), (vec![1, 3, 5], vec![6, 8, 10]));
        assert_eq!((axes.depth, axes.pixel), (Some(2.5), PixelSize::Resolution));
        // Axes that do not give the images.
        assert_eq!(imagej("ImageJ=1.53\nimages=7\nslices=3\n", 7).unwrap().slices, 7);
        assert!(imagej("ImageJ=1.53\nslices=x\n", 1).is_err());
    }

    #[test]
    fn ome_has_its_own_order_units_and_pages() {
        let xml = |order: &str, data: &str| {
            format!(
                "<?xml version=\"1.0\"?><OME xmlns=\"a\"><Image><Pixels DimensionOrder=\"{order}\" SizeC=\"2\" \
                 SizeZ=\"3\" SizeT=\"1\" PhysicalSizeX=\"0.5\" PhysicalSizeY=\"500\" PhysicalSizeYUnit=\"nm\" \
                 PhysicalSizeZ=\"0.002\" PhysicalSizeZUnit=\"mm\"><Channel Name=\"DAPI\"/><Channel Name=\"GFP\"/>\
                 {data}</Pixels></Image></OME>"
            )
        };
        let of = |order: &str, data: &str| parse(&xml(order, data), 6, 1).unwrap().unwrap();
        let axes = of("XYZCT", "");
        assert_eq!(pages(&axes, 1, 0), [3, 4, 5]);
        assert_eq!((axes.pixel, axes.depth), (PixelSize::Is([0.5, 0.5]), Some(2.0)));
        assert_eq!(axes.names, ["DAPI", "GFP"]);
        assert_eq!(pages(&of("XYCZT", ""), 1, 0), [1, 3, 5]);
        let reversed: String = (0..6)
            .map(|i| format!("<TiffData FirstZ=\"{}\" FirstC=\"{}\" IFD=\"{}\"/>", i % 3, i / 3, 5 - i))
            .collect();
        assert_eq!(pages(&of("XYZCT", &reversed), 0, 0), [5, 4, 3]);
        let few = parse(&xml("XYZCT", ""), 5, 1).unwrap_err().to_string();
        assert!(few.starts_with("pages: fewer than OME-XML declares (expected 6"), "{few}");
    }

    #[test]
    fn shapes_with_two_axes_of_pages_need_names() {
        let of = |text: &str| parse(text, 40, 1);
        assert_eq!(of("{\"shape\": [20, 48, 40]}").unwrap().unwrap().slices, 20);
        assert!(
            of("{\"shape\": [20, 2, 48, 40]}").unwrap_err().to_string().contains("axes without a meaning")
        );
        let axes = of("{\"shape\": [20, 2, 48, 40], \"axes\": \"ZCYX\"}").unwrap().unwrap();
        assert_eq!((axes.channels, axes.page(1, 1, 0)), (2, 3));
        assert_eq!(of("made by hand").unwrap(), None);
    }
}
