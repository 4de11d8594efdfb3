//! Cells, images and sizes of blocks, and the file of a division.

use gausset_blocks::{
    BlockImages, BlockPlan, Cell, Division, DivisionSource, Ground, MAX_IMAGES, SetSize, block_sizes,
    choose_images, divide, should_be_finer,
};
use gausset_core::Splats;
use proptest::prelude::*;

fn counts(places: &[[f64; 2]], cells: &[Cell]) -> Vec<usize> {
    cells.iter().map(|cell| places.iter().filter(|&&place| cell.contains(place)).count()).collect()
}

proptest! {
    #[test]
    fn every_place_has_one_owner(
        places in prop::collection::vec([-1e3..1e3f64, -1e3..1e3f64], 1..200),
        others in prop::collection::vec([-1e6..1e6f64, -1e6..1e6f64], 1..50),
        count in 1u32..12,
    ) {
        let cells = divide(&places, count);
        prop_assert!(!cells.is_empty() && cells.len() <= count as usize);
        for place in places.iter().chain(&others) {
            prop_assert_eq!(cells.iter().filter(|cell| cell.contains(*place)).count(), 1);
        }
        for (k, cell) in cells.iter().enumerate() {
            prop_assert!(counts(&places, &cells)[k] > 0, "{:?} is empty", cell);
        }
    }
}

#[test]
fn cells_share_the_work_and_are_cut_across_their_longer_side() {
    let grid = |columns: usize, rows: usize| -> Vec<[f64; 2]> {
        (0..columns * rows).map(|i| [(i % columns) as f64, (i / columns) as f64]).collect()
    };
    let places = grid(60, 20);
    assert_eq!(counts(&places, &divide(&places, 3)), [400, 400, 400]);
    let cells = divide(&places, 6);
    assert_eq!(counts(&places, &cells), [200; 6]);
    // A wide field is not cut lengthwise first.
    assert_eq!(divide(&places, 2)[0].high, [Some(30.0), None]);
    // Places that coincide cannot be divided, and places that are not finite have no owner.
    assert_eq!(divide(&vec![[1.0, 2.0]; 50], 4).len(), 1);
    assert!(!divide(&places, 1)[0].contains([f64::NAN, 0.0]));
}

#[test]
fn the_ground_lies_along_the_cameras() {
    let saved_from_scene = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let cameras: Vec<[f64; 3]> = (0..9).map(|i| [f64::from(i), 5.0, 2.0 * f64::from(i)]).collect();
    let ground = Ground::new(&saved_from_scene, &cameras);
    let along = 5f64.sqrt();
    let place = ground.place_of([1.0, 100.0, 2.0]);
    assert!((place[0].abs() - along).abs() < 1e-12 && place[1].abs() < 1e-12, "{place:?}");
}

#[test]
fn an_image_belongs_to_what_it_shows() {
    let cells = divide(&[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], 2);
    let shares = [[0.5, 0.01], [0.3, 0.3], [0.001, 0.01], [0.0, 0.0], [0.012, 0.001]].map(|s| s.to_vec());
    let places = [[0.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [9.0, 0.0]];
    let alone = [None; 5];
    let choose_images = |shares: &[Vec<f32>], places: &[[f64; 2]], groups: &[Option<u32>], cells: &[Cell]| {
        choose_images(shares, places, groups, cells).into_iter().map(|block| block.images).collect::<Vec<_>>()
    };
    // The third shows little, the fifth too little from outside: each goes where it shows most. The fourth shows nothing.
    assert_eq!(choose_images(&shares, &places, &alone, &cells), [vec![0, 1, 4], vec![1, 2]]);
    // A camera in the cell needs less.
    let places = [[3.0, 0.0]; 5];
    assert_eq!(choose_images(&shares, &places, &alone, &cells), [vec![0, 1, 4], vec![0, 1, 2]]);
    // Images of one moment stay together.
    let rig = [Some(7), None, None, Some(7), None];
    assert_eq!(choose_images(&shares, &[[0.0, 0.0]; 5], &rig, &cells)[0], [0, 1, 3, 4]);
}

#[test]
fn a_block_with_too_many_images_keeps_whole_moments_that_show_most() {
    let cells = divide(&[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], 2);
    let count = MAX_IMAGES + 4;
    let mut shares = vec![vec![0.5, 0.0]; count];
    // The first three are of one moment, the next three of another, which shows less.
    shares[0][0] = 0.9;
    (3..6).for_each(|image| shares[image][0] = 0.4);
    let mut groups = vec![None; count];
    (0..6).for_each(|image| groups[image] = Some(image as u32 / 3));
    let blocks = choose_images(&shares, &vec![[0.0, 0.0]; count], &groups, &cells);
    let kept: Vec<usize> = (0..count).filter(|image| !(3..6).contains(image)).collect();
    assert_eq!((kept.len(), &blocks[0].images[..3]), (MAX_IMAGES + 1, &[0, 1, 2][..]));
    assert_eq!(blocks[0], BlockImages { images: kept[..MAX_IMAGES].to_vec(), left_out: 4 });
    assert_eq!(blocks[1], BlockImages::default());
}

#[test]
fn a_division_is_not_made_finer_if_each_image_would_be_in_more_than_two_blocks() {
    let block = |left_out| BlockImages { images: (0..MAX_IMAGES).collect(), left_out };
    assert!(should_be_finer(&[block(100)], 2, 1_600));
    assert!(!should_be_finer(&[block(100), block(100)], 3, 1_600), "all around one subject");
    assert!(should_be_finer(&[block(0), block(1)], 3, 2_500));
    assert!(!should_be_finer(&[block(0)], 2, MAX_IMAGES), "nothing is left out");
}

#[test]
fn sizes_are_in_proportion() {
    let set = SetSize { images: 4, steps: 1000, splats: 80_000 };
    let shares = [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]].map(|s| s.to_vec());
    let of = |images: &[usize]| BlockImages { images: images.to_vec(), left_out: 0 };
    let images = [of(&[0, 1, 2]), of(&[0, 1, 3])];
    let sizes = block_sizes(set, &[300, 100], &shares, &images);
    assert_eq!(sizes.iter().map(|size| size.steps).collect::<Vec<_>>(), [750, 750]);
    assert_eq!(block_sizes(set, &[300, 100], &shares, &[of(&[0]), of(&[])])[1].steps, 0);
    // Two thirds of what each block's images show is its own.
    assert_eq!(sizes.iter().map(|size| size.splats).collect::<Vec<_>>(), [90_000, 30_000]);
}

#[test]
fn a_merged_set_has_what_each_cell_owns_bit_by_bit() {
    let ground = Ground { axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] };
    let mut splats = Splats::with_capacity(1, 4);
    for i in 0..4 {
        let v = i as f32;
        splats.push([v, 9.0, 0.1], [v; 3], [1.0, v, 0.0, 0.0], 0.3 * v, &[v; 12]);
    }
    let cells = divide(&[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], 2);
    let mut merged = Splats::with_capacity(1, 0);
    cells.iter().for_each(|cell| cell.append_owned(&splats, &ground, &mut merged));
    assert_eq!(merged, splats);
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(at in 0usize..2_000, byte: u8, cut in 0usize..2_000) {
        let ground = Ground { axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] };
        let cell = Cell { low: [None; 2], high: [Some(0.5), None], size: [1.0; 2] };
        let images = vec!["a.jpg".to_owned()];
        let block = BlockPlan { cell, steps: 7, max_splats: 9, stereo_side: None, left_out: 0, images };
        let division = Division::new(DivisionSource::default(), ground, 5, vec![block], Vec::new());
        let mut bytes = division.to_json().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        let damaged = String::from_utf8_lossy(&bytes).into_owned();
        prop_assert!(Division::from_json(&damaged).map_or(true, |read| read == division));
    }
}

#[test]
fn a_division_is_read_as_it_was_written_or_not_at_all() {
    let block = |images: &[&str]| BlockPlan {
        cell: Cell { low: [None, Some(0.1)], high: [Some(1.0 / 3.0), None], size: [2.0, 0.7] },
        steps: 700,
        max_splats: 9_000,
        stereo_side: Some(400),
        left_out: 1,
        images: images.iter().map(ToString::to_string).collect(),
    };
    let ground = Ground { axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] };
    let blocks = vec![block(&["a.jpg", "ö/b \"c\".jpg"]), block(&[])];
    let division =
        Division::new(DivisionSource::default(), ground, 1 << 30, blocks, vec!["sky.jpg".to_owned()]);
    let text = division.to_json();
    assert_eq!(Division::from_json(&text), Ok(division.clone()));
    assert_eq!(division.label(1), format!("block 2 of 2, division {}", division.hash()));
    let refused = |text: &str| Division::from_json(text).unwrap_err().to_string();
    assert!(refused(&text.replace("700", "701")).starts_with("hash: expected"));
    let other = text.replace("\"version\": 2", "\"version\": 9, \"new\": 1").replace("0.2.0", "0.9.0");
    assert_eq!(refused(&other), "version: expected 2, found 9, by gausset 0.9.0");
    assert!(refused(&text[..90]).starts_with("not a division: "));
    assert!(refused("{}").contains("missing field"));
    let none = Division::new(DivisionSource::default(), ground, 0, Vec::new(), Vec::new()).to_json();
    assert_eq!(refused(&none), "blocks: expected 1..1000 blocks, found 0");
}
