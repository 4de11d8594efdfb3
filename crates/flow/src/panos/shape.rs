//! Recognises the projection of an image or video: a panorama, or a cube map as cross, strip or six faces. The size
//! decides; ambiguous sizes need an option.

use std::path::Path;

use gausset_compute::{VectorLevel, level};
use gausset_pano::cube::{self, Cube, Face, Faces, MAX_SIDE, Net, Order};
use gausset_pano::film::Film;
use gausset_pano::frames::SourceFrame;
use gausset_pano::jpeg::Decoder;
use gausset_pano::load::{self, Limits, Opened};
use gausset_pano::plane::Frame;
use gausset_pano::projection::Projection;
use gausset_pano::video::VideoProblem;

use crate::{Failure, Host};

/// Projection of full-sphere images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceShape {
    /// Equirectangular: longitude and latitude, twice as wide as high.
    Equirect,
    /// Cube map unfolded to a cross.
    Cross,
    /// Cube map with its faces in rows.
    Strip,
    /// Cube map as six images, one per face.
    Faces,
}

impl SourceShape {
    /// All projections.
    pub const ALL: [Self; 4] = [Self::Equirect, Self::Cross, Self::Strip, Self::Faces];

    /// Stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equirect => "equirect",
            Self::Cross => "cross",
            Self::Strip => "strip",
            Self::Faces => "faces",
        }
    }
}

/// Result of recognising a video.
pub(super) enum Told {
    /// A full-sphere video.
    Film(Box<Film>),
    /// The size is ambiguous or wrong; the reason.
    Unclear(Failure),
}

/// What the size of an image implies.
enum BySize {
    Panorama,
    Net(Net),
    /// A cross, provided that its empty corners have one colour.
    PerhapsCross(Net),
    /// Ambiguous or wrong; the message.
    Unclear(String),
    /// One face of a cube, or a stereo pair.
    Square,
    Other,
}

/// Message for an image with the size of a cross whose corners are not empty.
const NO_CORNERS: &str = "may be a cross, but its corners are not of one colour (expected a panorama of 2:1, or a cross); use ⟨from = cross⟩ if it is one";

/// Options about the projection of a source; the rest is derived from the image size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeChoice {
    /// The projection.
    pub from: Option<SourceShape>,
    /// Order of the faces of a strip [default: rludfb].
    pub faces: Option<[Face; 6]>,
    /// Clockwise quarter turns of the face at each position of a strip [default: none].
    pub turns: Option<[u8; 6]>,
}

impl ShapeChoice {
    /// Whether options for strips are set.
    fn is_of_strip(&self) -> bool {
        self.faces.is_some() || self.turns.is_some()
    }

    fn order(&self) -> Order {
        let plain = Order::default();
        Order { faces: self.faces.unwrap_or(plain.faces), turns: self.turns.unwrap_or(plain.turns) }
    }

    /// Projection of frames stored as single images, from the first readable one; `None` for panoramas.
    ///
    /// # Errors
    /// Images of different sizes, of another projection than given, or of an ambiguous size.
    pub(super) fn of_pictures(
        &self,
        folder: &Path,
        frames: &[SourceFrame],
        limits: &Limits,
    ) -> Result<Option<Projection>, Failure> {
        match self.from {
            Some(SourceShape::Equirect) => return self.without_order().map(|()| None),
            Some(SourceShape::Faces) => {
                let path = folder.display();
                return Err(Failure::new(
                    "frames",
                    format!(
                        "{path}: frames: no faces (expected six images per frame, NAME_right, NAME_left, NAME_up, NAME_down, NAME_front, NAME_back)"
                    ),
                ));
            }
            _ => {}
        }
        let files = || frames.iter().flat_map(|frame| &frame.files);
        let first = files().find_map(|file| load::open(file, limits, Vec::new()).ok());
        // Unreadable images are reported when they are split.
        let Some(mut first) = first else { return Ok(None) };
        let found = self.of_first(&mut first)?;
        let shape = |faces: &Faces| faces.size();
        for file in files() {
            let Ok(header) = gausset_io::image::read_header(file) else { continue };
            let size = if header.orientation >= 5 {
                [header.height, header.width]
            } else {
                [header.width, header.height]
            };
            let is_other = match &found {
                Some(faces) => size != shape(faces),
                None => self.from.is_none() && clear_net(size).is_some() && file != &first.path,
            };
            if is_other {
                let ([w, h], [fw, fh]) = (size, first.upright_size());
                return Err(Failure::new(
                    "frames",
                    format!(
                        "{}: picture: {w}x{h} px, but {} has {fw}x{fh} (expected one shape in a folder); move one of them out",
                        file.display(),
                        first.path.file_name().unwrap_or_default().display(),
                    ),
                ));
            }
        }
        if found.is_none() {
            self.without_order()?;
        }
        Ok(found.map(|faces| Projection::Cube(Cube { faces })))
    }

    /// Refuses face order options if there is no strip.
    fn without_order(&self) -> Result<(), Failure> {
        if self.is_of_strip() {
            return Err(Failure::usage(
                "⟨from-faces⟩, ⟨from-turns⟩: have no effect without a strip; leave them out, or take ⟨from = strip⟩",
            ));
        }
        Ok(())
    }

    /// Cube map layout of the first image; `None` for a panorama.
    fn of_first(&self, first: &mut Opened) -> Result<Option<Faces>, Failure> {
        let size = first.upright_size();
        let [w, h] = size;
        let path = first.path.display().to_string();
        let failed = |what: &str| Failure::new("frames", format!("{path}: picture: {w}x{h} px {what}"));
        let net = match self.by_size(size, first.equirect(false).is_ok()) {
            BySize::Net(net) => net,
            BySize::PerhapsCross(net) => {
                let faces = Faces::of_net(net, Order::default(), w / net.grid()[0]);
                if !self.looks_empty(first, &faces)? {
                    return Err(failed(NO_CORNERS));
                }
                net
            }
            BySize::Unclear(what) => return Err(failed(&what)),
            BySize::Square => {
                return Err(failed(
                    "may be a face of a cube, or a stereo pair (expected a panorama of 2:1); name six faces NAME_right, NAME_left, NAME_up, NAME_down, NAME_front, NAME_back, or use ⟨stereo = tb⟩",
                ));
            }
            BySize::Panorama | BySize::Other => return Ok(None),
        };
        if net.is_cross() {
            self.without_order()?;
        }
        let side = w / net.grid()[0];
        check_side(&path, "picture", side)?;
        Ok(Some(Faces::of_net(net, self.order(), side)))
    }

    /// Combines the image size with the given options.
    fn by_size(&self, size: [u32; 2], is_panorama: bool) -> BySize {
        let of_net = Net::of_size(size);
        match (self.from, of_net) {
            (Some(SourceShape::Cross), Some(net)) if net.is_cross() => BySize::Net(net),
            (Some(SourceShape::Cross), _) => {
                BySize::Unclear("is not a cross (expected 4 by 3 or 3 by 4 square faces)".to_owned())
            }
            (Some(SourceShape::Strip), Some(net)) if !net.is_cross() => BySize::Net(net),
            (Some(SourceShape::Strip), _) => BySize::Unclear(
                "is not a strip (expected 6 by 1, 1 by 6, 3 by 2 or 2 by 3 square faces)".to_owned(),
            ),
            // Images whose metadata place them on the sphere are not cube maps.
            _ if is_panorama => BySize::Panorama,
            (None, Some(net)) if net.is_cross() => BySize::PerhapsCross(net),
            (None, Some(net @ (Net::Strip6x1 | Net::Strip1x6))) => BySize::Net(net),
            (None, Some(net)) if self.is_of_strip() => BySize::Net(net),
            (None, Some(net)) => BySize::Unclear(format!(
                "may be a strip of {} faces, or a photograph (expected a panorama of 2:1); use ⟨from = strip⟩ if it is one",
                net.name()
            )),
            _ if size[0] == size[1] => BySize::Square,
            _ => BySize::Other,
        }
    }

    /// Resolves the projection of a video: panoramas, GoPro MAX streams, crosses or strips.
    ///
    /// # Errors
    /// Frames of another projection than given or of an ambiguous size; ffmpeg fails.
    pub(super) fn of_film(&self, film: Film, host: &Host<'_>) -> Result<Film, Failure> {
        match self.told(film, host)? {
            Told::Film(film) => Ok(*film),
            Told::Unclear(failure) => Err(failure),
        }
    }

    /// As [`Self::of_film`], but returns an ambiguous size as a value instead of an error.
    ///
    /// # Errors
    /// As [`Self::of_film`].
    pub(super) fn told(&self, film: Film, host: &Host<'_>) -> Result<Told, Failure> {
        if self.from == Some(SourceShape::Faces) {
            return Err(Failure::usage(
                "⟨from = faces⟩: applies to folders with six images per frame (found a video); use ⟨from = cross⟩ or ⟨from = strip⟩",
            ));
        }
        if film.eac.is_some() {
            if *self != Self::default() {
                return Err(Failure::usage(
                    "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: apply to panoramas and cubes only (found GoPro MAX streams)",
                ));
            }
            return Ok(Told::Film(Box::new(film)));
        }
        let size = film.video.size;
        let [w, h] = size;
        let path = film.video.path.display().to_string();
        let unclear = |what: &str| {
            Ok(Told::Unclear(Failure::new("video", format!("{path}: video: {w}x{h} px {what}"))))
        };
        let net = match self.by_size(size, w == 2 * h) {
            BySize::Net(net) => net,
            BySize::PerhapsCross(net) => {
                let level =
                    level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
                if !host.unless_stopped(film.shows_cross(net, level, host.stop()))? {
                    return unclear(NO_CORNERS);
                }
                net
            }
            BySize::Unclear(what) => return unclear(&what),
            BySize::Panorama => {
                self.without_order()?;
                return Ok(Told::Film(Box::new(film)));
            }
            BySize::Square | BySize::Other => {
                return Ok(Told::Unclear(Failure::new(
                    "video",
                    format!("{path}: video: {}", VideoProblem::Shape(size)),
                )));
            }
        };
        if net.is_cross() {
            self.without_order()?;
        }
        check_side(&path, "video", w / net.grid()[0])?;
        Ok(Told::Film(Box::new(film.of_cube(net, self.order()))))
    }

    fn looks_empty(&self, first: &mut Opened, faces: &Faces) -> Result<bool, Failure> {
        let mut frame = Frame::default();
        let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
        let all = [[0, i32::MAX / 2]; 3];
        // Some decoders consume the bytes of the file: decode a copy.
        let mut copy = load::parse(
            &first.path,
            &Limits { width: u32::MAX, height: u32::MAX, bytes: u64::MAX },
            first.data.clone(),
        )
        .map_err(|e| Failure::new("frames", e))?;
        copy.decode(level, &mut Decoder::default(), &all, &mut frame)
            .map_err(|e| Failure::new("frames", e))?;
        Ok(cube::is_empty_around(faces, &frame))
    }

    /// Groups the images of a folder into cube maps of six images; `None` if there are none.
    ///
    /// # Errors
    /// A set without all faces; images that are not square.
    pub(super) fn of_sets(
        &self,
        folder: &Path,
        frames: &[SourceFrame],
        limits: &Limits,
    ) -> Result<Option<(Vec<SourceFrame>, Projection)>, Failure> {
        if !matches!(self.from, None | Some(SourceShape::Faces)) {
            return Ok(None);
        }
        let Some(sets) = cube::sets(frames) else { return Ok(None) };
        let files = || frames.iter().flat_map(|frame| &frame.files);
        let first = files().find_map(|file| Some((file, gausset_io::image::read_header(file).ok()?)));
        let Some((file, header)) = first else { return Ok(None) };
        let (w, h) = (header.width, header.height);
        if w != h {
            // `walk_left` and `walk_right` may be panoramas.
            if self.from.is_none() {
                return Ok(None);
            }
            return Err(Failure::new(
                "frames",
                format!(
                    "{}: picture: {w}x{h} px is not a face of a cube (expected a square)",
                    file.display()
                ),
            ));
        }
        let sets = sets.map_err(|(name, missing)| {
            let name = if name.is_empty() { String::new() } else { format!("{name}_") };
            let path = folder.display();
            Failure::new(
                "frames",
                format!("{path}: frames: {name}{missing} is missing (expected six faces: right, left, up, down, front, back)"),
            )
        })?;
        check_side(&file.display().to_string(), "picture", w)?;
        if w > limits.width {
            return Ok(None);
        }
        let order = Order { turns: self.turns.unwrap_or_default(), ..Order::default() };
        if self.faces.is_some() {
            return Err(Failure::usage(
                "⟨from-faces⟩: has no effect on six images, whose names identify the faces; leave it out",
            ));
        }
        let faces = Faces::of_net(Net::Strip1x6, order, w);
        Ok(Some((sets, Projection::Cube(Cube { faces }))))
    }
}

/// The cube map layout of this size, unless it is also a common photo size (4:3 or 3:2 layouts of 3 by 2 faces).
fn clear_net(size: [u32; 2]) -> Option<Net> {
    Net::of_size(size).filter(|net| !matches!(net, Net::Strip3x2 | Net::Strip2x3))
}

fn check_side(path: &str, what: &str, side: u32) -> Result<(), Failure> {
    if !(16..=MAX_SIDE).contains(&side) {
        return Err(Failure::new(
            "frames",
            format!("{path}: {what}: faces of {side} px (expected 16..{MAX_SIDE})"),
        ));
    }
    Ok(())
}
