//! Clients that follow an execution, are slow, or go away.

use tokio::time::timeout;
use vivarium_protocol::message::Stream;

use super::*;
use crate::session::execution_log::{Batch, Event, EventKind, EventSubscription};

async fn all(mut reader: EventSubscription) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Batch::Events(events) => all.extend(events),
            Batch::End => return all,
            Batch::CutOff => panic!("cut off"),
        }
    }
}

#[tokio::test]
async fn who_follows_an_execution_gets_all_of_it_in_order() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", NEVER).await;
    let reader = reply.log.subscribe(None).unwrap();
    let execution = bench.agent.begin().await;
    bench.agent.print(execution, "a").await;
    let (stream, data) = (Stream::Stderr, b"\xc3".to_vec());
    bench.agent.send(FromAgent::Output { execution, stream, data }).await;
    bench.agent.value(execution, "2").await;
    bench.agent.done(execution, Completion::Ok).await;
    let events = all(reader).await;
    let numbers: Vec<_> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let what: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
    let (execution_id, session_id) = ("1".to_owned(), "s".to_owned());
    assert_eq!(what[0], EventKind::Started { execution_id, session_id });
    assert_eq!(what[1], EventKind::Output(Stream::Stdout, "a".into()));
    assert!(matches!(&what[2], EventKind::Value(value) if value.repr == "2"));
    // The beginning of a character that never came.
    assert_eq!(what[3], EventKind::Output(Stream::Stderr, "\u{fffd}".into()));
    assert!(matches!(&what[4], EventKind::Done { outcome, .. } if outcome.status == Status::Ok));
}

#[tokio::test]
async fn an_execution_can_be_asked_for_until_its_time_is_up() {
    let kept = Timing { results_kept: SOON, ..LONG_TIMEOUTS };
    for (timing, is_kept) in [(LONG_TIMEOUTS, true), (kept, false)] {
        let mut bench = Bench::started(timing).await;
        let reply = bench.submit("x", NEVER).await;
        let execution = bench.agent.begin().await;
        let results = Arc::clone(&bench.results);
        assert!(results.get("t", "s", 1).is_some());
        bench.agent.done(execution, Completion::Ok).await;
        outcome(reply).await;
        bench.session.close(Cause::Deleted).await;
        if is_kept {
            assert!(results.get("t", "s", 1).is_some(), "also when its session is gone");
        } else {
            tokio::time::sleep(SOON).await;
            assert!(results.get("t", "s", 1).is_none());
        }
    }
}

#[tokio::test]
async fn abandoned_execution_is_interrupted_on_request() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let work = Work::code("x".into());
    let reply = bench.submit_work(work.clone(), NEVER, true).await;
    let execution = bench.agent.begin().await;
    let log = Arc::clone(&reply.log);
    let waiting = bench.submit_work(work, NEVER, true).await;
    let waiting_log = Arc::clone(&waiting.log);
    drop((reply, waiting));
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    let interrupted = log.finished().await.unwrap();
    assert_eq!(
        verdict(&interrupted),
        (Status::Interrupted, Some(Cause::Interrupt), State::Preserved)
    );
    let never = waiting_log.finished().await.unwrap();
    assert_eq!(verdict(&never), (Status::Rejected, Some(Cause::Interrupt), State::Preserved));
    bench.works().await;
}

#[tokio::test]
async fn an_interrupt_that_hit_a_dying_kernel_reaches_the_next() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", NEVER).await;
    let (execution, ..) = bench.agent.accept().await;
    bench.session.ask(interrupt).await.unwrap().unwrap();
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.exited(1, None, KernelEnd::Exited(0)).await;
    bench.agent.ready(2).await;
    bench.agent.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    assert_eq!(outcome(reply).await.status, Status::Interrupted);
}

/// More than the sockets between us and the agent hold.
const FLOOD: usize = 64;
const CHUNK: usize = 64 << 10;

#[tokio::test(start_paused = true)]
async fn a_flood_waits_for_who_follows_it_but_not_for_ever() {
    let mut bench = Bench::unlimited().await;
    let reply = bench.submit("x", NEVER).await;
    let mut reader = reply.log.subscribe(None).unwrap();
    let execution = bench.agent.begin().await;
    let Bench { session, mut agent, .. } = bench;
    let flood = tokio::spawn(async move {
        let hold = |held| Some(ToAgent::Hold { execution, held });
        for _ in 0..FLOOD {
            let data = vec![b'x'; CHUNK];
            agent.send(FromAgent::Output { execution, stream: Stream::Stdout, data }).await;
            if let Ok(message) = timeout(SOON, agent.recv()).await {
                assert_eq!(message, hold(true));
                assert_eq!(agent.recv().await, hold(false));
            }
        }
        agent.done(execution, Completion::Ok).await;
        agent
    });
    // Time goes on only when everybody waits: the agent for us, and we for the reader.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!flood.is_finished());
    let weight = reply.log.weight_bytes();
    assert!(weight < 3 << 20, "{weight}");
    // It is not waited for any longer.
    let ended = outcome(reply).await;
    assert_eq!((ended.status, ended.stdout.len()), (Status::Ok, FLOOD * CHUNK));
    assert_eq!(reader.next().await, Batch::CutOff);
    flood.await.unwrap();
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_is_stopped_waits_for_nobody() {
    let mut bench = Bench::unlimited().await;
    let reply = bench.submit("x", NEVER).await;
    let _reader = reply.log.subscribe(None).unwrap();
    let execution = bench.agent.begin().await;
    for _ in 0..17 {
        let data = vec![b'x'; CHUNK];
        bench.agent.send(FromAgent::Output { execution, stream: Stream::Stdout, data }).await;
    }
    let began = tokio::time::Instant::now();
    let interrupted = bench.session.ask(interrupt).await.unwrap().unwrap();
    let mut message = bench.agent.recv().await;
    // As soon as it is stopped.
    while let Some(ToAgent::Hold { .. }) = message {
        message = bench.agent.recv().await;
    }
    assert_eq!(message, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    interrupted.ended.await.unwrap_err();
    assert_eq!(outcome(reply).await.status, Status::Interrupted);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
