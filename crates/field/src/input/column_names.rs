//! Names of the columns of tables: which are coordinates, and which are values.
//!
//! Units in brackets are ignored: `x (mm)`, `value [HU]`. A coordinate is `x` with words that say no more, as in
//! `pos_x`, `x_coord`, `x_mm`, `Points:0`, or an axis of a map.

/// Names of columns of values, the clearest first.
pub(super) const VALUE_NAMES: [&str; 5] = ["value", "values", "v", "intensity", "density"];

/// Words beside the letter of an axis.
const POSITION_WORDS: [&str; 14] = [
    "pos",
    "position",
    "positions",
    "coord",
    "coords",
    "coordinate",
    "coordinates",
    "point",
    "points",
    "loc",
    "location",
    "world",
    "center",
    "centre",
];
/// Units after the letter of an axis.
const UNITS: [&str; 11] = ["mm", "cm", "m", "um", "µm", "nm", "km", "px", "voxel", "vox", "deg"];
/// Other names of the axes, the clearest first.
const OTHER_NAMES: [[&str; 3]; 4] = [
    ["px", "py", "pz"],
    ["easting", "northing", "elevation"],
    ["east", "north", "altitude"],
    ["longitude", "latitude", "elev"],
];
/// Short names on maps, the least clear ones.
const SHORT_NAMES: [&str; 3] = ["lon", "lat", "alt"];

/// A name without quotes and units, in lower case.
pub(super) fn plain_name(name: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0u32;
    for letter in name.trim_matches(['"', '\'', '\u{feff}']).chars() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain.trim().to_lowercase()
}

/// Places of x, y and z among plain names; `None` for one that is missing.
pub(super) fn axes(names: &[String]) -> [Option<usize>; 3] {
    std::array::from_fn(|axis| {
        let clearness = |name: &String| clearness(name, axis);
        let ranked = names.iter().enumerate().filter_map(|(place, name)| Some((clearness(name)?, place)));
        ranked.min().map(|(_, place)| place)
    })
}

/// Place of the value among plain names.
pub(super) fn value(names: &[String]) -> Option<usize> {
    VALUE_NAMES.iter().find_map(|wanted| names.iter().position(|name| name == wanted))
}

/// Whether the names only count the columns: one word with ascending numbers, as `V1 V2 V3 V4`.
pub(super) fn is_numbering(names: &[String]) -> bool {
    let split = |name: &String| {
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((word.to_owned(), name.get(word.len()..)?.parse::<u32>().ok()?))
    };
    let parts: Option<Vec<(String, u32)>> = names.iter().map(split).collect();
    parts.is_some_and(|parts| {
        parts.iter().zip(parts.iter().skip(1)).all(|(a, b)| a.0 == b.0 && a.1.checked_add(1) == Some(b.1))
    })
}

/// How clearly a name says that its column is this axis, 0 the clearest; `None` if it does not.
fn clearness(name: &str, axis: usize) -> Option<usize> {
    let letter = ["x", "y", "z"][axis];
    if name == letter {
        return Some(0);
    }
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if is_letter_with_words(&words, letter, axis) {
        return Some(1);
    }
    let [word] = words[..] else { return None };
    let other = OTHER_NAMES.iter().position(|names| names[axis] == word);
    other.map(|place| place + 2).or_else(|| (SHORT_NAMES[axis] == word).then_some(OTHER_NAMES.len() + 2))
}

/// Whether words are the letter of an axis and words of position: `pos x`, `x coord mm`, `posx`, `points 0`.
fn is_letter_with_words(words: &[&str], letter: &str, axis: usize) -> bool {
    let is_position = |word: &&str| POSITION_WORDS.contains(word);
    if let [word] = words {
        let rest = word.strip_prefix(letter).or_else(|| word.strip_suffix(letter));
        return rest.is_some_and(|rest| is_position(&rest));
    }
    if let [word, number] = words
        && number.parse() == Ok(axis)
    {
        return is_position(word);
    }
    let Some(place) = words.iter().position(|word| *word == letter) else { return false };
    words[..place].iter().all(is_position)
        && words[place + 1..].iter().all(|word| is_position(word) || UNITS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_known_by_all_usual_names_and_others_are_not() {
        let of = |header: &str| axes(&header.split(',').map(plain_name).collect::<Vec<_>>());
        let in_order = [Some(0), Some(1), Some(2)];
        for header in [
            "x,y,z",
            "\"X (mm)\",Y [m],Z",
            "pos_x,pos_y,pos_z",
            "x_coord,y_coord,z_coord",
            "x_mm,y_mm,z_mm",
            "PosX,PosY,PosZ",
            "px,py,pz",
            "Points:0,Points:1,Points:2",
            "Easting,Northing,Elevation",
            "easting,northing,altitude",
            "lon,lat,alt",
            "Longitude (deg),Latitude (deg),elevation (m)",
        ] {
            assert_eq!(of(header), in_order, "{header}");
        }
        assert_eq!(of("value,z (mm),y (mm),x (mm)"), [Some(3), Some(2), Some(1)]);
        assert_eq!(of("elevation,x,y,z"), [Some(1), Some(2), Some(3)], "the clearest name counts");
        assert_eq!(of("m_x,v_y,normal_z,xylophone"), [None; 3]);
    }

    #[test]
    fn names_that_only_count_say_nothing() {
        let of = |header: &str| is_numbering(&header.split(',').map(plain_name).collect::<Vec<_>>());
        assert!(of("V1,V2,V3,V4") && of("col0,col1,col2,col3"));
        assert!(!of("a,b,c,d") && !of("v1,v3,v2,v4") && !of("a1,b2,c3,d4"));
    }
}
