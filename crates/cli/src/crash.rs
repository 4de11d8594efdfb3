//! Panics are bugs: the panic hook prints one line with the source location and ends the program with exit code 101.
//! With `RUST_BACKTRACE` set it also prints a backtrace. Child processes are terminated.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::panic_guard;
use gausset_io::atomic::{Disk, write_atomic};
use gausset_io::text::one_line;

use crate::console::print_to_stderr;

/// Exit code after a panic, the same as with Rust's default handler.
const EXIT_CODE: i32 = 101;

/// The run folder in use, in which a crash writes `crash.txt`.
static RUN_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the run folder in which a crash writes `crash.txt`.
pub(crate) fn set_run_folder(run: &Path) {
    let _ = RUN_FOLDER.set(run.to_owned());
}

/// Whether a panic is ending the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Waits for the end of the process if a panic on another thread is ending it.
pub(crate) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Replaces Rust's panic message by one line. The process ends immediately, whichever thread panicked: a run that
/// continued without one of its threads would wait for it forever.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(|panic| {
        // A panic in a decoder or a graphics driver is an error of the image or device; the caller catches it.
        if panic_guard::is_active() {
            return;
        }
        let is_viewer = std::thread::current().name() == Some(gausset_view::server::THREAD);
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = one_line(text.unwrap_or("no message"));
        let place = panic.location().map_or_else(|| "unknown place".to_owned(), ToString::to_string);
        let line = format!(
            "gausset: internal error at {place}: {message} (version {}); please report",
            crate::VERSION
        );
        let backtrace = Backtrace::capture();
        print_to_stderr(&line);
        if backtrace.status() == BacktraceStatus::Captured {
            backtrace.to_string().lines().for_each(print_to_stderr);
        }
        // A panic in the viewer only loses its pages; training continues.
        if is_viewer {
            return;
        }
        // The job sees its child processes end and must not report that as its own error.
        IS_ENDING.store(true, Ordering::SeqCst);
        gausset_process::kill_all();
        if let Some(run) = RUN_FOLDER.get().filter(|run| run.is_dir()) {
            let text = format!("{line}\n{}\n", Backtrace::force_capture());
            let _ = write_atomic(&Disk, &run.join("crash.txt"), |file| file.write_all(text.as_bytes()));
        }
        std::process::exit(EXIT_CODE);
    }));
}

/// Panics if the environment asks for it, so that tests can check the output: with `GAUSSET_REHEARSE_PANIC=1`
/// immediately, with `GAUSSET_REHEARSE_PANIC=FILE` on another thread as soon as the file exists.
#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "the panic is intended")]
pub(crate) fn panic_if_requested() {
    let Some(wanted) = std::env::var_os("GAUSSET_REHEARSE_PANIC") else { return };
    assert!(wanted != "1", "this is\na rehearsal");
    let wait_and_panic = move || {
        while !Path::new(&wanted).exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("this is a rehearsal beside other work");
    };
    let _ = std::thread::Builder::new().spawn(wait_and_panic);
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub(crate) const fn panic_if_requested() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_is_caught_does_not_end_the_program_and_others_do() {
        let is_child = "GAUSSET_TEST_CRASH_HOOK";
        if std::env::var_os(is_child).is_some() {
            install_hook();
            assert!(panic_guard::catch(|| panic!("the device is lost")).is_err());
            print_to_stderr("caught");
            panic!("a bug");
        }
        let test = "crash::tests::a_panic_that_is_caught_does_not_end_the_program_and_others_do";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child.args([test, "--exact", "--nocapture"]).env(is_child, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        let (before, after) = said.split_once("caught").expect("the first panic is caught");
        assert!(!before.contains("internal error") && after.contains("a bug"), "{said}");
        assert_eq!(ended.status.code(), Some(EXIT_CODE));
    }
}
