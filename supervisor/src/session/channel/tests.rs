#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;
use crate::backend::fake::FakeAgent;
use std::io::Write;
use std::os::unix::net::UnixStream as Pair;
use vivarium_protocol::message::Work;

fn delete(path: &str) -> FileOperation {
    FileOperation::Delete { path: path.to_owned() }
}

fn execute(code: String) -> ToAgent {
    let work = Work::Code { code };
    ToAgent::Execute { execution: 1, work, files: vec![], outputs: vec![] }
}

#[tokio::test]
async fn a_descriptor_comes_with_its_message_however_that_is_cut() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours), FakeAgent::new(theirs));
    // More than a socket holds, so that what follows waits and goes in parts.
    let large = "x".repeat(4 << 20);
    let (mut first, first_end) = Pair::pair().unwrap();
    let (mut second, second_end) = Pair::pair().unwrap();
    channel.send(&execute(large.clone())).unwrap();
    channel.send_file(1, delete(&large), Some(first_end.into())).unwrap();
    channel.send_file(2, delete("none"), None).unwrap();
    channel.send_file(3, delete(&large), Some(second_end.into())).unwrap();
    channel.send(&ToAgent::Describe).unwrap();
    let sending = tokio::spawn(async move { channel.next().await.unwrap_err().to_string() });
    first.write_all(b"first").unwrap();
    second.write_all(b"second").unwrap();

    assert_eq!(agent.hear().await, Some(execute(large.clone())));
    assert_eq!(agent.file().await, (1, delete(&large)));
    assert_eq!(agent.socket().read().await, b"first");
    assert_eq!(agent.file().await, (2, delete("none")));
    assert_eq!(agent.file().await, (3, delete(&large)));
    assert_eq!(agent.socket().read().await, b"second");
    assert_eq!(agent.hear().await, Some(ToAgent::Describe));
    drop(agent);
    assert_eq!(sending.await.unwrap(), "the agent is gone");
}

#[tokio::test]
async fn a_descriptor_that_is_refused_ends_its_transfer_alone() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours), FakeAgent::new(theirs));
    channel.send(&execute("x".repeat(4 << 20))).unwrap();
    let (_kept, end) = Pair::pair().unwrap();
    channel.send_file(7, delete("a"), Some(end.into())).unwrap();
    channel.send(&ToAgent::Describe).unwrap();
    // As if the first had been sent, and the kernel then refused the second.
    let first = channel.unsent.pop_front().unwrap();
    let rest = first.bytes[std::mem::take(&mut channel.sent)..].to_vec();
    channel.refuse(&Errno::ETOOMANYREFS.into());
    channel.unsent.push_front(Unsent { bytes: rest, descriptor: None });

    let FromAgent::FileDone { transfer: 7, reply: Err(problem) } = channel.next().await.unwrap()
    else {
        unreachable!()
    };
    assert_eq!(problem.kind, FileProblemKind::Aborted);
    let sending = tokio::spawn(async move { channel.next().await.is_err() });
    assert!(matches!(agent.hear().await, Some(ToAgent::Execute { .. })));
    assert_eq!(agent.hear().await, Some(ToAgent::Describe));
    drop(agent);
    assert!(sending.await.unwrap());
    assert!(is_for_the_descriptor(&Errno::ETOOMANYREFS.into()));
    assert!(!is_for_the_descriptor(&Errno::EPIPE.into()));
}
