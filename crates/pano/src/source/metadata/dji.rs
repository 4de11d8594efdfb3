//! The XMP packet of DJI drones (`http://www.dji.com/drone-dji/1.0/`), as attributes or as elements.

use super::gpano::xmp_value;
use super::read::GpsPosition;

/// The position in a packet, if the receiver had one (`RtkFlag` 0: it had none). DJI once misspelt the longitude.
pub(super) fn parse_position(xmp: &str) -> Option<GpsPosition> {
    let number = |name: &str| {
        let text = xmp_value(xmp, &format!("drone-dji:{name}"))?.trim();
        text.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    if number("RtkFlag") == Some(0.0) {
        return None;
    }
    let latitude = number("GpsLatitude")?;
    let longitude = number("GpsLongitude").or_else(|| number("GpsLongtitude"))?;
    GpsPosition { latitude, longitude, altitude: number("AbsoluteAltitude") }.valid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_drone_is_read_in_both_spellings_and_forms() {
        let expected = Some(GpsPosition { latitude: 48.123_456_7, longitude: -11.5, altitude: Some(521.25) });
        let attributes = r#"drone-dji:AbsoluteAltitude="+521.25" drone-dji:RelativeAltitude="+80.00"
            drone-dji:GpsLatitude="+48.1234567" drone-dji:GpsLongtitude="-11.5" drone-dji:RtkFlag="50""#;
        assert_eq!(parse_position(attributes), expected);
        let elements = "<drone-dji:GpsLatitude>48.1234567</drone-dji:GpsLatitude><drone-dji:GpsLongitude>-11.5</drone-dji:GpsLongitude><drone-dji:AbsoluteAltitude>521.25</drone-dji:AbsoluteAltitude>";
        assert_eq!(parse_position(elements), expected);
    }

    #[test]
    fn a_drone_without_a_fix_has_no_position() {
        for packet in [
            r#"drone-dji:GpsLatitude="0" drone-dji:GpsLongitude="0.000""#,
            r#"drone-dji:GpsLatitude="48.1" drone-dji:GpsLongitude="11.5" drone-dji:RtkFlag="0""#,
            r#"drone-dji:GpsLatitude="91" drone-dji:GpsLongitude="11.5""#,
            r#"drone-dji:GpsLatitude="nan" drone-dji:GpsLongitude="11.5""#,
            r#"drone-dji:GpsLatitude="48.1""#,
        ] {
            assert_eq!(parse_position(packet), None, "{packet}");
        }
    }
}
