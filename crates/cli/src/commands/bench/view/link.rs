//! A simulated network link with limited bandwidth and latency between a page and the server.
//!
//! Each direction has the given bandwidth and half of the round-trip time. Data that exceeds the bandwidth waits in the
//! buffers of the socket, as before a slow modem. The link itself holds at most [`MAX_IN_TRANSIT`] bytes per direction.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are forwarded at a time.
const CHUNK: usize = 1460;
/// Maximum number of bytes in transit in one direction.
const MAX_IN_TRANSIT: usize = 64 << 10;

/// A link, written as `5,80`: megabits per second and round-trip time in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedLink {
    bits_per_s: f64,
    round_trip: Duration,
}

impl FromStr for SimulatedLink {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected megabits per second and round-trip time in ms, such as 5,80";
        let (rate, trip) = text.split_once(',').ok_or(EXPECTED)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| EXPECTED);
        let (rate, trip) = (number(rate)?, number(trip)?);
        if !(0.01..=100_000.0).contains(&rate) || !(0.0..=10_000.0).contains(&trip) {
            return Err("expected 0.01 to 100000 megabits per second and 0 to 10000 ms");
        }
        Ok(Self { bits_per_s: 1e6 * rate, round_trip: Duration::from_secs_f64(trip / 1e3) })
    }
}

impl SimulatedLink {
    /// Opens the link to a server for one connection. Returns the address of its near end.
    pub(super) fn open(self, server: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = listener.local_addr()?;
        thread::spawn(move || {
            // If a connection fails, both ends are closed, and the other side notices that.
            let Ok((page, _)) = listener.accept() else { return };
            let Ok(server) = TcpStream::connect(server) else { return };
            let _ = page.set_nodelay(true).and(server.set_nodelay(true));
            let (Ok(up), Ok(down)) = (page.try_clone(), server.try_clone()) else { return };
            thread::spawn(move || self.forward(up, server));
            self.forward(down, page);
        });
        Ok(near)
    }

    /// Forwards one direction until either end closes.
    fn forward(self, mut from: TcpStream, mut to: TcpStream) {
        let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(MAX_IN_TRANSIT / CHUNK);
        let writer = thread::spawn(move || {
            for (due, part) in receiver {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&part).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut free = Instant::now();
        let mut part = [0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut part) {
            free = free.max(Instant::now()) + Duration::from_secs_f64(8.0 * length as f64 / self.bits_per_s);
            // Not read from the socket until the link is free, so that the sender is throttled.
            thread::sleep(free.saturating_duration_since(Instant::now()));
            if sender.send((free + self.round_trip / 2, part[..length].to_vec())).is_err() {
                break;
            }
        }
        drop(sender);
        let _ = writer.join();
    }
}
