//! Recognises the projection of an image or video: a panorama, or a cube map as cross, strip or six faces. The size
//! decides; ambiguous sizes need an option.

use std::path::Path;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_jpeg::Decoder;
use gausset_pano::cube::{Cube, CubeLayout, Faces, MAX_FACE_SIDE, StripOrder};
use gausset_pano::frames::SourceFrame;
use gausset_pano::load::{self, ImageLimits, LoadedImage};
use gausset_pano::plane::Frame;
use gausset_pano::projection::{Projection, is_panorama_size};
use gausset_pano::recognise;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::VideoProblem;

use crate::footage_options::{FrameOptions, ProjectionOptions, SelectionOptions};
use crate::{Failure, Host};

/// Projection of full-sphere images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceProjection {
    /// Equirectangular: longitude and latitude, twice as wide as high.
    Equirect,
    /// Cube map unfolded to a cross.
    Cross,
    /// Cube map with its faces in rows.
    Strip,
    /// Cube map as six images, one per face.
    Faces,
}

impl SourceProjection {
    /// Every projection, each once.
    pub const ALL: [Self; 4] = [Self::Equirect, Self::Cross, Self::Strip, Self::Faces];

    /// Stable name, for options and JSON.
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
pub(super) enum Recognised {
    /// A full-sphere video.
    Film(Box<SphereVideo>),
    /// The size is ambiguous or wrong; the reason.
    Unclear(Failure),
}

/// What the size of an image implies.
enum SizeClass {
    Panorama,
    Net(CubeLayout),
    /// A cross, provided that its empty corners have one colour.
    PerhapsCross(CubeLayout),
    /// Ambiguous or wrong; the message.
    Unclear(String),
    /// One face of a cube, or a stereo pair.
    Square,
    Other,
}

/// Message for an image with the size of a cross whose corners are not empty.
const NO_CORNERS: &str = "may be a cross, but its corners are not of one colour (expected a panorama of 2:1, or a cross); use ⟨from = cross⟩ if it is one";

impl FrameOptions {
    /// Refuses options about panoramas and cubes next to a lens file.
    pub(super) fn refuse_shape_of_lenses(&self) -> Result<(), Failure> {
        if self.lens.is_none() {
            return Ok(());
        }
        if self.stereo.is_some() {
            return Err(Failure::usage("⟨stereo⟩: applies to panoramas and cubes only (found ⟨lens⟩)"));
        }
        self.refuse_shape("⟨lens⟩")
    }

    /// Refuses options about the projection.
    pub(super) fn refuse_shape(&self, found: &str) -> Result<(), Failure> {
        if self.shape == ProjectionOptions::default() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: apply to panoramas and cubes only (found {found})"
        )))
    }

    /// Refuses cubes in image files that are stereo pairs.
    pub(super) fn refuse_stereo_cubes(&self) -> Result<(), Failure> {
        let is_panorama = self.shape.from.is_none_or(|from| from == SourceProjection::Equirect);
        let shape = &self.shape;
        if self.stereo.is_none() || is_panorama && shape.faces.is_none() && shape.turns.is_none() {
            return Ok(());
        }
        Err(Failure::usage(
            "⟨stereo⟩: applies to panoramas, and to cubes of videos (found cubes in image files)",
        ))
    }

    /// Refuses options that apply to videos only.
    pub(super) fn refuse_video_options(&self, found: &str) -> Result<(), Failure> {
        let Self { fps, start, end, sharpest_of, select, .. } = self;
        if fps.is_some() || end.is_some() || *start != 0.0 || *sharpest_of != 1 {
            return Err(Failure::usage(format!(
                "⟨fps⟩, ⟨start⟩, ⟨end⟩, ⟨sharpest-of⟩: apply to videos only (found {found})"
            )));
        }
        if *select != SelectionOptions::default() {
            return Err(Failure::usage(format!("⟨select⟩, ⟨step⟩: apply to videos only (found {found})")));
        }
        Ok(())
    }
}

impl ProjectionOptions {
    /// Whether options for strips are set.
    fn has_strip_options(&self) -> bool {
        self.faces.is_some() || self.turns.is_some()
    }

    fn order(&self) -> StripOrder {
        let plain = StripOrder::default();
        StripOrder { faces: self.faces.unwrap_or(plain.faces), turns: self.turns.unwrap_or(plain.turns) }
    }

    /// Projection of frames stored as single images, from the first readable one; `None` for panoramas.
    ///
    /// # Errors
    /// Images of different sizes, of another projection than given, or of an ambiguous size.
    pub(super) fn resolve_images(
        &self,
        folder: &Path,
        frames: &[SourceFrame],
        limits: &ImageLimits,
    ) -> Result<Option<Projection>, Failure> {
        match self.from {
            Some(SourceProjection::Equirect) => return self.refuse_face_order().map(|()| None),
            Some(SourceProjection::Faces) => {
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
        let first = files().find_map(|file| load::load(file, limits, Vec::new()).ok());
        // Unreadable images are reported when they are split.
        let Some(mut first) = first else { return Ok(None) };
        let found = self.resolve_first(&mut first)?;
        let shape = |faces: &Faces| faces.size();
        for file in files() {
            let Ok(header) = gausset_io::image::read_header(file) else { continue };
            let size = header.upright_size();
            let is_other = match &found {
                Some(faces) => size != shape(faces),
                None => self.from.is_none() && unambiguous_net(size).is_some() && file != &first.path,
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
            self.refuse_face_order()?;
        }
        Ok(found.map(|faces| Projection::Cube(Cube { faces })))
    }

    /// Refuses face order options if there is no strip.
    fn refuse_face_order(&self) -> Result<(), Failure> {
        if self.has_strip_options() {
            return Err(Failure::usage(
                "⟨from-faces⟩, ⟨from-turns⟩: have no effect without a strip; leave them out, or take ⟨from = strip⟩",
            ));
        }
        Ok(())
    }

    /// Cube map layout of the first image; `None` for a panorama.
    fn resolve_first(&self, first: &mut LoadedImage) -> Result<Option<Faces>, Failure> {
        let size = first.upright_size();
        let [w, h] = size;
        let path = first.path.display().to_string();
        let failed = |what: &str| Failure::new("frames", format!("{path}: picture: {w}x{h} px {what}"));
        let net = match self.classify(size, first.equirect(false).is_ok()) {
            SizeClass::Net(net) => net,
            SizeClass::PerhapsCross(net) => {
                let faces = Faces::new(net, StripOrder::default(), w / net.grid()[0]);
                if !self.has_empty_corners(first, &faces)? {
                    return Err(failed(NO_CORNERS));
                }
                net
            }
            SizeClass::Unclear(what) => return Err(failed(&what)),
            SizeClass::Square => {
                return Err(failed(
                    "may be a face of a cube, or a stereo pair (expected a panorama of 2:1); name six faces NAME_right, NAME_left, NAME_up, NAME_down, NAME_front, NAME_back, or use ⟨stereo = tb⟩",
                ));
            }
            SizeClass::Panorama | SizeClass::Other => return Ok(None),
        };
        if net.is_cross() {
            self.refuse_face_order()?;
        }
        let side = w / net.grid()[0];
        check_side(&path, "picture", side)?;
        Ok(Some(Faces::new(net, self.order(), side)))
    }

    /// Combines the image size with the given options.
    fn classify(&self, size: [u32; 2], is_panorama: bool) -> SizeClass {
        let of_net = CubeLayout::from_size(size);
        match (self.from, of_net) {
            (Some(SourceProjection::Cross), Some(net)) if net.is_cross() => SizeClass::Net(net),
            (Some(SourceProjection::Cross), _) => {
                SizeClass::Unclear("is not a cross (expected 4 by 3 or 3 by 4 square faces)".to_owned())
            }
            (Some(SourceProjection::Strip), Some(net)) if !net.is_cross() => SizeClass::Net(net),
            (Some(SourceProjection::Strip), _) => SizeClass::Unclear(
                "is not a strip (expected 6 by 1, 1 by 6, 3 by 2 or 2 by 3 square faces)".to_owned(),
            ),
            // Images whose metadata place them on the sphere are not cube maps.
            _ if is_panorama => SizeClass::Panorama,
            (None, Some(net)) if net.is_cross() => SizeClass::PerhapsCross(net),
            (None, Some(net @ (CubeLayout::Strip6x1 | CubeLayout::Strip1x6))) => SizeClass::Net(net),
            (None, Some(net)) if self.has_strip_options() => SizeClass::Net(net),
            (None, Some(net)) => SizeClass::Unclear(format!(
                "may be a strip of {} faces, or a photograph (expected a panorama of 2:1); use ⟨from = strip⟩ if it is one",
                net.name()
            )),
            _ if size[0] == size[1] => SizeClass::Square,
            _ => SizeClass::Other,
        }
    }

    /// Resolves the projection of a video: panoramas, GoPro MAX streams, crosses or strips.
    ///
    /// # Errors
    /// Frames of another projection than given or of an ambiguous size; ffmpeg fails.
    pub(super) fn resolve_video(&self, film: SphereVideo, host: &Host<'_>) -> Result<SphereVideo, Failure> {
        match self.recognise(film, host)? {
            Recognised::Film(film) => Ok(*film),
            Recognised::Unclear(failure) => Err(failure),
        }
    }

    /// As [`Self::resolve_video`], but returns an ambiguous size as a value instead of an error.
    ///
    /// # Errors
    /// As [`Self::resolve_video`].
    pub(super) fn recognise(&self, film: SphereVideo, host: &Host<'_>) -> Result<Recognised, Failure> {
        if self.from == Some(SourceProjection::Faces) {
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
            return Ok(Recognised::Film(Box::new(film)));
        }
        let size = film.video.size;
        let [w, h] = size;
        let path = film.video.path.display().to_string();
        let unclear = |what: &str| {
            Ok(Recognised::Unclear(Failure::new("video", format!("{path}: video: {w}x{h} px {what}"))))
        };
        let net = match self.classify(size, is_panorama_size(size)) {
            SizeClass::Net(net) => net,
            SizeClass::PerhapsCross(net) => {
                let level =
                    dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
                if !host.unless_stopped(film.shows_cross(net, level, host.stop()))? {
                    return unclear(NO_CORNERS);
                }
                net
            }
            SizeClass::Unclear(what) => return unclear(&what),
            SizeClass::Panorama => {
                self.refuse_face_order()?;
                if self.from.is_none() && host.unless_stopped(film.shows_two_circles(host.stop()))? {
                    return Err(Failure::new(
                        "video",
                        format!("{path}: video: {}", VideoProblem::TwoCircles),
                    ));
                }
                return Ok(Recognised::Film(Box::new(film)));
            }
            SizeClass::Square | SizeClass::Other => {
                return Ok(Recognised::Unclear(Failure::new(
                    "video",
                    format!("{path}: video: {}", VideoProblem::NotPanorama(size)),
                )));
            }
        };
        if net.is_cross() {
            self.refuse_face_order()?;
        }
        check_side(&path, "video", w / net.grid()[0])?;
        Ok(Recognised::Film(Box::new(film.with_cube(net, self.order()))))
    }

    fn has_empty_corners(&self, first: &mut LoadedImage, faces: &Faces) -> Result<bool, Failure> {
        let mut frame = Frame::default();
        let level = dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
        let all = [[0, i32::MAX / 2]; 3];
        // Some decoders consume the bytes of the file: decode a copy.
        let mut copy = load::parse(
            &first.path,
            &ImageLimits { width: u32::MAX, height: u32::MAX, bytes: u64::MAX },
            first.data.clone(),
        )
        .map_err(|e| Failure::new("frames", e))?;
        copy.decode(level, &mut Decoder::default(), &all, &mut frame)
            .map_err(|e| Failure::new("frames", e))?;
        Ok(recognise::has_uniform_empty_cells(faces, &frame))
    }

    /// Groups the images of a folder into cube maps of six images; `None` if there are none.
    ///
    /// # Errors
    /// A set without all faces; images that are not square.
    pub(super) fn resolve_face_sets(
        &self,
        folder: &Path,
        frames: &[SourceFrame],
        limits: &ImageLimits,
    ) -> Result<Option<(Vec<SourceFrame>, Projection)>, Failure> {
        if !matches!(self.from, None | Some(SourceProjection::Faces)) {
            return Ok(None);
        }
        let Some(sets) = recognise::group_faces(frames) else { return Ok(None) };
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
        let order = StripOrder { turns: self.turns.unwrap_or_default(), ..StripOrder::default() };
        if self.faces.is_some() {
            return Err(Failure::usage(
                "⟨from-faces⟩: has no effect on six images, whose names identify the faces; leave it out",
            ));
        }
        let faces = Faces::new(CubeLayout::Strip1x6, order, w);
        Ok(Some((sets, Projection::Cube(Cube { faces }))))
    }
}

/// The cube map layout of this size, unless it is also a common photo size (4:3 or 3:2 layouts of 3 by 2 faces).
fn unambiguous_net(size: [u32; 2]) -> Option<CubeLayout> {
    CubeLayout::from_size(size).filter(|net| !matches!(net, CubeLayout::Strip3x2 | CubeLayout::Strip2x3))
}

fn check_side(path: &str, what: &str, side: u32) -> Result<(), Failure> {
    if !(16..=MAX_FACE_SIDE).contains(&side) {
        return Err(Failure::new(
            "frames",
            format!("{path}: {what}: faces of {side} px (expected 16..{MAX_FACE_SIDE})"),
        ));
    }
    Ok(())
}
