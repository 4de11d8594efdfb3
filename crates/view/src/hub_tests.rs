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

fn drawn(job: &Job) -> Drawn {
    let mut drawn = Drawn::of(job, 0);
    drawn.painted = Painted::Failed(String::new());
    drawn
}

#[test]
fn the_newest_view_wins_and_one_frame_is_under_way() {
    let hub = Hub::new(Scene::default());
    let page = hub.attach().unwrap().page;
    (1..=5).for_each(|id| hub.ask(page, view(id, true)));
    let job = hub.take(0).unwrap();
    assert_eq!(job.ask.id(), 5);
    hub.ask(page, view(6, true));
    assert!(hub.take(0).is_none(), "a second frame before the first has arrived");
    hub.deliver(drawn(&job));
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
    hub.ask(pages[0].page, view(1, false));
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
        pages.iter().for_each(|&page| hub.ask(page, view(1, true)));
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
    // What was drawn for a page that went away goes nowhere.
    hub.deliver(drawn(&Job { page: pages[2], ..job }));
    assert!(hub.next_drawn(pages[2]).is_none());
}

#[test]
fn nobody_wants_anything_where_no_page_can_be_seen() {
    let hub = Hub::new(Scene { live: true, ..Scene::default() });
    assert!(!hub.is_wanted());
    let page = hub.attach().unwrap().page;
    assert!(hub.is_wanted());
    hub.ask(page, view(1, false));
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
    hub.ask(page, view(1, false));
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
        hub.ask(page, view(1, moving));
        let job = hub.take(0).unwrap();
        hub.leaves(page, 1, Some(100.0), true);
        let Ask::View(_, camera, _) = job.ask else { panic!("no view") };
        camera.width
    };
    assert!(width(true) < 640);
    assert_eq!(width(false), 640);
}
