//! Other programs in tests: scripts in their place, recorded runs of COLMAP (`testdata/colmap`), videos by ffmpeg.
#![allow(clippy::disallowed_methods, reason = "files and programs of tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gausset_core::RgbImage8;

use crate::{skip_for_tool, testdata_dir};

/// Writes a shell script in place of a program.
///
/// A child process writes it: a file that this process has open for writing is also open in every process that another
/// test starts at that moment, and until that process runs its program the system refuses to run the file ("Text file
/// busy").
///
/// # Panics
/// If the file cannot be written.
#[cfg(unix)]
pub fn script(path: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stdin = shell.stdin.take().expect("a pipe");
    write!(stdin, "#!/bin/sh\n{text}\n").expect("the shell reads the script");
    drop(stdin);
    assert!(shell.wait().expect("the shell ends").success(), "{}: not written", path.display());
}

/// Folder of the recorded run of COLMAP: three panoramas `frame_00` to `frame_02` in views of 224 px.
#[must_use]
pub fn colmap_recording() -> PathBuf {
    testdata_dir().join("colmap")
}

/// Writes the programs `python` and `colmap` into a folder. They replay the recorded run, and give this model as the
/// result. `colmap` appends its arguments to the file `calls`.
///
/// # Panics
/// If a file cannot be written.
#[cfg(unix)]
pub fn write_colmap_stand_ins(folder: &Path, model: &Path) {
    let (transcript, model) = (colmap_recording().join("pycolmap_4.2.1.txt"), model.display());
    script(
        &folder.join("python"),
        &format!(
            "for last; do :; done
if [ \"$last\" = --version ]; then echo '{{\"event\": \"version\", \"version\": \"4.2.1\"}}'; exit 0; fi
while IFS= read -r line; do
  case \"$line\" in 'O '*) echo \"${{line#O }}\";; *) echo \"${{line#E }}\" >&2;; esac
done < {}
models=$(sed -n 's/.*\"models\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
mkdir -p \"$models/0\" && cp {model}/* \"$models/0\"",
            transcript.display()
        ),
    );
    script(
        &folder.join("colmap"),
        &format!(
            "if [ \"$1\" = help ]; then echo 'COLMAP 3.13.0 -- Structure-from-Motion and Multi-View Stereo'; exit 0; fi
echo \"$@\" >> {}
[ \"$1\" = mapper ] || exit 0
while [ \"$1\" != --output_path ]; do shift; done
mkdir -p \"$2/0\" && cp {model}/* \"$2/0\"",
            folder.join("calls").display()
        ),
    );
}

/// Writes a lossless video of panoramas of this width, five frames per second. Returns false and reports a skipped test
/// if ffmpeg is not installed.
///
/// # Panics
/// If ffmpeg fails.
#[must_use]
pub fn write_video(test: &str, path: &Path, width: usize, frames: &[RgbImage8]) -> bool {
    let size = format!("{width}x{}", width / 2);
    let ffmpeg = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", "5", "-i", "-"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-qp", "0", "-pix_fmt", "yuv420p"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut ffmpeg) = ffmpeg else {
        skip_for_tool(test, "ffmpeg is not installed");
        return false;
    };
    let mut stdin = ffmpeg.stdin.take().expect("a pipe");
    for frame in frames {
        stdin.write_all(&frame.data).expect("ffmpeg takes frames");
    }
    drop(stdin);
    assert!(ffmpeg.wait().expect("ffmpeg ends").success());
    true
}
