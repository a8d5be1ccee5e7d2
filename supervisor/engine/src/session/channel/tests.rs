use std::io::Write;
use std::os::unix::net::UnixStream as Pair;

use vivarium_protocol::message::{Execute, Work};

use super::*;
use crate::backend::fake::FakeAgent;

fn delete(path: &str) -> FileOperation {
    FileOperation::Delete { path: path.to_owned() }
}

fn execute(code: String) -> ToAgent {
    let work = Work::code(code);
    ToAgent::Execute(Execute { execution: 1, context: 0, work, files: vec![], outputs: vec![] })
}

#[tokio::test]
async fn a_descriptor_comes_with_its_message_however_that_is_cut() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours).unwrap(), FakeAgent::new(theirs));
    // More than a socket holds, so that what follows waits and goes in parts.
    let large = "x".repeat(4 << 20);
    let (mut first, first_end) = Pair::pair().unwrap();
    let (mut second, second_end) = Pair::pair().unwrap();
    channel.send_with(&execute(large.clone()), Vec::new()).unwrap();
    channel.send_file(1, delete(&large), Some(first_end.into())).unwrap();
    channel.send_file(2, delete("none"), None).unwrap();
    channel.send_file(3, delete(&large), Some(second_end.into())).unwrap();
    channel.send_with(&ToAgent::Describe, Vec::new()).unwrap();
    let sending = tokio::spawn(async move { channel.next().await.unwrap_err().to_string() });
    first.write_all(b"first").unwrap();
    second.write_all(b"second").unwrap();

    assert_eq!(agent.recv().await, Some(execute(large.clone())));
    assert_eq!(agent.file().await, (1, delete(&large)));
    assert_eq!(agent.socket().read().await, b"first");
    assert_eq!(agent.file().await, (2, delete("none")));
    assert_eq!(agent.file().await, (3, delete(&large)));
    assert_eq!(agent.socket().read().await, b"second");
    assert_eq!(agent.recv().await, Some(ToAgent::Describe));
    drop(agent);
    assert_eq!(sending.await.unwrap(), "the agent is gone");
}

#[tokio::test]
async fn a_descriptor_that_is_refused_ends_its_transfer_alone() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours).unwrap(), FakeAgent::new(theirs));
    channel.send_with(&execute("x".repeat(4 << 20)), Vec::new()).unwrap();
    let (_kept, end) = Pair::pair().unwrap();
    channel.send_file(7, delete("a"), Some(end.into())).unwrap();
    channel.send_with(&ToAgent::Describe, Vec::new()).unwrap();
    // As if the first had been sent, and the kernel then refused the second.
    let first = channel.unsent.pop_front().unwrap();
    let rest = first.bytes[std::mem::take(&mut channel.sent)..].to_vec();
    channel.refuse(Errno::ETOOMANYREFS.into());
    channel.unsent.push_front(Unsent {
        bytes: rest,
        descriptors: vec![],
        purpose: Purpose::Session,
    });

    let FromAgent::FileDone { transfer: 7, reply: Err(problem) } = channel.next().await.unwrap()
    else {
        unreachable!()
    };
    assert_eq!(problem.kind, FileProblemKind::Aborted);
    let sending = tokio::spawn(async move { channel.next().await.is_err() });
    assert!(matches!(agent.recv().await, Some(ToAgent::Execute(_))));
    assert_eq!(agent.recv().await, Some(ToAgent::Describe));
    drop(agent);
    assert!(sending.await.unwrap());
    assert!(is_for_the_descriptor(&Errno::ETOOMANYREFS.into()));
    assert!(!is_for_the_descriptor(&Errno::EPIPE.into()));
}

#[tokio::test]
async fn lost_descriptor_fails_the_channel() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours).unwrap(), FakeAgent::new(theirs));
    let (mut kept, end) = Pair::pair().unwrap();
    channel.send_with(&ToAgent::Describe, vec![end.into()]).unwrap();
    kept.write_all(b"said").unwrap();
    drop(kept);
    assert_eq!(agent.recv().await, Some(ToAgent::Describe));
    assert_eq!(agent.socket().read().await, b"said");
    let refuse = |channel: &mut Channel, purpose| {
        channel.unsent.push_front(Unsent { bytes: vec![0], descriptors: vec![], purpose });
        channel.refuse(Errno::ETOOMANYREFS.into());
    };
    refuse(&mut channel, Purpose::Port);
    assert!(channel.failed.is_none(), "who waits for it finds its end closed");
    refuse(&mut channel, Purpose::Session);
    assert!(matches!(channel.next().await, Err(ChannelError::Io(_))));
}

#[tokio::test]
async fn an_agent_that_speaks_or_goes_is_not_quiet() {
    for goes in [false, true] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut channel, mut agent) = (Channel::new(ours).unwrap(), FakeAgent::new(theirs));
        agent.ready(1).await;
        assert!(!channel.is_quiet(), "nobody has heard it");
        channel.next().await.unwrap();
        assert!(channel.is_quiet());
        let disquiet = tokio::spawn(async move {
            std::future::poll_fn(|cx| channel.poll_disquiet(cx)).await;
            channel
        });
        // It waits, and does not take what was read before for something new.
        tokio::task::yield_now().await;
        assert!(!disquiet.is_finished());
        if goes {
            drop(agent);
        } else {
            agent.ready(2).await;
        }
        assert!(!disquiet.await.unwrap().is_quiet());
    }
}

#[tokio::test]
async fn buffered_messages_mean_the_agent_is_not_quiet() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut channel, mut agent) = (Channel::new(ours).unwrap(), FakeAgent::new(theirs));
    let refused = FromAgent::FilesRefused { execution: 1, name: "a".into(), reason: "b".into() };
    let one = frame::encode(&refused, MAX_FRAME_BYTES).unwrap();
    agent.send_bytes(&[one.as_slice(), &one].concat()).await;
    channel.next().await.unwrap();
    assert!(!channel.is_quiet());
}
