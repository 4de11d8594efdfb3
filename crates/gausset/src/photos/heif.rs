//! HEIC, HEIF and AVIF photographs, decoded by ffmpeg, or by `heif-dec` or `heif-convert` of libheif.
//!
//! libheif writes upright pixels. ffmpeg does in some versions, even with `-noautorotate`: it gets a copy of the file
//! that does not say how it is turned, and the pixels are turned here. Each result must have the size that the file
//! states: phones store a photograph as tiles, of which older versions of ffmpeg decode one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::image::exif::with_upright_orientation;
use gausset_io::image::{DecodedImage, HeifHeader, MAX_FILE_BYTES, decode_file, read_heif_header, upright};
use gausset_io::input;
use gausset_process::{ProcessError, Program, find_program};
use jpeg_encoder::{ColorType, Encoder, EncodingError, SamplingFactor};

use super::alignment::LeftOut;
use super::list::PhotographList;
use crate::external_tools::LIBHEIF_PROGRAMS;

/// Quality of the JPEG copies, 1..100.
const QUALITY: u8 = 95;
/// Longest head of a portable pixmap, bytes.
const MAX_HEAD_BYTES: usize = 64;
/// Photographs of which ffmpeg must decode one: the first may be damaged, or of a kind that it does not know.
const SAMPLES: usize = 4;
/// Name of the file that libheif writes.
const DECODED: &str = "decoded.png";
/// Name of the file that ffmpeg reads.
const STORED: &str = "stored.heic";

/// A program that decodes HEIF.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decoder {
    Ffmpeg(PathBuf),
    /// `heif-dec`, or `heif-convert` as it was called before.
    Libheif(PathBuf),
}

/// Why a photograph has no JPEG.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeifError {
    #[error("no program decodes it")]
    NoProgram,
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Program(#[from] ProcessError),
    /// What a program wrote cannot be used.
    #[error("{program}: {problem}")]
    Output { program: &'static str, problem: String },
    #[error("{}x{} px are too many for a JPEG", .0[0], .0[1])]
    TooLarge([u32; 2]),
    #[error(transparent)]
    Encode(#[from] EncodingError),
}

impl HeifError {
    fn output(program: &'static str, problem: impl Into<String>) -> Self {
        Self::Output { program, problem: problem.into() }
    }

    fn size(program: &'static str, [width, height]: [u32; 2], [w, h]: [u32; 2]) -> Self {
        Self::output(program, format!("decodes {width}x{height} px (expected {w}x{h})"))
    }
}

/// How HEIF photographs are decoded.
#[derive(Clone, Debug)]
pub(super) struct HeifDecoder {
    /// The programs to try, in this order.
    programs: Vec<Decoder>,
    silence_limit: Duration,
}

/// The HEIF photographs of a folder that can be used.
pub(super) struct HeifPhotographs {
    /// In the order of [`PhotographList::heif`].
    pub(super) headers: Vec<HeifHeader>,
    pub(super) decoder: HeifDecoder,
}

impl HeifPhotographs {
    /// Leaves out those that are damaged, and all of them if no program decodes one of the first.
    pub(super) fn check(
        list: &mut PhotographList,
        folder: &Path,
        silence_limit: Duration,
        stop: &AtomicBool,
    ) -> Self {
        let (mut headers, mut unreadable) = (Vec::new(), Vec::new());
        let listed = list.heif.clone();
        list.heif.retain(|name| match read_heif_header(&folder.join(name)) {
            Ok(header) => {
                headers.push(header);
                true
            }
            Err(error) => {
                unreadable.push(LeftOut { name: name.clone(), reason: error.problem.to_string() });
                false
            }
        });
        let mut decoder = HeifDecoder { programs: Vec::new(), silence_limit };
        let files = list.heif.iter().map(|name| folder.join(name));
        let samples: Vec<(PathBuf, &HeifHeader)> = files.zip(&headers).take(SAMPLES).collect();
        if !samples.is_empty() {
            let libheif = LIBHEIF_PROGRAMS.into_iter().find_map(find_program);
            decoder.choose(find_program("ffmpeg"), libheif, &samples, stop);
        }
        if decoder.programs.is_empty() {
            list.heif = listed;
            list.leave_out_heif();
            return Self { headers: Vec::new(), decoder };
        }
        list.leave_out_unreadable(unreadable);
        Self { headers, decoder }
    }
}

impl HeifDecoder {
    /// Chooses ffmpeg if it decodes one of these files, and libheif.
    fn choose(
        &mut self,
        ffmpeg: Option<PathBuf>,
        libheif: Option<PathBuf>,
        samples: &[(PathBuf, &HeifHeader)],
        stop: &AtomicBool,
    ) {
        let decodes = |program: &PathBuf, file: &Path, header: &HeifHeader| {
            let decoded = self.run_ffmpeg(program, file, header.size, stop);
            decoded
                .is_ok_and(|(size, _)| [size, [size[1], size[0]]].iter().any(|size| is_whole(*size, header)))
        };
        let can_decode =
            |program: &PathBuf| samples.iter().any(|(file, header)| decodes(program, file, header));
        let ffmpeg = ffmpeg.filter(can_decode);
        self.programs.extend(ffmpeg.map(Decoder::Ffmpeg));
        self.programs.extend(libheif.map(Decoder::Libheif));
    }

    /// Decodes a photograph to an upright JPEG with its EXIF. `work` is a folder for files of the program.
    pub(super) fn to_jpeg(
        &self,
        file: &Path,
        header: &HeifHeader,
        work: &Path,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, HeifError> {
        let mut reason = HeifError::NoProgram;
        for program in &self.programs {
            let picture = match program {
                Decoder::Ffmpeg(program) => self.by_ffmpeg(program, file, header, work, stop),
                Decoder::Libheif(program) => self.by_libheif(program, file, header, work, stop),
            };
            match picture.and_then(|picture| encode(&picture, header)) {
                Ok(jpeg) => return Ok(jpeg),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// Decodes the stored pixels, and turns them.
    fn by_ffmpeg(
        &self,
        program: &Path,
        file: &Path,
        header: &HeifHeader,
        work: &Path,
        stop: &AtomicBool,
    ) -> Result<DecodedImage, HeifError> {
        let stored = work.join(STORED);
        let mut bytes = input::read(file, MAX_FILE_BYTES)?;
        header.remove_turn(&mut bytes);
        write_atomic(&Disk, &stored, |to| to.write_all(&bytes))?;
        let ([width, height], rgb) = self.run_ffmpeg(program, &stored, header.size, stop)?;
        if !is_whole([width, height], header) {
            return Err(HeifError::size("ffmpeg", [width, height], header.cropped_size));
        }
        Ok(upright(DecodedImage { width, height, rgb, alpha: None }, header.orientation))
    }

    /// Size and pixels that ffmpeg writes as a portable pixmap of at most this size.
    fn run_ffmpeg(
        &self,
        program: &Path,
        file: &Path,
        [width, height]: [u32; 2],
        stop: &AtomicBool,
    ) -> Result<([u32; 2], Vec<u8>), HeifError> {
        let mut program = Program::new(program).silence_limit(self.silence_limit);
        for argument in
            ["-nostdin", "-v", "error", "-xerror", "-protocol_whitelist", "file", "-f", "mov", "-i"]
        {
            program = program.arg(argument);
        }
        program = program.file_with_prefix("file:", file);
        for argument in ["-frames:v", "1", "-an", "-c:v", "ppm", "-pix_fmt", "rgb24", "-f", "image2pipe", "-"]
        {
            program = program.arg(argument);
        }
        let mut stream = program.stream(stop)?;
        let mut bytes = vec![0; 3 * width as usize * height as usize + MAX_HEAD_BYTES];
        let count = stream.fill(&mut bytes)?;
        stream.finish()?;
        bytes.truncate(count);
        let (size, start) = pixmap_head(&bytes).ok_or_else(|| HeifError::output("ffmpeg", "no image"))?;
        let rgb = bytes.split_off(start);
        let is_complete = rgb.len() as u64 == 3 * u64::from(size[0]) * u64::from(size[1]);
        if is_complete {
            Ok((size, rgb))
        } else {
            Err(HeifError::output("ffmpeg", "the image ends too early"))
        }
    }

    /// Decodes the upright pixels to a file.
    fn by_libheif(
        &self,
        program: &Path,
        file: &Path,
        header: &HeifHeader,
        work: &Path,
        stop: &AtomicBool,
    ) -> Result<DecodedImage, HeifError> {
        let decoded = work.join(DECODED);
        // That of the last photograph.
        let _ = Disk.remove(&decoded);
        let program = Program::new(program).silence_limit(self.silence_limit).file(file).file(&decoded);
        program.run(stop, &mut |_, _| {})?;
        let picture =
            decode_file(&decoded).map_err(|e| HeifError::output("libheif", e.problem.to_string()))?;
        let (size, expected) = ([picture.width, picture.height], header.upright_size());
        if size != expected {
            return Err(HeifError::size("libheif", size, expected));
        }
        Ok(picture)
    }
}

/// Whether this is the size of the stored pixels. Colours of half the resolution cover pairs of pixels: an odd last
/// column or row may be missing. ffmpeg does not crop.
fn is_whole(size: [u32; 2], header: &HeifHeader) -> bool {
    let is_side = |(side, whole): (u32, u32)| side == whole || side == whole & !1;
    size.into_iter().zip(header.size).all(is_side) && header.cropped_size == header.size
}

/// Size in the head of a portable pixmap of 8 bits (`P6 width height 255`), and the offset of its pixels.
fn pixmap_head(bytes: &[u8]) -> Option<([u32; 2], usize)> {
    let mut words = bytes.get(..bytes.len().min(MAX_HEAD_BYTES))?.split(u8::is_ascii_whitespace);
    let mut start = 0;
    let mut word = || {
        let word = words.next()?;
        start += word.len() + 1;
        std::str::from_utf8(word).ok()
    };
    let (magic, width, height, most) = (word()?, word()?, word()?, word()?);
    let size = [width.parse().ok()?, height.parse().ok()?];
    (magic == "P6" && most == "255").then_some((size, start))
}

fn encode(picture: &DecodedImage, header: &HeifHeader) -> Result<Vec<u8>, HeifError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    if let Some(exif) = &header.exif {
        encoder.add_exif_metadata(&with_upright_orientation(exif))?;
    }
    let [width, height] = [picture.width, picture.height].map(u16::try_from);
    let (Ok(width), Ok(height)) = (width, height) else {
        return Err(HeifError::TooLarge([picture.width, picture.height]));
    };
    encoder.encode(&picture.rgb, width, height, ColorType::Rgb)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use gausset_io::image::exif::Exif;
    use gausset_io::image::read_header;
    use gausset_pano::metadata::Metadata;
    use gausset_testkit::programs::script;
    use gausset_testkit::testdata_dir;

    use super::super::PhotoOptions;
    use super::super::copies::{Photographs, usable_images};
    use super::*;
    use crate::{Event, Host};

    static NEVER: AtomicBool = AtomicBool::new(false);
    const LIMIT: Duration = Duration::from_secs(60);

    /// A photograph of 96x128 px by libheif, stored as 128x96 px: upright, its upper left quarter is red.
    fn photograph() -> (PathBuf, HeifHeader) {
        let file = testdata_dir().join("heif/portrait.heic");
        let header = read_heif_header(&file).unwrap();
        (file, header)
    }

    /// A script that writes this image as ffmpeg does.
    fn ffmpeg(
        folder: &Path,
        [width, height]: [usize; 2],
        pixel: impl Fn(usize, usize) -> [u8; 3],
    ) -> PathBuf {
        let mut image = format!("P6\n{width} {height}\n255\n").into_bytes();
        image.extend((0..width * height).flat_map(|at| pixel(at % width, at / width)));
        std::fs::write(folder.join("image.ppm"), image).unwrap();
        script(&folder.join("ffmpeg"), &format!("cat {}", folder.join("image.ppm").display()));
        folder.join("ffmpeg")
    }

    fn decoder(ffmpeg: Option<PathBuf>, libheif: Option<PathBuf>) -> HeifDecoder {
        let (file, header) = photograph();
        let mut decoder = HeifDecoder { programs: Vec::new(), silence_limit: LIMIT };
        decoder.choose(ffmpeg, libheif, &[(file, &header)], &NEVER);
        decoder
    }

    #[test]
    fn a_photograph_becomes_an_upright_jpeg_with_its_exif() {
        let folder = tempfile::tempdir().unwrap();
        let (file, header) = photograph();
        // Stored on its side: the upper left quarter lies at the lower left.
        let stored = |x, y| if x < 64 && y >= 48 { [220, 40, 40] } else { [40, 40, 200] };
        let decoder = decoder(Some(ffmpeg(folder.path(), [128, 96], stored)), None);
        let jpeg = decoder.to_jpeg(&file, &header, folder.path(), &NEVER).unwrap();
        // What ffmpeg reads does not say how it is turned.
        let read = read_heif_header(&folder.path().join(STORED)).unwrap();
        assert_eq!((header.orientation, read.orientation), (6, 1));
        let metadata = Metadata::from_jpeg(&jpeg);
        assert_eq!((metadata.exif.model.as_deref(), metadata.exif.orientation), (Some("Model"), Some(1)));
        assert_eq!(metadata.position().map(|position| position.latitude), Some(48.5));
        let copy = folder.path().join("copy.jpg");
        std::fs::write(&copy, jpeg).unwrap();
        assert_eq!(read_header(&copy).unwrap().orientation, 1);
        let picture = decode_file(&copy).unwrap();
        assert_eq!([picture.width, picture.height], [96, 128]);
        let at = |x: usize, y: usize| &picture.rgb[3 * (96 * y + x)..][..3];
        assert!(at(20, 30)[0] > 200 && at(70, 30)[0] < 60 && at(20, 100)[0] < 60);
        // EXIF of the original describes the turn a second time.
        assert_eq!(Exif::read(&header.exif.unwrap()).orientation, Some(6));
    }

    #[test]
    fn an_ffmpeg_that_decodes_a_single_tile_is_passed_over_for_libheif() {
        let folder = tempfile::tempdir().unwrap();
        let (file, header) = photograph();
        let tile = ffmpeg(folder.path(), [64, 64], |_, _| [0; 3]);
        assert_eq!(decoder(Some(tile.clone()), None).programs, []);
        let upright = gausset_core::RgbImage8::new(96, 128);
        let png = gausset_io::image::encode::png_rgb8(&upright).unwrap();
        std::fs::write(folder.path().join("upright.png"), png).unwrap();
        let heif_dec = folder.path().join("heif-dec");
        script(&heif_dec, &format!("cp {} \"$2\"", folder.path().join("upright.png").display()));
        let decoder = decoder(Some(tile), Some(heif_dec.clone()));
        assert_eq!(decoder.programs, [Decoder::Libheif(heif_dec)]);
        assert!(decoder.to_jpeg(&file, &header, folder.path(), &NEVER).is_ok());
        // The file of an earlier photograph is not taken for this one.
        script(&folder.path().join("heif-dec"), "true");
        let error = decoder.to_jpeg(&file, &header, folder.path(), &NEVER).unwrap_err().to_string();
        assert!(error.contains("libheif: picture: "), "{error}");
    }

    #[test]
    fn photographs_that_cannot_be_decoded_are_left_out_with_a_line_until_a_decoder_reads_them() {
        let place = tempfile::tempdir().unwrap();
        let photos = place.path().join("photos");
        std::fs::create_dir(&photos).unwrap();
        for name in ["a.heic", "c.HEIC"] {
            std::fs::copy(photograph().0, photos.join(name)).unwrap();
        }
        let png = gausset_io::image::encode::png_rgb8(&gausset_core::RgbImage8::new(8, 6)).unwrap();
        std::fs::write(photos.join("b.png"), png).unwrap();
        // Decodes the first only.
        let mut longer = std::fs::read(photos.join("c.HEIC")).unwrap();
        longer.extend([0; 9000]);
        std::fs::write(photos.join("c.HEIC"), longer).unwrap();
        let program = ffmpeg(place.path(), [128, 96], |_, _| [9; 3]);
        let image = place.path().join("image.ppm");
        let size = "for word; do case \"$word\" in file:*) size=$(wc -c < \"${word#file:}\");; esac; done";
        script(&program, &format!("{size}\n[ $size -lt 9000 ] && cat {}", image.display()));
        // It is used even if it does not decode the first one.
        let mut chosen = HeifDecoder { programs: Vec::new(), silence_limit: LIMIT };
        let (header, samples) = (photograph().1, ["c.HEIC", "a.heic"].map(|name| photos.join(name)));
        chosen.choose(Some(program.clone()), None, &samples.map(|file| (file, &header)), &NEVER);
        assert_eq!(chosen.programs.len(), 1);
        let mut list = PhotographList::of_folder(&photos, &[]).unwrap();
        let headers = list.heif.iter().map(|name| read_heif_header(&photos.join(name)).unwrap()).collect();
        let heif = HeifPhotographs { headers, decoder: decoder(Some(program.clone()), None) };
        let headers = list.check(&photos).unwrap();
        let photographs = Photographs { list, headers, heif };
        let options = PhotoOptions::new(&photos, place.path().join("out"));
        // Then nothing decodes; then the program is mended.
        for later in ["exit 3", "cat MORE", ""] {
            let (stop, mut lines) = (Default::default(), Vec::new());
            let mut events = |event| {
                if let Event::Warning { line, .. } = event {
                    lines.push(line);
                }
            };
            let mut host = Host::new(&stop, &mut events);
            let (folder, names, failed) = usable_images(&options, &photographs, &mut host).unwrap();
            let left_out: Vec<&str> = failed.iter().map(|failed| &*failed.name).collect();
            let warning = "1 file that cannot be read left out (the first: c.HEIC: ";
            if later.is_empty() {
                assert_eq!((names.len(), left_out.len(), lines.len()), (3, 0, 0));
            } else {
                assert_eq!((names, left_out), (vec!["a.heic.jpg".into(), "b.png".into()], vec!["c.HEIC"]));
                assert!(lines.last().is_some_and(|line| line.contains(warning)), "{lines:?}");
            }
            let begun = "2 of 3 photographs are HEIC; aligned as upright JPEG copies";
            assert_eq!(lines.iter().any(|line| line.ends_with(begun)), later == "exit 3");
            assert_eq!(read_header(&folder.join("a.heic.jpg")).unwrap().height, 128);
            script(&program, &later.replace("MORE", &image.display().to_string()));
        }
    }

    #[test]
    fn a_head_of_a_pixmap_is_complete() {
        assert_eq!(pixmap_head(b"P6\n3 2\n255\nxyz"), Some(([3, 2], 11)));
        for wrong in [&b"P6\n3 2\n65535\n"[..], b"P5 3 2 255 ", b"P6 3", b"", &[b'1'; 100]] {
            assert_eq!(pixmap_head(wrong), None);
        }
    }
}
