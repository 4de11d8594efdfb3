//! Properties that must hold for tracks of GPS receivers, in any format.

use gausset_io::text::is_valid_message;
use gausset_pano::gps_track::{TrackCoordinates, parse};

/// A track that is accepted has times in order and finite positions; a refusal is one line.
pub(crate) fn check(bytes: &[u8]) {
    let found = match parse(bytes) {
        None => return,
        Some(Err(problem)) => {
            assert!(is_valid_message(&problem.to_string()), "{problem}");
            return;
        }
        Some(Ok(found)) => found,
    };
    assert!(found.fixes.len() >= 2);
    assert!(found.fixes.windows(2).all(|pair| pair[0].time < pair[1].time), "{:?}", found.fixes);
    for fix in &found.fixes {
        assert!(fix.position.iter().all(|v| v.is_finite()), "{fix:?}");
        if found.coordinates == TrackCoordinates::Geodetic {
            assert!(fix.position[0].abs() <= 90.0 && fix.position[1].abs() <= 180.0, "{fix:?}");
        }
    }
}
