//! Signal handling. The first SIGINT (Ctrl-C), SIGTERM or SIGHUP (closed terminal) asks the job to save and stop. A
//! second SIGINT or SIGTERM ends the program immediately, together with all child processes. Exceeding the file size
//! limit of the shell (`ulimit -f`) is a write error and does not end the program.
//!
//! SIGHUP only requests a stop and does not count as the second signal: the shell and the system both send it, and
//! session managers send it together with SIGTERM. Under `nohup` it is ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(unix)]
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
#[cfg(unix)]
use signal_hook::iterator::Signals;
#[cfg(unix)]
use signal_hook::low_level::{emulate_default_handler, exit};

/// Makes a write beyond the file size limit fail with an error instead of ending the process by SIGXFSZ.
pub(crate) fn ignore_file_size_signal() {
    // Any handler will do; the flag is not read. SIGXFSZ can be caught, so registering does not fail.
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// A signal that requests a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: `kill`, a service manager, or a batch system at its time limit.
    Terminate,
    /// SIGHUP: the terminal was closed, or the connection to it was lost.
    #[cfg(unix)]
    HangUp,
}

impl Signal {
    #[cfg(unix)]
    const ALL: &[Self] = &[Self::Interrupt, Self::Terminate, Self::HangUp];
    #[cfg(not(unix))]
    const ALL: &[Self] = &[Self::Interrupt, Self::Terminate];

    const fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
            #[cfg(unix)]
            Self::HangUp => SIGHUP,
        }
    }

    fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|signal| signal.number() == number)
    }

    /// Whether a second signal of this kind ends the program immediately.
    const fn ends_on_repeat(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }

    /// Whether the parent process has set the signal to be ignored.
    #[cfg(unix)]
    fn is_ignored(self) -> bool {
        self == Self::HangUp && is_sighup_ignored()
    }

    #[cfg(not(unix))]
    const fn is_ignored(self) -> bool {
        false
    }

    /// Exit code: 128 + the signal's number, as shells report it.
    pub(crate) const fn exit_code(self) -> u8 {
        128 + self.number() as u8
    }
}

/// Whether `nohup`, or a shell that disowned its job, has set SIGHUP to be ignored. On Linux this is read from
/// `/proc`; elsewhere it is assumed for a program without any terminal.
#[cfg(unix)]
fn is_sighup_ignored() -> bool {
    let ignored =
        gausset_io::input::read_to_string("/proc/self/status".as_ref(), 1 << 20).ok().and_then(|text| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
            Some(u64::from_str_radix(mask.trim(), 16).ok()? >> (SIGHUP - 1) & 1 == 1)
        });
    ignored.unwrap_or_else(|| !crate::console::has_terminal())
}

/// Whether, and by which signal, a stop was requested.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    /// Number of the last signal, 0 = none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Installs the signal handlers. The first signal then only sets the flag; the second ends the process.
    pub(crate) fn watch() -> Self {
        let watched = Self { stop: Arc::default(), signal: Arc::default() };
        let signals: Vec<Signal> =
            Signal::ALL.iter().copied().filter(|signal| !signal.is_ignored()).collect();
        // Whether a second signal has come. Ending child processes takes a lock, which a signal handler may not do, so
        // a thread does it. If that thread hangs, a third signal ends the process in its handler.
        let is_insisting: Arc<AtomicBool> = Arc::default();
        let has_thread = watch_thread(&signals, &watched, &is_insisting);
        let ends_at_once = if has_thread { &is_insisting } else { &watched.stop };
        for signal in signals {
            // The shutdown handler is registered first, so that it sees the flag as earlier signals have left it.
            // Registering only fails for signals that cannot be caught; these can.
            let (number, code) = (signal.number(), i32::from(signal.exit_code()));
            if signal.ends_on_repeat() {
                let _ = flag::register_conditional_shutdown(number, code, Arc::clone(ends_at_once));
            }
            let _ = flag::register_usize(number, Arc::clone(&watched.signal), number as usize);
            let _ = flag::register(number, Arc::clone(&watched.stop));
        }
        watched
    }

    /// The stop flag that jobs poll.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The last signal that requested a stop; `None` if there was none.
    pub(crate) fn signal(&self) -> Option<Signal> {
        i32::try_from(self.signal.load(Ordering::Relaxed)).ok().and_then(Signal::from_number)
    }
}

/// Starts a thread for work that a signal handler may not do: Ctrl-Z also pauses child processes, which resume with
/// this process; a second SIGINT or SIGTERM ends them and this process. It also requests the stop for a signal that
/// came before the handlers of [`Interrupt::watch`]. Returns whether the thread was started.
#[cfg(unix)]
fn watch_thread(signals: &[Signal], watched: &Interrupt, is_insisting: &Arc<AtomicBool>) -> bool {
    let numbers = signals.iter().map(|signal| signal.number()).chain([SIGTSTP, SIGCONT]);
    let Ok(mut signals) = Signals::new(numbers) else { return false };
    let (stop, last) = (Arc::clone(&watched.stop), Arc::clone(&watched.signal));
    let is_insisting = Arc::clone(is_insisting);
    let watch = move || {
        let mut insisted = 0;
        for number in signals.forever() {
            let signal = Signal::from_number(number);
            if signal.is_some() && !stop.swap(true, Ordering::Relaxed) {
                last.store(number as usize, Ordering::Relaxed);
            }
            match (number, signal) {
                (SIGCONT, _) => gausset_process::resume(),
                (SIGTSTP, _) => {
                    gausset_process::pause();
                    // Stops this process, as the default handler would.
                    let _ = emulate_default_handler(SIGTSTP);
                }
                (_, Some(signal)) if signal.ends_on_repeat() => {
                    insisted += 1;
                    if insisted > 1 {
                        is_insisting.store(true, Ordering::Relaxed);
                        gausset_process::kill_all();
                        exit(signal.exit_code().into());
                    }
                }
                _ => {}
            }
        }
    };
    std::thread::Builder::new().name("gausset-signals".to_owned()).spawn(watch).is_ok()
}

/// No thread: on other systems Ctrl-C reaches every program of a console, and the second one ends this process in its
/// handler.
#[cfg(not(unix))]
fn watch_thread(_signals: &[Signal], _watched: &Interrupt, _is_insisting: &Arc<AtomicBool>) -> bool {
    false
}
