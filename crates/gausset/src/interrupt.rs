//! Signals. Ctrl-C and termination: the first one asks to save and stop, the second aborts at once. A file that grows
//! beyond the limit of the shell (`ulimit -f`) is an error of writing, not the end of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCONT, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From now on a write beyond the file size limit fails with an error, which has a line of its own, instead of ending
/// the process by a signal.
pub(crate) fn outlive_file_size_limits() {
    // Any handler will do; nobody looks at the flag. This signal can be caught, so registering does not fail.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// A signal that asks the program to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// `kill`, a service manager, a batch system at its time limit.
    Terminate,
}

impl Signal {
    const ALL: [Self; 2] = [Self::Interrupt, Self::Terminate];

    const fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
        }
    }

    /// 128 + the signal's number, as shells report it.
    pub(crate) const fn exit_code(self) -> u8 {
        128 + self.number() as u8
    }
}

/// Whether and by what the program was asked to stop.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    /// Number of the last signal, 0 = none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Ctrl-Z pauses outside programs, too; they go on with this one.
    fn watch_pauses() {
        let Ok(mut signals) = Signals::new([SIGTSTP, SIGCONT]) else { return };
        let watch = move || {
            for signal in signals.forever() {
                if signal == SIGCONT {
                    gausset_process::go_on();
                } else {
                    gausset_process::pause();
                    // Stops this process, as if nobody had looked.
                    let _ = emulate_default_handler(SIGTSTP);
                }
            }
        };
        // A system that refuses a thread has larger worries than pauses.
        let _ = std::thread::Builder::new().name("gausset-pause".to_owned()).spawn(watch);
    }

    /// Takes over the signals. From now on the first one only sets the flag, the second ends the process.
    pub(crate) fn watch() -> Self {
        let watched = Self { stop: Arc::default(), signal: Arc::default() };
        for signal in Signal::ALL {
            // In this order: the first signal finds the flag unset and goes on to set it. Registering fails for
            // signals that cannot be caught only; these can.
            let number = signal.number();
            let _ = flag::register_conditional_shutdown(
                number,
                i32::from(signal.exit_code()),
                Arc::clone(&watched.stop),
            );
            let _ = flag::register_usize(number, Arc::clone(&watched.signal), number as usize);
            let _ = flag::register(number, Arc::clone(&watched.stop));
        }
        Self::watch_pauses();
        watched
    }

    /// The flag that long work looks at.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The signal that asked to stop, if one did.
    pub(crate) fn signal(&self) -> Option<Signal> {
        let number = self.signal.load(Ordering::Relaxed);
        Signal::ALL.into_iter().find(|signal| signal.number() as usize == number)
    }
}
