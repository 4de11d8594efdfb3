//! What a picture is: a panorama, or a cube in a cross, a strip or six faces. Told by its shape, asked where that says
//! too little.

use std::path::Path;

use gausset_compute::{VectorLevel, level};
use gausset_pano::cube::{self, Cube, Face, Faces, MAX_SIDE, Net, Order};
use gausset_pano::frames::SourceFrame;
use gausset_pano::jpeg::Decoder;
use gausset_pano::load::{self, Limits, Opened};
use gausset_pano::plane::Frame;
use gausset_pano::projection::Projection;

use crate::Failure;

/// What pictures of the sphere look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceShape {
    /// Longitude and latitude, twice as wide as high.
    Equirect,
    /// A cube unfolded to a cross.
    Cross,
    /// The faces of a cube in rows.
    Strip,
    /// Six pictures, one a face.
    Faces,
}

impl SourceShape {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Equirect, Self::Cross, Self::Strip, Self::Faces];

    /// The stable name.
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

/// What is said about the pictures of a source; all that is missing is told by their shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeChoice {
    /// What they look like.
    pub from: Option<SourceShape>,
    /// Order of the faces of a strip [default: rludfb].
    pub faces: Option<[Face; 6]>,
    /// Quarter turns clockwise of what is at each place of a strip [default: none].
    pub turns: Option<[u8; 6]>,
}

impl ShapeChoice {
    /// Whether something is said of the faces of a strip.
    fn is_of_strip(&self) -> bool {
        self.faces.is_some() || self.turns.is_some()
    }

    fn order(&self) -> Order {
        let plain = Order::default();
        Order { faces: self.faces.unwrap_or(plain.faces), turns: self.turns.unwrap_or(plain.turns) }
    }

    /// How frames in single pictures show the sphere, by the first that can be read; `None` for panoramas.
    ///
    /// # Errors
    /// Pictures of two shapes, or of one that is not what was said, or that may be several things.
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
                        "{path}: frames: no faces (expected six pictures a frame, NAME_right, NAME_left, NAME_up, NAME_down, NAME_front, NAME_back)"
                    ),
                ));
            }
            _ => {}
        }
        let files = || frames.iter().flat_map(|frame| &frame.files);
        let first = files().find_map(|file| load::open(file, limits, Vec::new()).ok());
        // What cannot be read is told when it is cut.
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

    /// Refuses an order of faces where there is no strip.
    fn without_order(&self) -> Result<(), Failure> {
        if self.is_of_strip() {
            return Err(Failure::usage(
                "⟨from-faces⟩, ⟨from-turns⟩: have no effect without a strip; leave them out, or take ⟨from = strip⟩",
            ));
        }
        Ok(())
    }

    /// The cube of the first picture; `None` when it is a panorama.
    fn of_first(&self, first: &mut Opened) -> Result<Option<Faces>, Failure> {
        let size = first.upright_size();
        let [w, h] = size;
        let path = first.path.display().to_string();
        let failed = |what: String| Failure::new("frames", format!("{path}: picture: {w}x{h} px {what}"));
        let net = Net::of_size(size);
        let net = match (self.from, net) {
            (Some(SourceShape::Cross), Some(net)) if net.is_cross() => net,
            (Some(SourceShape::Cross), _) => {
                return Err(failed("is no cross (expected 4 by 3 or 3 by 4 square faces)".to_owned()));
            }
            (Some(SourceShape::Strip), Some(net)) if !net.is_cross() => net,
            (Some(SourceShape::Strip), _) => {
                let what = "is no strip (expected 6 by 1, 1 by 6, 3 by 2 or 2 by 3 square faces)";
                return Err(failed(what.to_owned()));
            }
            // What says itself where it lies on the sphere is no cube.
            _ if first.equirect(false).is_ok() => return Ok(None),
            (None, Some(net)) if net.is_cross() => {
                let faces = Faces::of_net(net, Order::default(), w / net.grid()[0]);
                if !self.looks_empty(first, &faces)? {
                    return Err(failed(
                        "may be a cross, but its corners are not of one colour (expected a panorama of 2:1, or a cross); say ⟨from = cross⟩ if it is one".to_owned(),
                    ));
                }
                net
            }
            (None, Some(Net::Strip6x1 | Net::Strip1x6)) => net.unwrap_or(Net::Strip6x1),
            (None, Some(net)) if self.is_of_strip() => net,
            (None, Some(net)) => {
                return Err(failed(format!(
                    "may be a strip of {} faces, or a photograph (expected a panorama of 2:1); say ⟨from = strip⟩ if it is one",
                    net.name()
                )));
            }
            _ if w == h => {
                return Err(failed(
                    "may be a face of a cube, or two eyes (expected a panorama of 2:1); name six faces NAME_right, NAME_left, NAME_up, NAME_down, NAME_front, NAME_back, or say ⟨stereo = tb⟩".to_owned(),
                ));
            }
            _ => return Ok(None),
        };
        if net.is_cross() {
            self.without_order()?;
        }
        let side = w / net.grid()[0];
        check_side(&path, side)?;
        Ok(Some(Faces::of_net(net, self.order(), side)))
    }

    fn looks_empty(&self, first: &mut Opened, faces: &Faces) -> Result<bool, Failure> {
        let mut frame = Frame::default();
        let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no vector level"))?;
        let all = [[0, i32::MAX / 2]; 3];
        // The file's bytes are used up by some decoders: a copy is decoded.
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

    /// The sets of six pictures in a folder, and how they show the sphere; `None` when there are none.
    ///
    /// # Errors
    /// A set that lacks a face; pictures that are not square.
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
                format!("{}: picture: {w}x{h} px is no face of a cube (expected a square)", file.display()),
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
        check_side(&file.display().to_string(), w)?;
        if w > limits.width {
            return Ok(None);
        }
        let order = Order { turns: self.turns.unwrap_or_default(), ..Order::default() };
        if self.faces.is_some() {
            return Err(Failure::usage(
                "⟨from-faces⟩: has no effect on six pictures, whose names say what they are; leave it out",
            ));
        }
        let faces = Faces::of_net(Net::Strip1x6, order, w);
        Ok(Some((sets, Projection::Cube(Cube { faces }))))
    }
}

/// The net that pictures of this size are, where nothing else has such a shape but a photograph of 4:3.
fn clear_net(size: [u32; 2]) -> Option<Net> {
    Net::of_size(size).filter(|net| !matches!(net, Net::Strip3x2 | Net::Strip2x3))
}

fn check_side(path: &str, side: u32) -> Result<(), Failure> {
    if !(16..=MAX_SIDE).contains(&side) {
        return Err(Failure::new(
            "frames",
            format!("{path}: picture: faces of {side} px (expected 16..{MAX_SIDE})"),
        ));
    }
    Ok(())
}
