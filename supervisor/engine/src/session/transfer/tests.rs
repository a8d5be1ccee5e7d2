//! Transfers of a session whose agent the test plays. How the agent does its part is tested
//! where it is.
#![allow(clippy::cast_possible_truncation)]

use tokio::task::JoinHandle;
use vivarium_protocol::message::{FileKind, FileProblemKind};

use super::*;
use crate::session::tests::{Bench, LONG_TIMEOUTS};

fn entry(size_bytes: u64) -> FileEntry {
    FileEntry { path: "a".into(), kind: FileKind::File, size_bytes, modified_ms: 5, mode: 0o644 }
}

/// A read that is under way. The agent has been asked and has not answered.
fn read(bench: &Bench, limiter: &TransferLimiter) -> JoinHandle<Result<Download, TransferError>> {
    let (session, limiter) = (Arc::clone(&bench.session), limiter.clone());
    tokio::spawn(async move { session.read_file(&limiter, "a".into(), 0, None).await })
}

fn write() -> FileOperation {
    FileOperation::Write { path: "a".into() }
}

async fn all(mut reading: Download) -> Result<Vec<u8>, io::ErrorKind> {
    let mut content = Vec::new();
    while let Some(bytes) = reading.chunk().await {
        content.extend(bytes.map_err(|error| error.kind())?);
    }
    Ok(content)
}

async fn drain(socket: &crate::backend::fake::FakeSocket) -> Vec<u8> {
    let mut wire = Vec::new();
    loop {
        let bytes = socket.read().await;
        if bytes.is_empty() {
            return wire;
        }
        wire.extend(bytes);
    }
}

#[tokio::test]
async fn a_content_comes_whole_or_with_an_error() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let content: Vec<u8> = (0..1 << 20).map(|number: u32| number.to_le_bytes()[0]).collect();
    for (sent, announced, expected) in [
        (content.clone(), 1 << 20, Ok(content.clone())),
        (vec![], 0, Ok(vec![])),
        // More than announced: the rest is not believed.
        (content.clone(), 100, Ok(content[..100].to_vec())),
        // Less.
        (content.clone(), (1 << 20) + 1, Err(io::ErrorKind::UnexpectedEof)),
        (vec![], 1, Err(io::ErrorKind::UnexpectedEof)),
    ] {
        let reading = read(&bench, &TransferLimiter::default());
        let (transfer, operation) = bench.agent.file().await;
        let expected_operation = FileOperation::Read { path: "a".into(), offset: 0, length: None };
        assert_eq!(operation, expected_operation);
        let socket = bench.agent.socket();
        let reply = FileReply::Content { entry: entry(9), length: announced };
        bench.agent.file_done(transfer, Ok(reply)).await;
        let sending = tokio::spawn(async move { socket.write(sent).await });
        let reading = reading.await.unwrap().unwrap();
        assert_eq!((reading.entry(), reading.length()), (&entry(9), announced));
        assert_eq!(all(reading).await, expected);
        sending.await.unwrap();
    }
    bench.works().await;
}

#[tokio::test]
async fn a_tenant_has_only_so_many_transfers_and_others_have_theirs() {
    let limiter = TransferLimiter::default();
    let mut benches = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..MAX_TRANSFERS_OF_TENANT / MAX_TRANSFERS as usize {
        let mut bench = Bench::started(LONG_TIMEOUTS).await;
        for _ in 0..MAX_TRANSFERS {
            waiting.push(read(&bench, &limiter));
            bench.agent.file().await;
        }
        benches.push(bench);
    }
    let another = Bench::started(LONG_TIMEOUTS).await;
    let refused = another.session.read_file(&limiter, "a".into(), 0, None).await;
    assert!(matches!(refused, Err(TransferError::TooMany)), "the tenant has as many as it may");
    let mut identity = another.session.identity.clone();
    identity.tenant = "other".to_owned();
    let adjustable = another.session.adjustable();
    let (others, _) = Session::new(identity, adjustable, LONG_TIMEOUTS);
    assert!(limiter.permit(&others).is_ok(), "there are more for others");
    drop(benches);
    for reading in waiting {
        assert!(matches!(reading.await.unwrap(), Err(TransferError::Over)));
    }
    assert!(limiter.permit(&another.session).is_ok());
}

#[tokio::test]
async fn a_content_goes_in_chunks_with_an_end() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let limiter = TransferLimiter::default();
    let content: Vec<u8> = (0..600_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let writing = bench.session.write_file(&limiter, write()).await.unwrap();
    let (transfer, operation) = bench.agent.file().await;
    assert_eq!(operation, write());
    let socket = bench.agent.socket();
    let sent = content.clone();
    let sending = tokio::spawn(async move {
        let mut writing = writing;
        for part in sent.chunks(70_000) {
            writing = writing.send(part).await?;
        }
        writing.finish().await
    });
    let (mut received, mut wire): (Vec<u8>, Vec<u8>) = Default::default();
    loop {
        wire.extend(socket.read().await);
        while let Some((prefix, rest)) = wire.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*prefix) as usize;
            assert!(len <= 1 << 20);
            let Some(chunk) = rest.get(..len) else { break };
            received.extend(chunk);
            wire.drain(..4 + len);
            if len == 0 {
                let reply = FileReply::Written { files: 1, bytes: received.len() as u64 };
                bench.agent.file_done(transfer, Ok(reply)).await;
                assert_eq!(sending.await.unwrap().unwrap(), Uploaded { files: 1, bytes: 600_000 });
                assert!(received == content && wire.is_empty());
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_content_that_is_given_up_has_no_end() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let writing = bench.session.write_file(&TransferLimiter::default(), write()).await.unwrap();
    bench.agent.file().await;
    let socket = bench.agent.socket();
    let sending =
        tokio::spawn(async move { writing.send(&vec![7; BUFFER_BYTES + 1]).await.map(drop) });
    // What filled the buffer is there; no chunk of length 0 is.
    let wire = drain(&socket).await;
    sending.await.unwrap().unwrap();
    assert_eq!(wire.len(), 4 + BUFFER_BYTES);
    assert_eq!(wire[..4], (BUFFER_BYTES as u32).to_le_bytes());
}

#[tokio::test]
async fn refusal_arrives_while_the_upload_is_blocked() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let limiter = TransferLimiter::default();
    for closes in [false, true] {
        let writing = bench.session.write_file(&limiter, write()).await.unwrap();
        let sending = tokio::spawn(async move { writing.send(&vec![7; 8 << 20]).await });
        let (transfer, _) = bench.agent.file().await;
        let socket = bench.agent.socket();
        if closes {
            drop(socket);
        }
        bench.agent.file_done(transfer, Err(FileProblemKind::NoSpace)).await;
        let error = sending.await.unwrap().unwrap_err();
        let TransferError::Refused(problem) = error else { panic!("{error}") };
        assert_eq!(problem.kind, FileProblemKind::NoSpace);
    }
    bench.works().await;
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_transfers() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let limiter = TransferLimiter::default();
    let reading = read(&bench, &limiter);
    let (transfer, _) = bench.agent.file().await;
    let from = bench.agent.socket();
    let reply = FileReply::Content { entry: entry(9), length: 9 };
    bench.agent.file_done(transfer, Ok(reply)).await;
    from.write(b"1234".to_vec()).await;
    let reading = reading.await.unwrap().unwrap();
    let writing = bench.session.write_file(&limiter, write()).await.unwrap();
    bench.agent.file().await;
    let unanswered = read(&bench, &limiter);
    bench.agent.file().await;

    drop((from, bench.agent.socket(), bench.agent.socket()));
    drop(bench.agent);
    assert_eq!(all(reading).await, Err(io::ErrorKind::UnexpectedEof));
    assert!(matches!(writing.finish().await, Err(TransferError::Over)));
    assert!(matches!(unanswered.await.unwrap(), Err(TransferError::Over)));
    bench.session.gone().await;
    let late = bench.session.write_file(&limiter, write()).await;
    assert!(matches!(late, Err(TransferError::Over)));
}

#[tokio::test]
async fn transfers_are_bounded_until_the_agent_is_done_with_them() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let limiter = TransferLimiter::default();
    let mut under_way = Vec::new();
    for _ in 0..MAX_TRANSFERS {
        let reading = read(&bench, &limiter);
        under_way.push((bench.agent.file().await.0, reading));
    }
    let one_more = || bench.session.delete_file(&limiter, "a".into());
    assert!(matches!(one_more().await, Err(TransferError::TooMany)));
    // A client that goes away leaves the agent busy.
    let (transfer, client) = under_way.pop().unwrap();
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    assert!(matches!(one_more().await, Err(TransferError::TooMany)));
    let reply = FileReply::Content { entry: entry(9), length: 9 };
    bench.agent.file_done(transfer, Ok(reply.clone())).await;
    bench.works().await; // everything said before has been heard
    let (session, limiter) = (Arc::clone(&bench.session), limiter.clone());
    let deleting = tokio::spawn(async move { session.delete_file(&limiter, "a".into()).await });
    let (transfer, operation) = bench.agent.file().await;
    assert_eq!(operation, FileOperation::Delete { path: "a".into() });
    bench.agent.file_done(transfer, Ok(FileReply::Deleted)).await;
    deleting.await.unwrap().unwrap();
}

#[tokio::test]
async fn transfers_of_all_sessions_are_bounded_together() {
    let one = || Arc::new(Semaphore::new(1));
    let tenants = || Arc::new(Mutex::new(BTreeMap::from([("t".to_owned(), one())])));
    let full = TransferLimiter { all: one(), ..TransferLimiter::default() };
    let full_for_tenant = TransferLimiter { tenants: tenants(), ..TransferLimiter::default() };
    let (first, second) =
        (Bench::started(LONG_TIMEOUTS).await, Bench::started(LONG_TIMEOUTS).await);
    for limiter in [full, full_for_tenant] {
        let held = first.session.write_file(&limiter, write()).await.unwrap();
        let refused = second.session.write_file(&limiter, write()).await;
        assert!(matches!(refused, Err(TransferError::TooMany)));
        drop(held);
    }
}

#[tokio::test]
async fn shutdown_waits_for_transfers() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let limiter = TransferLimiter::default();
    let reading = read(&bench, &limiter);
    let (transfer, _) = bench.agent.file().await;
    let reply = FileReply::Content { entry: entry(0), length: 0 };
    bench.agent.file_done(transfer, Ok(reply)).await;
    let reading = reading.await.unwrap().unwrap();
    let session = Arc::clone(&bench.session);
    let mut waiting = pending(async move { session.transfers_ended().await }).await;
    drop(reading);
    (&mut waiting).await.unwrap();
    let late = bench.session.delete_file(&limiter, "a".into()).await;
    assert!(matches!(late, Err(TransferError::TooMany)));
}

/// Starts something that is not to be over yet.
async fn pending(future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let task = tokio::spawn(future);
    tokio::task::yield_now().await;
    assert!(!task.is_finished());
    task
}

#[tokio::test]
async fn files_are_there_while_something_runs() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(std::time::Duration::from_secs(3600)).await;
    let (session, limiter) = (Arc::clone(&bench.session), TransferLimiter::default());
    let operation = FileOperation::List {
        path: String::new(),
        recursive: false,
        after: String::new(),
        limit: 1,
    };
    let listing = tokio::spawn(async move { session.list_files(&limiter, operation).await });
    let (transfer, _) = bench.agent.file().await;
    let listed = FileReply::Listed { entries: vec![entry(1)], more: true };
    bench.agent.file_done(transfer, Ok(listed)).await;
    assert_eq!(listing.await.unwrap().unwrap(), (vec![entry(1)], true));
    bench.agent.done(execution, vivarium_protocol::message::Completion::Ok).await;
    reply.log.finished().await.unwrap();
}

#[tokio::test]
async fn mismatched_agent_answers_are_refused() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reading = read(&bench, &TransferLimiter::default());
    let (transfer, _) = bench.agent.file().await;
    bench.agent.file_done(transfer, Ok(FileReply::Deleted)).await;
    assert!(matches!(reading.await.unwrap(), Err(TransferError::OutOfTurn)));
    // Before the end was sent.
    let writing = bench.session.write_file(&TransferLimiter::default(), write()).await.unwrap();
    let (transfer, _) = bench.agent.file().await;
    bench.agent.file_done(transfer, Ok(FileReply::Written { files: 1, bytes: 0 })).await;
    bench.works().await;
    let sent = writing.send(&vec![7; BUFFER_BYTES]).await;
    assert!(matches!(sent, Err(TransferError::OutOfTurn)));
    // To a question that nobody asked.
    bench.agent.file_done(transfer, Ok(FileReply::Deleted)).await;
    bench.is_gone().await;
}
