use gausset_core::Pose;
use gausset_flow::broadcast::Heard;

use super::*;
use crate::drawn::Painted;
use crate::protocol::{ViewRequest, rows};

fn view(id: u32, moving: bool) -> Ask {
    let request = ViewRequest {
        id,
        moving,
        camera: [640.0, 480.0, 500.0, 500.0, 320.0, 240.0],
        pose: rows(&Pose::IDENTITY),
        ..ViewRequest::default()
    };
    let (camera, pose) = request.view().unwrap();
    Ask::View(Box::new(request), camera, pose)
}

fn drawn(job: Job) -> Drawn {
    let mut drawn = Drawn::of(job, 0);
    drawn.painted = Painted::Failed(String::new());
    drawn
}

#[test]
fn the_newest_view_wins_and_one_frame_is_under_way() {
    let hub = Hub::new(Scene::default());
    let page = hub.attach().unwrap().page;
    (1..=5).for_each(|id| hub.ask(page, view(id, true)).unwrap());
    let job = hub.take(0).unwrap();
    assert_eq!(job.ask.id(), 5);
    hub.ask(page, view(6, true)).unwrap();
    assert!(hub.take(0).is_none(), "a second frame before the first has arrived");
    hub.deliver(drawn(job));
    assert_eq!(hub.next_drawn(page).map(|drawn| drawn.id), Some(5));
    hub.leaves(page, 5, Some(10.0), false);
    assert!(hub.take(0).is_none());
    hub.acknowledge(page, 5);
    assert_eq!(hub.take(0).map(|job| job.ask.id()), Some(6));
}

#[test]
fn pages_share_the_splats_that_they_draw_by_themselves() {
    let hub = Hub::new(Scene { splats: 9, ..Scene::default() });
    let pages: Vec<Attached> = (0..8).map(|_| hub.attach().unwrap()).collect();
    assert!(hub.begins_snapshot(1).is_none(), "nobody has asked");
    hub.ask(pages[0].page, view(1, false)).unwrap();
    pages.iter().for_each(|page| assert_eq!(hub.want_snapshot(page.page, 0, true), None));
    assert!(hub.take(1).is_none(), "what was seen at rest is no longer looked at");
    assert!(hub.begins_snapshot(1).is_some() && hub.begins_snapshot(1).is_none(), "one for all");
    hub.end_snapshot(1, Ok(vec![0; 5]));
    for page in &pages {
        assert!(matches!(page.events.take(), Heard::Event(line) if line.contains("\"number\":1")));
    }
    assert!(hub.begins_snapshot(2).is_none(), "nobody has asked again");
    hub.set_hidden(pages[0].page, true);
    hub.want_snapshot(pages[0].page, 1, false);
    assert!(hub.begins_snapshot(2).is_none(), "nobody can see it");
    hub.set_hidden(pages[0].page, false);
    assert!(hub.begins_snapshot(1).is_none(), "it has them already");
    assert!(hub.begins_snapshot(2).is_some());
    hub.end_snapshot(2, Err("none".to_owned()));
    assert!(hub.want_snapshot(pages[1].page, 1, false).is_some_and(|line| line.contains("none")));
    hub.replace_scene(Scene { splats: 3_000_000, ..Scene::default() });
    assert!(hub.begins_snapshot(3).is_none(), "too many");
    assert!(hub.want_snapshot(pages[1].page, 1, false).is_some_and(|line| line.contains("3000000")));
}

#[test]
fn pages_are_drawn_for_in_turn_and_one_that_stalls_stops_nobody() {
    let hub = Hub::new(Scene::default());
    let pages: Vec<u64> = (0..3).map(|_| hub.attach().unwrap().page).collect();
    let mut drawn_for = Vec::new();
    for _ in 0..3 {
        pages.iter().for_each(|&page| hub.ask(page, view(1, true)).unwrap());
        let job = hub.take(0).unwrap();
        drawn_for.push(job.page);
        // The first page never answers.
        if job.page != pages[0] {
            hub.leaves(job.page, 1, None, true);
        }
    }
    assert_eq!(drawn_for, pages);
    let job = hub.take(0).unwrap();
    assert_eq!(job.page, pages[1]);
    hub.detach(pages[2]);
    // Results of a page that has disconnected are discarded.
    hub.deliver(drawn(Job { page: pages[2], ..job }));
    assert!(hub.next_drawn(pages[2]).is_none());
}

#[test]
fn nobody_wants_anything_where_no_page_can_be_seen() {
    let hub = Hub::new(Scene { live: true, ..Scene::default() });
    assert!(!hub.is_wanted());
    let page = hub.attach().unwrap().page;
    assert!(hub.is_wanted());
    hub.ask(page, view(1, false)).unwrap();
    hub.set_hidden(page, true);
    assert!(!hub.is_wanted() && hub.take(0).is_none());
    assert!(hub.command(Command::Save) && hub.is_wanted());
    assert_eq!((hub.take_command(), hub.take_command()), (Some(Command::Save), None));
    assert!((0..MAX_COMMANDS).all(|_| hub.command(Command::Pause)) && !hub.command(Command::Pause));
    hub.set_hidden(page, false);
    assert_eq!(hub.take(0).map(|job| job.ask.id()), Some(1));
    assert_eq!((0..MAX_PAGES).filter(|_| hub.attach().is_some()).count(), MAX_PAGES - 1);
}

#[test]
fn a_view_at_rest_is_drawn_again_when_the_splats_have_changed_but_not_often() {
    let hub = Hub::new(Scene::default());
    let page = hub.attach().unwrap().page;
    hub.ask(page, view(1, false)).unwrap();
    let job = hub.take(7).unwrap();
    hub.leaves(page, job.ask.id(), None, true);
    assert!(hub.take(8).is_none(), "at once");
    let long_ago = Instant::now().checked_sub(RENEW).unwrap();
    if let Some((_, _, at)) = &mut hub.lock().pages.get_mut(&page).unwrap().last {
        *at = long_ago;
    }
    assert!(hub.take(7).is_none(), "of the same splats");
    let again = hub.take(8).unwrap();
    assert!(again.renewed && again.ask.id() == 1);
}

#[test]
fn a_view_that_moves_is_drawn_smaller_and_one_at_rest_as_asked() {
    let hub = Hub::new(Scene::default());
    let page = hub.attach().unwrap().page;
    let width = |moving| {
        hub.ask(page, view(1, moving)).unwrap();
        let job = hub.take(0).unwrap();
        hub.leaves(page, 1, Some(100.0), true);
        let Ask::View(_, camera, _) = job.ask else { panic!("no view") };
        camera.width
    };
    assert!(width(true) < 640);
    assert_eq!(width(false), 640);
}

/// A view of this many pixels.
fn large(id: u32, [width, height]: [u32; 2], exact: bool) -> Ask {
    let [w, h] = [width, height].map(f64::from);
    let request = ViewRequest {
        id,
        exact,
        camera: [w, h, w, w, w / 2.0, h / 2.0],
        pose: rows(&Pose::IDENTITY),
        ..ViewRequest::default()
    };
    let (camera, pose) = request.view().unwrap();
    Ask::View(Box::new(request), camera, pose)
}

#[test]
fn frames_under_way_never_take_more_than_their_share_and_each_page_gets_one() {
    let hub = Hub::new(Scene::default());
    hub.limit_memory(64 << 20);
    let share = Budget::of(64 << 20).frames;
    let pages: Vec<u64> = (0..MAX_PAGES).map(|_| hub.attach().unwrap().page).collect();
    pages.iter().for_each(|&page| hub.ask(page, large(1, [4096, 2304], false)).unwrap());
    // No page reads anything.
    let jobs: Vec<Job> = std::iter::from_fn(|| hub.take(0)).collect();
    assert_eq!(jobs.iter().map(|job| job.page).collect::<Vec<_>>(), pages);
    let bytes: u64 = jobs.iter().map(|job| job.reserved.bytes()).sum();
    assert!(bytes <= share && bytes > share / 2, "{bytes} of {share}");
    assert!(jobs.iter().all(|job| (20_000..200_000).contains(&job.ask.pixels())));
    // A sent frame frees its memory.
    drop(jobs);
    hub.leaves(pages[0], 1, None, true);
    hub.ask(pages[0], large(2, [300, 200], false)).unwrap();
    assert_eq!(hub.take(0).map(|job| job.ask.pixels()), Some(60_000));
}

#[test]
fn a_frame_that_one_page_does_not_read_leaves_room_for_the_next_page() {
    let hub = Hub::new(Scene::default());
    hub.limit_memory(64 << 20);
    let mut jobs = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = hub.attach().unwrap().page;
        hub.ask(page, large(1, [4096, 2304], false)).unwrap();
        jobs.push(hub.take(0).unwrap());
    }
    assert!(jobs.iter().all(|job| job.ask.pixels() > 2_000));
}

#[test]
fn an_exact_frame_keeps_its_size_or_is_refused() {
    let hub = Hub::new(Scene::default());
    hub.limit_memory(64 << 20);
    let page = hub.attach().unwrap().page;
    let reason = hub.ask(page, large(1, [4096, 2304], true)).unwrap_err();
    assert!(reason.contains("9437184 px are too many for the memory of the viewer"), "{reason}");
    hub.ask(page, large(2, [600, 400], true)).unwrap();
    assert_eq!(hub.take(0).map(|job| job.ask.pixels()), Some(240_000));
}

#[test]
fn one_frame_at_a_time_holds_a_photograph() {
    let hub = Hub::new(Scene::default());
    let pages: Vec<u64> = (0..2).map(|_| hub.attach().unwrap().page).collect();
    for &page in &pages {
        hub.ask(page, Ask::Photo { id: 1, camera: 0, side: 500 }).unwrap();
    }
    let first = hub.take(0).unwrap();
    assert!(hub.take(0).is_none());
    drop(first);
    assert_eq!(hub.take(0).map(|job| job.page), Some(pages[1]));
}

#[test]
fn a_spare_buffer_is_kept_while_there_are_pages_and_room() {
    let hub = Hub::new(Scene::default());
    let rendering = || Rendering { color: Vec::with_capacity(3_000_000), ..Rendering::default() };
    hub.give_back(rendering());
    assert!(hub.lock().spare.is_none(), "no page");
    let page = hub.attach().unwrap().page;
    hub.give_back(rendering());
    hub.ask(page, view(1, false)).unwrap();
    let job = hub.take(0).unwrap();
    assert_eq!(hub.buffers(&job).color.capacity(), 3_000_000);
    hub.give_back(rendering());
    hub.limit_memory(16 << 20);
    drop(job);
    hub.leaves(page, 1, None, true);
    hub.ask(page, view(2, false)).unwrap();
    let job = hub.take(0).unwrap();
    assert!(hub.lock().spare.is_none(), "no room");
    hub.give_back(Rendering { color: Vec::with_capacity(1000), ..Rendering::default() });
    assert!(hub.lock().spare.is_some());
    drop(job);
    hub.detach(page);
    assert!(hub.lock().spare.is_none(), "no page is left");
}
