//! Lists of classes that models are trained on, and groups of them.

/// The 80 classes of COCO, in order.
pub(crate) const COCO80: [&str; 80] = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
];

/// COCO's category ids, in the order of [`COCO80`]: 1 to 90 with gaps.
const COCO_IDS: [usize; 80] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27, 28, 31, 32,
    33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59,
    60, 61, 62, 63, 64, 65, 67, 70, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 84, 85, 86, 87, 88, 89, 90,
];

/// The 21 classes of Pascal VOC, in order.
const VOC21: [&str; 21] = [
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "dining table",
    "dog",
    "horse",
    "motorbike",
    "person",
    "potted plant",
    "sheep",
    "sofa",
    "train",
    "tv",
];

/// Names of the lists.
pub(crate) const LISTS: [&str; 3] = ["coco80", "coco91", "voc21"];

/// A list by its name; unused indices have an empty name.
pub(crate) fn list(name: &str) -> Option<Vec<String>> {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    match name {
        "coco80" => Some(owned(&COCO80)),
        "voc21" => Some(owned(&VOC21)),
        "coco91" => {
            let mut names = vec![String::new(); 91];
            for (&id, name) in COCO_IDS.iter().zip(COCO80) {
                name.clone_into(&mut names[id]);
            }
            Some(names)
        }
        _ => None,
    }
}

/// The list of a model with this number of classes.
pub(crate) fn list_of(count: usize) -> Option<&'static str> {
    match count {
        80 => Some("coco80"),
        91 => Some("coco91"),
        21 => Some("voc21"),
        _ => None,
    }
}

/// Built-in groups, with the class names of the lists.
pub(crate) const GROUPS: [(&str, &[&str]); 5] = [
    ("person", &["person"]),
    ("animal", &["bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"]),
    (
        "vehicle",
        &[
            "bicycle",
            "car",
            "motorcycle",
            "motorbike",
            "airplane",
            "aeroplane",
            "bus",
            "train",
            "truck",
            "boat",
        ],
    ),
    (
        "carried",
        &[
            "backpack",
            "umbrella",
            "handbag",
            "suitcase",
            "cell phone",
            "snowboard",
            "skateboard",
            "surfboard",
        ],
    ),
    ("sky", &["sky"]),
];

/// The most similar known word, for suggestions.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|name| (strsim::levenshtein(word, name), name));
    let (distance, name) = distances.min()?;
    (distance <= 1 + word.len() / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_what_data_sets_say() {
        let coco91 = list("coco91").unwrap();
        assert_eq!(
            (coco91[1].as_str(), coco91[12].as_str(), coco91[77].as_str()),
            ("person", "", "cell phone")
        );
        assert_eq!((coco91[90].as_str(), coco91.len()), ("toothbrush", 91));
        assert_eq!(list("coco80").unwrap()[67], "cell phone");
        assert_eq!(list("voc21").unwrap()[15], "person");
    }
}
