//! Masks of frames: found beside them, or made by an outside program.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{Program, find, is_executable};

use super::source::SourceFrame;
use super::worker::{Bench, FrameError, Shared};
use crate::plane::{Colour, Frame, Plane};
use crate::video::picture_of;

/// Folder in the output for masks that a command makes, while they are needed.
pub(super) const MASK_FOLDER: &str = ".masks";
/// Quality of the pictures of video frames that a mask command sees.
const SNAPSHOT_QUALITY: u8 = 95;

/// An outside program that writes a mask for a frame: 0 = remove, anything else = keep; no file = keep everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskCommand {
    /// Program and arguments; `{frame}` and `{mask}` stand for the picture and for the PNG that is to be written.
    words: Vec<String>,
    silence: Duration,
}

impl MaskCommand {
    /// Takes a command line apart as a shell would, without running one. Without `{frame}` and `{mask}`, both are
    /// added at its end. `silence`: how long the program may say nothing.
    ///
    /// # Errors
    /// One line: quotes do not match, or there is no such program.
    pub fn parse(text: &str, silence: Duration) -> Result<Self, String> {
        let mut words = shlex::split(text).ok_or_else(|| format!("quotes do not match in `{text}`"))?;
        let Some(program) = words.first() else {
            return Err("is empty (expected a program and its arguments)".to_owned());
        };
        let is_there =
            if program.contains('/') { is_executable(Path::new(program)) } else { find(program).is_some() };
        if !is_there {
            return Err(format!("`{program}` is no program (expected one in PATH, or a path to one)"));
        }
        for place in ["{frame}", "{mask}"] {
            if !words.iter().any(|word| word.contains(place)) {
                words.push(place.to_owned());
            }
        }
        Ok(Self { words, silence })
    }

    /// What the result depends on.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    fn run(&self, frame: &Path, mask: &Path, stop: &AtomicBool) -> Result<(), String> {
        let mut words = self.words.iter();
        let Some(program) = words.next() else { return Ok(()) };
        // The user's own command line: its words may be files of the working folder.
        let mut program = Program::new(program).silence(self.silence).in_working_folder();
        for word in words {
            program = match word.as_str() {
                "{frame}" => program.file(frame),
                "{mask}" => program.file(mask),
                _ => {
                    let named = |path: &Path| path.to_string_lossy().into_owned();
                    program.arg(word.replace("{frame}", &named(frame)).replace("{mask}", &named(mask)))
                }
            };
        }
        program.run(stop, &mut |_, _| {}).map_err(|e| e.to_string())?;
        Ok(())
    }
}

/// Puts the mask of a frame, if it has one, into the bench.
pub(super) fn load(shared: &Shared<'_>, source: &SourceFrame, bench: &mut Bench) -> Result<bool, FrameError> {
    let settings = shared.settings;
    let is_video = settings.video.is_some();
    if let Some(command) = &settings.mask_command {
        let mask = make(shared, command, source, &bench.frame, is_video)?;
        let has_mask = mask.is_file();
        if has_mask {
            decode(&mask, &mut bench.mask, &bench.frame, settings.is_stereo)?;
            let _ = fs::remove_file(&mask);
        }
        return Ok(has_mask);
    }
    let Some(file) = source.files.first().filter(|_| !is_video) else { return Ok(false) };
    let Some(path) = find_mask(file, &source.stem, settings.masks.as_deref()) else {
        return Ok(false);
    };
    decode(&path, &mut bench.mask, &bench.frame, settings.is_stereo)?;
    Ok(true)
}

/// Lets the command make a mask; gives the place where it is, if it made one.
fn make(
    shared: &Shared<'_>,
    command: &MaskCommand,
    source: &SourceFrame,
    frame: &Frame,
    is_video: bool,
) -> Result<PathBuf, FrameError> {
    let folder = shared.folder.join(MASK_FOLDER);
    let error = |what: String| FrameError::Frame(format!("{}: mask command: {what}", source.stem));
    let io = |e: std::io::Error| error(gausset_io::atomic::plain_reason(&e));
    fs::create_dir_all(&folder).map_err(io)?;
    let mask = folder.join(format!("{}.png", source.stem));
    let _ = fs::remove_file(&mask);
    let picture = if is_video {
        let path = folder.join(format!("{}.jpg", source.stem));
        fs::write(&path, picture_of(frame, SNAPSHOT_QUALITY, shared.work.level)).map_err(io)?;
        path
    } else {
        source.files.first().cloned().unwrap_or_default()
    };
    let ran = command.run(&picture, &mask, shared.stop);
    if is_video {
        let _ = fs::remove_file(&picture);
    }
    ran.map_err(error)?;
    Ok(mask)
}

/// Decodes a mask that has the size of the frame; of a mask for two stacked eyes, the upper half.
fn decode(path: &Path, out: &mut Frame, frame: &Frame, is_stereo: bool) -> Result<(), FrameError> {
    let picture = gausset_io::image::decode_mask_file(path).map_err(|e| FrameError::Frame(e.to_string()))?;
    let (w, h) = (frame.planes[0].width, frame.planes[0].height);
    let (width, height) = (picture.width as usize, picture.height as usize);
    let is_both_eyes = is_stereo && height == 2 * h;
    if width != w || (height != h && !is_both_eyes) {
        return Err(FrameError::Frame(format!(
            "{}: mask: {width}x{height} px (expected {w}x{h}, the size of the frame)",
            path.display()
        )));
    }
    out.colour = Colour::Grey;
    out.planes.resize_with(1, Plane::default);
    let plane = &mut out.planes[0];
    plane.reshape(w, h, [-1, h as i32]);
    for (y, row) in picture.keep.chunks_exact(w).take(h).enumerate() {
        plane.row_mut(y as i32).copy_from_slice(row);
    }
    Ok(())
}

/// `DIR/NAME.png`, `DIR/STEM.png`, `DIR/STEM_mask.png` in the folder of masks, or beside the frame.
fn find_mask(file: &Path, stem: &str, masks: Option<&Path>) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let own = file.file_stem()?.to_string_lossy().into_owned();
    let beside = file.parent()?;
    let folders = [masks.map(Path::to_owned), Some(beside.join("masks"))];
    let in_folders = folders.into_iter().flatten().flat_map(|folder| {
        [format!("{name}.png"), format!("{own}.png"), format!("{own}_mask.png"), format!("{stem}.png")]
            .map(|candidate| folder.join(candidate))
    });
    let beside = [format!("{name}.png"), format!("{own}_mask.png")].map(|candidate| beside.join(candidate));
    in_folders.chain(beside).find(|path| path.is_file())
}
