use gausset::broadcast::Received;
use gausset_core::Pose;

use super::*;
use crate::protocol::{ViewRequest, pose_rows};
use crate::result::ResultImage;

fn view(id: u32, moving: bool) -> Request {
    let request = ViewRequest {
        id,
        moving,
        camera: [640.0, 480.0, 500.0, 500.0, 320.0, 240.0],
        pose: pose_rows(&Pose::IDENTITY),
        ..ViewRequest::default()
    };
    let (camera, pose) = request.view().unwrap();
    Request::View(Box::new(request), camera, pose)
}

fn drawn(job: RenderJob) -> JobResult {
    let mut drawn = JobResult::new(job, 0);
    drawn.content = ResultImage::Failed(String::new());
    drawn
}

#[test]
fn the_newest_view_wins_and_one_frame_is_under_way() {
    let hub = Hub::new(SceneDescription::default());
    let page = hub.attach().unwrap().page;
    (1..=5).for_each(|id| hub.request(page, view(id, true)).unwrap());
    let job = hub.take_job(0).unwrap();
    assert_eq!(job.request.id(), 5);
    hub.request(page, view(6, true)).unwrap();
    assert!(hub.take_job(0).is_none(), "a second frame before the first has arrived");
    hub.deliver(drawn(job));
    assert_eq!(hub.next_drawn(page).map(|drawn| drawn.id), Some(5));
    hub.frame_sent(page, 5, Some(10.0), false);
    assert!(hub.take_job(0).is_none());
    hub.acknowledge(page, 5);
    assert_eq!(hub.take_job(0).map(|job| job.request.id()), Some(6));
}

#[test]
fn pages_share_the_splats_that_they_draw_by_themselves() {
    let hub = Hub::new(SceneDescription { splats: 9, ..SceneDescription::default() });
    let pages: Vec<PageHandle> = (0..8).map(|_| hub.attach().unwrap()).collect();
    assert!(hub.begin_snapshot(1).is_none(), "nobody has asked");
    hub.request(pages[0].page, view(1, false)).unwrap();
    pages.iter().for_each(|page| assert_eq!(hub.want_snapshot(page.page, 0, true), None));
    assert!(hub.take_job(1).is_none(), "what was seen at rest is no longer looked at");
    assert!(hub.begin_snapshot(1).is_some() && hub.begin_snapshot(1).is_none(), "one for all");
    hub.end_snapshot(1, Ok(vec![0; 5]));
    for page in &pages {
        assert!(matches!(page.events.try_recv(), Received::Event(line) if line.contains("\"number\":1")));
    }
    assert!(hub.begin_snapshot(2).is_none(), "nobody has asked again");
    hub.set_hidden(pages[0].page, true);
    hub.want_snapshot(pages[0].page, 1, false);
    assert!(hub.begin_snapshot(2).is_none(), "nobody can see it");
    hub.set_hidden(pages[0].page, false);
    assert!(hub.begin_snapshot(1).is_none(), "it has them already");
    assert!(hub.begin_snapshot(2).is_some());
    hub.end_snapshot(2, Err(SnapshotError::Empty));
    assert!(hub.want_snapshot(pages[1].page, 1, false).is_some_and(|line| line.contains("no splats")));
    hub.replace_scene(SceneDescription { splats: 3_000_000, ..SceneDescription::default() });
    assert!(hub.begin_snapshot(3).is_none(), "too many");
    assert!(hub.want_snapshot(pages[1].page, 1, false).is_some_and(|line| line.contains("3000000")));
}

#[test]
fn pages_are_drawn_for_in_turn_and_one_that_stalls_stops_nobody() {
    let hub = Hub::new(SceneDescription::default());
    let pages: Vec<u64> = (0..3).map(|_| hub.attach().unwrap().page).collect();
    let mut drawn_for = Vec::new();
    for _ in 0..3 {
        pages.iter().for_each(|&page| hub.request(page, view(1, true)).unwrap());
        let job = hub.take_job(0).unwrap();
        drawn_for.push(job.page);
        // The first page never answers.
        if job.page != pages[0] {
            hub.frame_sent(job.page, 1, None, true);
        }
    }
    assert_eq!(drawn_for, pages);
    let job = hub.take_job(0).unwrap();
    assert_eq!(job.page, pages[1]);
    hub.detach(pages[2]);
    // Results of a page that has disconnected are discarded.
    hub.deliver(drawn(RenderJob { page: pages[2], ..job }));
    assert!(hub.next_drawn(pages[2]).is_none());
}

#[test]
fn nobody_wants_anything_where_no_page_can_be_seen() {
    let hub = Hub::new(SceneDescription { live: true, ..SceneDescription::default() });
    assert!(!hub.has_work());
    let page = hub.attach().unwrap().page;
    assert!(hub.has_work());
    hub.request(page, view(1, false)).unwrap();
    hub.set_hidden(page, true);
    assert!(!hub.has_work() && hub.take_job(0).is_none());
    assert!(hub.queue_command(Command::Save) && hub.has_work());
    assert_eq!((hub.take_command(), hub.take_command()), (Some(Command::Save), None));
    assert!(
        (0..MAX_COMMANDS).all(|_| hub.queue_command(Command::Pause)) && !hub.queue_command(Command::Pause)
    );
    hub.set_hidden(page, false);
    assert_eq!(hub.take_job(0).map(|job| job.request.id()), Some(1));
    assert_eq!((0..MAX_PAGES).filter(|_| hub.attach().is_some()).count(), MAX_PAGES - 1);
}

#[test]
fn a_view_at_rest_is_drawn_again_when_the_splats_have_changed_but_not_often() {
    let hub = Hub::new(SceneDescription::default());
    let page = hub.attach().unwrap().page;
    hub.request(page, view(1, false)).unwrap();
    let job = hub.take_job(7).unwrap();
    hub.frame_sent(page, job.request.id(), None, true);
    assert!(hub.take_job(8).is_none(), "at once");
    let long_ago = Instant::now().checked_sub(REPEAT_INTERVAL).unwrap();
    if let Some((_, _, at)) = &mut hub.lock().pages.get_mut(&page).unwrap().last_view {
        *at = long_ago;
    }
    assert!(hub.take_job(7).is_none(), "of the same splats");
    let again = hub.take_job(8).unwrap();
    assert!(again.is_repeat && again.request.id() == 1);
}

#[test]
fn a_view_that_moves_is_drawn_smaller_and_one_at_rest_as_asked() {
    let hub = Hub::new(SceneDescription::default());
    let page = hub.attach().unwrap().page;
    let width = |moving| {
        hub.request(page, view(1, moving)).unwrap();
        let job = hub.take_job(0).unwrap();
        hub.frame_sent(page, 1, Some(100.0), true);
        let Request::View(_, camera, _) = job.request else { panic!("no view") };
        camera.width
    };
    assert!(width(true) < 640);
    assert_eq!(width(false), 640);
}

/// A view of this many pixels.
fn large(id: u32, [width, height]: [u32; 2], exact: bool) -> Request {
    let [w, h] = [width, height].map(f64::from);
    let request = ViewRequest {
        id,
        exact,
        camera: [w, h, w, w, w / 2.0, h / 2.0],
        pose: pose_rows(&Pose::IDENTITY),
        ..ViewRequest::default()
    };
    let (camera, pose) = request.view().unwrap();
    Request::View(Box::new(request), camera, pose)
}

#[test]
fn frames_under_way_never_take_more_than_their_share_and_each_page_gets_one() {
    let hub = Hub::new(SceneDescription::default());
    hub.limit_memory(64 << 20);
    let share = MemoryBudget::new(64 << 20).frames;
    let pages: Vec<u64> = (0..MAX_PAGES).map(|_| hub.attach().unwrap().page).collect();
    pages.iter().for_each(|&page| hub.request(page, large(1, [4096, 2304], false)).unwrap());
    // No page reads anything.
    let jobs: Vec<RenderJob> = std::iter::from_fn(|| hub.take_job(0)).collect();
    assert_eq!(jobs.iter().map(|job| job.page).collect::<Vec<_>>(), pages);
    let bytes: u64 = jobs.iter().map(|job| job.reserved.bytes()).sum();
    assert!(bytes <= share && bytes > share / 2, "{bytes} of {share}");
    assert!(jobs.iter().all(|job| (20_000..200_000).contains(&job.request.pixels())));
    // A sent frame frees its memory.
    drop(jobs);
    hub.frame_sent(pages[0], 1, None, true);
    hub.request(pages[0], large(2, [300, 200], false)).unwrap();
    assert_eq!(hub.take_job(0).map(|job| job.request.pixels()), Some(60_000));
}

#[test]
fn a_frame_that_one_page_does_not_read_leaves_room_for_the_next_page() {
    let hub = Hub::new(SceneDescription::default());
    hub.limit_memory(64 << 20);
    let mut jobs = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = hub.attach().unwrap().page;
        hub.request(page, large(1, [4096, 2304], false)).unwrap();
        jobs.push(hub.take_job(0).unwrap());
    }
    assert!(jobs.iter().all(|job| job.request.pixels() > 2_000));
}

#[test]
fn an_exact_frame_keeps_its_size_or_is_refused() {
    let hub = Hub::new(SceneDescription::default());
    hub.limit_memory(64 << 20);
    let page = hub.attach().unwrap().page;
    let reason = hub.request(page, large(1, [4096, 2304], true)).unwrap_err().to_string();
    assert!(reason.contains("9437184 px exceed the memory limit of the viewer"), "{reason}");
    hub.request(page, large(2, [600, 400], true)).unwrap();
    assert_eq!(hub.take_job(0).map(|job| job.request.pixels()), Some(240_000));
}

#[test]
fn one_frame_at_a_time_holds_a_photograph() {
    let hub = Hub::new(SceneDescription::default());
    let pages: Vec<u64> = (0..2).map(|_| hub.attach().unwrap().page).collect();
    for &page in &pages {
        hub.request(page, Request::Photo { id: 1, camera: 0, side: 500 }).unwrap();
    }
    let first = hub.take_job(0).unwrap();
    assert!(hub.take_job(0).is_none());
    drop(first);
    assert_eq!(hub.take_job(0).map(|job| job.page), Some(pages[1]));
}

#[test]
fn side_requests_are_served_in_turn_after_the_view_and_too_many_are_refused() {
    let hub = Hub::new(SceneDescription::default());
    let page = hub.attach().unwrap().page;
    let photo = |id| Request::Photo { id, camera: 0, side: 500 };
    (1..=4).for_each(|id| hub.request(page, photo(id)).unwrap());
    let refused = hub.request(page, photo(5)).unwrap_err().to_string();
    assert_eq!(refused, "too many images were requested at once (expected at most 4)");
    hub.request(page, view(6, false)).unwrap();
    for id in [6, 1, 2, 3, 4] {
        assert_eq!(hub.take_job(0).map(|job| job.request.id()), Some(id));
        hub.frame_sent(page, id, None, true);
    }
    assert!(hub.take_job(0).is_none());
}

#[test]
fn a_spare_buffer_is_kept_while_there_are_pages_and_room() {
    let hub = Hub::new(SceneDescription::default());
    let rendering = || Rendering { color: Vec::with_capacity(3_000_000), ..Rendering::default() };
    hub.return_buffer(rendering());
    assert!(hub.lock().spare.is_none(), "no page");
    let page = hub.attach().unwrap().page;
    hub.return_buffer(rendering());
    hub.request(page, view(1, false)).unwrap();
    let job = hub.take_job(0).unwrap();
    assert_eq!(hub.take_buffer(&job).color.capacity(), 3_000_000);
    hub.return_buffer(rendering());
    hub.limit_memory(16 << 20);
    drop(job);
    hub.frame_sent(page, 1, None, true);
    hub.request(page, view(2, false)).unwrap();
    let job = hub.take_job(0).unwrap();
    assert!(hub.lock().spare.is_none(), "no room");
    hub.return_buffer(Rendering { color: Vec::with_capacity(1000), ..Rendering::default() });
    assert!(hub.lock().spare.is_some());
    drop(job);
    hub.detach(page);
    assert!(hub.lock().spare.is_none(), "no page is left");
}
