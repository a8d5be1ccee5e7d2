//! Records under a clock that stands still until everybody waits for it.

use std::time::Duration;

use tokio::time::timeout;
use vivarium_protocol::message::Stream;
use vivarium_protocol::outcome::{Display, DisplayKind, MimePart};

use super::subscribers::MAX_STALL;
use super::*;

const KIB: usize = 1 << 10;

/// An outcome of nothing.
pub(crate) fn outcome(execution_id: &str, session_id: &str) -> Outcome {
    use vivarium_protocol::outcome::{State, Status};
    Outcome {
        execution_id: execution_id.to_owned(),
        session_id: session_id.to_owned(),
        status: Status::Ok,
        cause: None,
        detail: String::new(),
        state: State::Preserved,
        rolled_back: false,
        kernel: None,
        session_created: false,
        exit_code: None,
        stdout_bytes: 0,
        stdout: String::new(),
        stdout_truncated: false,
        stderr_bytes: 0,
        stderr: String::new(),
        stderr_truncated: false,
        exception: None,
        result: None,
        displays: vec![],
        images: vec![],
        video_frames: vec![],
        outputs: None,
        order: vec![],
        cuts: vec![],
        files: vec![],
        files_changed: vec![],
        files_changed_more: false,
        duration_ms: 0.0,
        usage: vivarium_api_types::ExecutionUsage::default(),
        audit_events: None,
        prints: None,
    }
}

fn new_log(capacity_bytes: usize) -> (Arc<ExecutionLog>, LogWriter) {
    ExecutionLog::new(capacity_bytes, false)
}

fn print(writer: &LogWriter, text: &str) {
    writer.push(EventKind::Output(Stream::Stdout, text.to_owned()));
}

/// An event of about `bytes` bytes that is put together with no other.
fn show(writer: &LogWriter, bytes: usize) {
    let part = MimePart { mime_type: String::new(), data: vec![0; bytes] };
    let display = Display { kind: DisplayKind::Display, id: None, mime: vec![part] };
    writer.push(EventKind::Display(Arc::new(display)));
}

fn end(writer: &LogWriter) {
    writer.done(outcome("1", "s"), false, false);
}

async fn numbers(reader: &mut EventSubscription) -> Vec<EventNumber> {
    match reader.next().await {
        Batch::Events(events) => events.iter().map(|event| event.number).collect(),
        other => panic!("{other:?}"),
    }
}

/// All that a reader gets, and how it ended.
async fn all(mut reader: EventSubscription) -> (Vec<Arc<Event>>, Batch) {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Batch::Events(events) => all.extend(events),
            end => return (all, end),
        }
    }
}

/// Whether there is room at once.
async fn is_ready(log: &ExecutionLog) -> bool {
    timeout(Duration::ZERO, log.ready_for_events()).await.is_ok()
}

#[tokio::test]
async fn every_event_can_be_resumed_after() {
    let (log, writer) = new_log(64 * KIB);
    writer.queued(1);
    writer.started(1, "s", Duration::ZERO);
    for size in 0..20 {
        show(&writer, size);
    }
    end(&writer);
    let (whole, ended) = all(log.subscribe(None).unwrap()).await;
    assert_eq!(ended, Batch::End);
    let expected: Vec<_> = (1..=22).collect();
    assert_eq!(whole.iter().map(|event| event.number).collect::<Vec<_>>(), expected);
    for (index, event) in whole.iter().enumerate() {
        let (rest, ended) = all(log.subscribe(Some(event.number)).unwrap()).await;
        assert_eq!((rest.as_slice(), ended), (&whole[index + 1..], Batch::End));
    }
    assert_eq!(log.finished().await.unwrap().execution_id, "1");
}

#[tokio::test]
async fn oldest_events_over_the_capacity_are_dropped() {
    let (log, writer) = new_log(10 * KIB);
    writer.started(1, "s", Duration::ZERO);
    for _ in 0..100 {
        show(&writer, KIB);
    }
    end(&writer);
    assert!(log.weight_bytes() < 12 * KIB, "{}", log.weight_bytes());
    let (kept, _) = all(log.subscribe(None).unwrap()).await;
    let first = kept[0].number;
    assert!(first > 90, "{first}");
    assert_eq!(kept.last().unwrap().number, 102);
    assert_eq!(log.subscribe(Some(first - 2)).unwrap_err(), NoSuchEvent::Gone { first });
    assert_eq!(log.subscribe(Some(103)).unwrap_err(), NoSuchEvent::NotYet { last: 102 });
    assert_eq!(all(log.subscribe(Some(first - 1)).unwrap()).await.0, kept);
}

#[tokio::test]
async fn an_event_over_the_capacity_is_kept_alone() {
    let (log, writer) = new_log(10 * KIB);
    writer.started(1, "s", Duration::ZERO);
    show(&writer, 100 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    assert_eq!(numbers(&mut reader).await, [2]);
    show(&writer, 1);
    assert_eq!(log.subscribe(None).unwrap().next().await, reader.next().await);
}

#[tokio::test]
async fn a_reader_gets_events_as_they_come() {
    let (log, writer) = new_log(64 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    let waiting = tokio::spawn(async move { (numbers(&mut reader).await, reader) });
    tokio::task::yield_now().await;
    writer.started(1, "s", Duration::ZERO);
    let (first, mut reader) = waiting.await.unwrap();
    assert_eq!(first, [1]);
    print(&writer, "a");
    assert_eq!(numbers(&mut reader).await, [2]);
    end(&writer);
    assert_eq!(numbers(&mut reader).await, [3]);
    assert_eq!(reader.next().await, Batch::End);
}

#[tokio::test]
async fn output_nobody_has_seen_is_put_together() {
    let (log, writer) = new_log(64 * KIB);
    for text in ["a", "b"] {
        print(&writer, text);
    }
    let mut reader = log.subscribe(None).unwrap();
    let Batch::Events(events) = reader.next().await else { panic!() };
    assert_eq!(events[0].kind, EventKind::Output(Stream::Stdout, "ab".into()));
    drop(events);
    // What has been seen under its number stays as it is.
    print(&writer, "c");
    assert_eq!(numbers(&mut reader).await, [2]);
    writer.push(EventKind::Output(Stream::Stderr, "d".into()));
    print(&writer, "e");
    assert_eq!(numbers(&mut reader).await, [3, 4]);
    for _ in 0..3 {
        print(&writer, &"x".repeat(10 * KIB));
    }
    assert_eq!(numbers(&mut reader).await, [5, 6, 7], "each as long as it may get");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_waited_for_and_then_cut_off() {
    let (log, writer) = new_log(10 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    show(&writer, 5 * KIB);
    assert!(is_ready(&log).await);
    show(&writer, 5 * KIB);
    assert!(!is_ready(&log).await);
    let began = Instant::now();
    log.ready_for_events().await;
    assert_eq!(began.elapsed(), MAX_STALL);
    assert_eq!(reader.next().await, Batch::CutOff);
    assert!(is_ready(&log).await);
}

#[tokio::test(start_paused = true)]
async fn reading_subscriber_releases_the_writer_at_once() {
    let (log, writer) = new_log(10 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    let mut read = Vec::new();
    for _ in 0..10 {
        show(&writer, 10 * KIB);
        let (room, numbers) = tokio::join!(log.ready_for_events(), numbers(&mut reader));
        let () = room;
        read.extend(numbers);
    }
    assert_eq!(read, (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_that_keeps_up_is_not_cut_off() {
    // Four events fill the buffer. Each second three of them are read.
    let (log, writer) = new_log(4 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    for _ in 0..4 {
        show(&writer, KIB);
    }
    let mut expected = 1;
    for _ in 0..30 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let taken = numbers(&mut reader).await;
        assert_eq!(taken, (expected..=taken[taken.len() - 1]).collect::<Vec<_>>());
        expected += taken.len() as u64;
        while is_ready(&log).await {
            show(&writer, KIB);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trickling_reader_gets_no_extra_time() {
    // Each event is more than is taken at once, and five of them fill the buffer.
    let (log, writer) = new_log(1000 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    for _ in 0..5 {
        show(&writer, 200 * KIB);
    }
    assert!(!is_ready(&log).await);
    for expected in [1, 2] {
        tokio::time::advance(MAX_STALL * 3 / 4).await;
        assert_eq!(numbers(&mut reader).await, [expected]);
        assert!(is_ready(&log).await);
        show(&writer, 200 * KIB);
        // The second time it is late, and waited for no more.
        assert_eq!(is_ready(&log).await, expected == 2);
    }
    assert_eq!(reader.next().await, Batch::CutOff);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_goes_away_holds_nothing_back() {
    let (log, writer) = new_log(KIB);
    let reader = log.subscribe(None).unwrap();
    show(&writer, 2 * KIB);
    assert!(!is_ready(&log).await);
    drop(reader);
    assert!(is_ready(&log).await);
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_is_not_held_back_cuts_readers_off_and_stays_bounded() {
    let (log, writer) = new_log(10 * KIB);
    let mut reader = log.subscribe(None).unwrap();
    for _ in 0..1000 {
        print(&writer, &"x".repeat(60 * KIB));
        assert!(log.weight_bytes() < 1200 * KIB, "{}", log.weight_bytes());
    }
    assert_eq!(reader.next().await, Batch::CutOff);
}

#[tokio::test]
async fn display_survives_a_flood_in_the_same_batch() {
    let (log, writer) = new_log(10 * KIB);
    let reader = log.subscribe(None).unwrap();
    writer.started(1, "s", Duration::ZERO);
    print(&writer, "before");
    show(&writer, 1000 * KIB);
    print(&writer, "after");
    end(&writer);
    let (events, ended) = all(reader).await;
    assert_eq!((events.len(), ended), (5, Batch::End));
}

#[tokio::test]
async fn a_writer_that_is_lost_refuses() {
    let (log, writer) = new_log(KIB);
    let reader = log.subscribe(None).unwrap();
    drop(writer);
    assert_eq!(log.queued().await, Err(Refusal::Gone));
    assert_eq!(log.finished().await.unwrap_err(), Refusal::Gone);
    assert_eq!(all(reader).await, (vec![], Batch::End));
    let (log, writer) = new_log(KIB);
    end(&writer);
    drop(writer);
    assert!(log.finished().await.is_ok());
}

#[tokio::test]
async fn execution_is_abandoned_when_its_last_client_leaves() {
    let (kept, _writer) = ExecutionLog::new(KIB, false);
    drop(kept.attach());
    assert!(!kept.is_abandoned());
    let (log, _writer) = ExecutionLog::new(KIB, true);
    let (first, second) = (log.attach(), log.subscribe(None).unwrap());
    drop(first);
    assert!(!log.is_abandoned());
    drop(second);
    assert!(log.is_abandoned());
    log.abandoned().await;
}
