//! Signals. Ctrl-C, termination and a closed terminal: the first one asks to save and stop; a second Ctrl-C or
//! termination ends the program at once, and every outside program with it. A file that grows beyond the limit of the
//! shell (`ulimit -f`) is an error of writing, not the end of the program.
//!
//! A closed terminal asks, but never insists: the shell sends its signal and the system sends it again, and session
//! managers send it together with a termination. So it does not count as one of the two. Under `nohup` it is ignored,
//! as it was told to be.

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

/// From now on a write beyond the file size limit fails with an error, which has a line of its own, instead of ending
/// the process by a signal.
pub(crate) fn outlive_file_size_limits() {
    // Any handler will do; nobody looks at the flag. This signal can be caught, so registering does not fail.
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// A signal that asks the program to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// `kill`, a service manager, a batch system at its time limit.
    Terminate,
    /// The terminal was closed, or the connection to it was lost.
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

    fn of_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|signal| signal.number() == number)
    }

    /// Whether a second one ends the program at once.
    const fn insists(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }

    /// Whether whoever started the program has told it to ignore the signal.
    #[cfg(unix)]
    fn is_ignored(self) -> bool {
        self == Self::HangUp && hang_up_is_ignored()
    }

    #[cfg(not(unix))]
    const fn is_ignored(self) -> bool {
        false
    }

    /// 128 + the signal's number, as shells report it.
    pub(crate) const fn exit_code(self) -> u8 {
        128 + self.number() as u8
    }
}

/// Whether `nohup`, or a shell that let go of its job, has set the signal to be ignored. Linux tells; elsewhere a
/// program without any terminal is taken for one that was let go of.
#[cfg(unix)]
fn hang_up_is_ignored() -> bool {
    let ignored =
        gausset_io::input::read_to_string("/proc/self/status".as_ref(), 1 << 20).ok().and_then(|text| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
            Some(u64::from_str_radix(mask.trim(), 16).ok()? >> (SIGHUP - 1) & 1 == 1)
        });
    ignored.unwrap_or_else(|| !crate::console::has_terminal())
}

/// Whether and by what the program was asked to stop.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    /// Number of the last signal, 0 = none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Takes over the signals. From now on the first one only sets the flag, the second ends the process.
    pub(crate) fn watch() -> Self {
        let watched = Self { stop: Arc::default(), signal: Arc::default() };
        let signals: Vec<Signal> =
            Signal::ALL.iter().copied().filter(|signal| !signal.is_ignored()).collect();
        // Whether somebody has insisted. What then has to be done takes a lock, which a signal handler may not do, so a
        // thread does it; should that get stuck, a third signal ends the process in its handler.
        let is_insisting: Arc<AtomicBool> = Arc::default();
        let has_thread = watch_thread(&signals, &is_insisting);
        let ends_at_once = if has_thread { &is_insisting } else { &watched.stop };
        for signal in signals {
            // In this order: a signal finds the flag as the signals before it have left it. Registering fails for
            // signals that cannot be caught only; these can.
            let (number, code) = (signal.number(), i32::from(signal.exit_code()));
            if signal.insists() {
                let _ = flag::register_conditional_shutdown(number, code, Arc::clone(ends_at_once));
            }
            let _ = flag::register_usize(number, Arc::clone(&watched.signal), number as usize);
            let _ = flag::register(number, Arc::clone(&watched.stop));
        }
        watched
    }

    /// The flag that long work looks at.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The signal that asked to stop, if one did.
    pub(crate) fn signal(&self) -> Option<Signal> {
        i32::try_from(self.signal.load(Ordering::Relaxed)).ok().and_then(Signal::of_number)
    }
}

/// A thread that does what a signal handler may not: Ctrl-Z pauses outside programs, too, which go on with this one;
/// the second signal that insists ends them, and this process.
#[cfg(unix)]
fn watch_thread(signals: &[Signal], is_insisting: &Arc<AtomicBool>) -> bool {
    let numbers = signals.iter().map(|signal| signal.number()).chain([SIGTSTP, SIGCONT]);
    let Ok(mut signals) = Signals::new(numbers) else { return false };
    let is_insisting = Arc::clone(is_insisting);
    let watch = move || {
        let mut insisted = 0;
        for number in signals.forever() {
            match (number, Signal::of_number(number)) {
                (SIGCONT, _) => gausset_process::go_on(),
                (SIGTSTP, _) => {
                    gausset_process::pause();
                    // Stops this process, as if nobody had looked.
                    let _ = emulate_default_handler(SIGTSTP);
                }
                (_, Some(signal)) if signal.insists() => {
                    insisted += 1;
                    if insisted > 1 {
                        is_insisting.store(true, Ordering::Relaxed);
                        gausset_process::end_all();
                        exit(signal.exit_code().into());
                    }
                }
                _ => {}
            }
        }
    };
    std::thread::Builder::new().name("gausset-signals".to_owned()).spawn(watch).is_ok()
}

/// Ctrl-C reaches every program of a console; the second one ends this process in its handler.
#[cfg(not(unix))]
fn watch_thread(_signals: &[Signal], _is_insisting: &Arc<AtomicBool>) -> bool {
    false
}
