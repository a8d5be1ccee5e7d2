use std::io::Write as _;
use std::time::Duration;

use nix::unistd::pipe;

use super::super::record::Unfinished;
use super::super::seal::SealKey;
use super::*;

/// What a kernel of this template writes.
fn written(template: u8, content: &[u8]) -> Vec<u8> {
    [&[template; 32][..], content, &END].concat()
}

/// Receives what kernels write, one after the other; whether all came is told.
fn received(kernels: &[Vec<u8>], bytes: u64) -> Result<(Received, bool), ReceiveError> {
    let dir = tempfile::tempdir().unwrap();
    let key = SealKey::read_or_make(&dir.path().join("key")).unwrap();
    let image = tempfile::tempdir().unwrap();
    let unfinished = Unfinished { dir: image, key, image: uuid::Uuid::new_v4() };
    let mut pipes = Vec::new();
    for kernel in kernels {
        let (read, write) = pipe().unwrap();
        File::from(write).write_all(kernel).unwrap();
        pipes.push(read);
    }
    let until = Instant::now() + Duration::from_secs(60);
    let bounds = Bounds { bytes, file_bytes: u64::MAX, until };
    let (at_end, mut end) = oneshot::channel();
    let received = receive(pipes, unfinished.create().unwrap(), bounds, None, None, at_end)?;
    Ok((received, end.try_recv().is_ok()))
}

#[test]
fn kernels_are_received_one_after_the_other_and_each_has_to_be_whole() {
    let (one, other) = (written(1, b"one"), written(1, &[5; 9000]));
    let all = [one.clone(), other.clone()];
    let (Received { template, lengths, .. }, is_told) = received(&all, 1 << 20).unwrap();
    assert_eq!((template, is_told), (Hash::from([1; 32]), true));
    assert_eq!(lengths, [one.len() as u64, other.len() as u64]);
    let short = |kernel: &[u8]| kernel[..kernel.len() - 1].to_vec();
    for cut in [[short(&one), other.clone()], [one.clone(), short(&other)], [one.clone(), vec![]]] {
        assert!(matches!(received(&cut, 1 << 20), Err(ReceiveError::Cut)));
    }
    assert!(matches!(received(&all, 9000), Err(ReceiveError::TooLarge)));
    let of_another = received(&[one, written(2, b"two")], 1 << 20).unwrap_err();
    assert!(of_another.to_string().contains("several templates"), "{of_another}");
}
