//! GPX 1.0 and 1.1: the points of all tracks in a file, `trkpt` with `lat`, `lon`, `time` and optionally `ele`.
//!
//! `course` is the direction of motion of the receiver, not the viewing direction of the camera, and is ignored.
//! Source: schema of GPX 1.1.

use gausset_io::text::excerpt;
use roxmltree::Document;

use super::{GpsFix, GpsTrack, TimeOrigin, TrackCoordinates, check_fix_count, datetime, geodetic_position};
use crate::source::problem::FileProblem;

/// Parses all tracks of a document.
///
/// # Errors
/// Not XML, no track, or points without position or time.
pub fn parse(text: &str) -> Result<GpsTrack, FileProblem> {
    let document = Document::parse(text).map_err(|e| FileProblem::new("XML", e))?;
    if !document.root_element().tag_name().name().eq_ignore_ascii_case("gpx") {
        let name = document.root_element().tag_name().name();
        return Err(FileProblem::new(
            "XML",
            format!("is not GPX (expected <gpx>, found <{}>)", excerpt(name)),
        ));
    }
    let mut fixes = Vec::new();
    for (number, point) in (1..).zip(document.descendants().filter(|node| node.tag_name().name() == "trkpt"))
    {
        check_fix_count(fixes.len())?;
        let place = || format!("trkpt {number}");
        let attribute = |name| point.attribute(name).and_then(|text| text.trim().parse::<f64>().ok());
        let child = |name: &str| {
            point.children().find(|node| node.tag_name().name() == name).and_then(|node| node.text())
        };
        let time = child("time").ok_or_else(|| {
            FileProblem::new(place(), "has no time (expected a recorded track: a planned route has no times)")
        })?;
        let time = datetime::parse_datetime(time).ok_or_else(|| {
            let what =
                format!("time: {:?} is not a date and time (expected 2026-11-23T10:20:30Z)", excerpt(time));
            FileProblem::new(place(), what)
        })?;
        // `None` = not a number, `Some(None)` = missing.
        let up = child("ele").map_or(Some(None), |text| text.trim().parse().ok().map(Some));
        let found = attribute("lat").zip(attribute("lon")).zip(up);
        let at = found.and_then(|((lat, lon), up)| geodetic_position(lat, lon, up)).ok_or_else(|| {
            FileProblem::new(
                place(),
                "lat, lon, ele: not a position on the earth (expected degrees and metres)",
            )
        })?;
        fixes.push(GpsFix { time, position: at, heading: None, tilt: None });
    }
    if fixes.is_empty() {
        return Err(FileProblem::new("GPX", "has no track (expected <trkpt> with a time)"));
    }
    Ok(GpsTrack {
        format: "GPX",
        time_origin: TimeOrigin::Utc,
        coordinates: TrackCoordinates::Geodetic,
        fixes,
        note: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn point(lat: &str, content: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><gpx version=\"1.1\" xmlns=\"http://www.topografix.com/GPX/1/1\"><trk><trkseg>\
             <trkpt lat=\"{lat}\" lon=\"8.5\">{content}</trkpt></trkseg></trk></gpx>"
        )
    }

    #[test]
    fn points_of_a_track_are_read() {
        let found = parse(&point("47.25", "<ele>401.5</ele><time>2026-11-23T10:20:30.5Z</time>")).unwrap();
        assert_eq!(
            (found.format, found.time_origin, found.coordinates),
            ("GPX", TimeOrigin::Utc, TrackCoordinates::Geodetic)
        );
        let fix = GpsFix { time: 1_795_429_230.5, position: [47.25, 8.5, 401.5], heading: None, tilt: None };
        assert_eq!(found.fixes, [fix]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, line) in [
            (point("47", "<ele>4</ele>"), "trkpt 1: has no time (expected a recorded track"),
            (point("47", "<time>noon</time>"), "trkpt 1: time: \"noon\" is not a date and time"),
            (point("97", "<time>2026-11-23T10:20:30Z</time>"), "trkpt 1: lat, lon, ele: not a position"),
            ("<gpx/>".into(), "GPX: has no track"),
            ("<kml/>".into(), "XML: is not GPX (expected <gpx>, found <kml>)"),
            ("<gpx>".into(), "XML: "),
        ] {
            let found = parse(&text).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
    }
}
