//! Every kind of damage to a file: truncation at every byte, flipped bits, wrong numbers, parts of two files joined.

/// Files up to this length are cut at every byte; longer ones at as many evenly spaced lengths.
const CUTS: usize = 4096;

/// SplitMix64: damage that is the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The file truncated at every length.
pub(crate) fn truncations(file: &[u8], mut check: impl FnMut(&[u8])) {
    if file.len() <= 64 << 10 {
        (0..file.len()).for_each(|length| check(&file[..length]));
    } else {
        (0..CUTS).for_each(|i| check(&file[..file.len() * i / CUTS]));
    }
}

/// Every bit of the first KiB flipped, and `count` random ones after it.
pub(crate) fn flips(file: &[u8], count: usize, mut check: impl FnMut(&[u8])) {
    let mut damaged = file.to_vec();
    let mut flip = |byte: usize, bit: u32| {
        damaged[byte] ^= 1 << bit;
        check(&damaged);
        damaged[byte] ^= 1 << bit;
    };
    for byte in 0..file.len().min(1024) {
        (0..8).for_each(|bit| flip(byte, bit));
    }
    if file.len() > 1024 {
        let mut state = 1;
        for _ in 0..count {
            let place = random(&mut state);
            flip(1024 + (place >> 3) as usize % (file.len() - 1024), (place & 7) as u32);
        }
    }
}

/// Every word of 4 and of 8 bytes replaced by typical wrong numbers.
pub(crate) fn lies(file: &[u8], mut check: impl FnMut(&[u8])) {
    let integers = [0u64, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 63, u64::MAX];
    let reals =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e308, f64::from_bits(1)].map(f64::to_bits);
    let mut damaged = file.to_vec();
    for at in (0..file.len().saturating_sub(7)).step_by(4) {
        let original: [u8; 8] = file[at..at + 8].try_into().unwrap();
        for value in integers.into_iter().chain(reals) {
            damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            check(&damaged);
        }
        damaged[at..at + 8].copy_from_slice(&original);
        for value in integers {
            damaged[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
            check(&damaged);
        }
        damaged[at..at + 4].copy_from_slice(&original[..4]);
    }
}

/// Head of one file with the body of another, bodies doubled, missing, and with garbage behind.
pub(crate) fn splices(a: &[u8], b: &[u8], mut check: impl FnMut(&[u8])) {
    for head in [1, 4, 8, 16, 24, 64] {
        let head = head.min(a.len()).min(b.len());
        check(&[&a[..head], &b[head..]].concat());
        check(&a[..head]);
        check(&[a, &a[head..]].concat());
    }
    check(&[a, &[0]].concat());
    check(&[a, &vec![0xA5; 1 << 20]].concat());
    check(&vec![0xFF; 1 << 16]);
    check(&vec![0; 1 << 16]);
}

/// Text lines removed, doubled, swapped and fields replaced.
pub(crate) fn line_damage(text: &str, mut check: impl FnMut(&[u8])) {
    let lines: Vec<&str> = text.lines().collect();
    let words = ["", "nan", "-1", "1e999", "abc", "18446744073709551616", "\u{FEFF}", "1,5", "#"];
    for i in 0..lines.len() {
        let with = |replacement: &[&str]| {
            [&lines[..i], replacement, &lines[i + 1..]].concat().join("\n").into_bytes()
        };
        check(&with(&[]));
        check(&with(&[lines[i], lines[i]]));
        check(&with(&[lines[i], ""]));
        let fields: Vec<&str> = lines[i].split(' ').collect();
        for f in 0..fields.len() {
            for word in words {
                let changed = [&fields[..f], &[word], &fields[f + 1..]].concat().join(" ");
                check(&with(&[&changed]));
            }
        }
    }
    check(text.replace('\n', "\r\n").as_bytes());
    check(text.replace(' ', "\t").as_bytes());
    check(text.replace('.', ",").as_bytes());
}
