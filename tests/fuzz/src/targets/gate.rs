//! What a session sends to the egress gate first.

use vivarium_egress::Secret;

use super::cut;
use crate::gate::client_hello::server_name;
use crate::gate::head::{Head, Target, find_end, parse};

/// A name that was found is found in all of it too.
pub fn client_hello(data: &[u8]) {
    let Some((whole, [part, _])) = cut(data) else { return };
    match server_name(part) {
        Ok(None) => {}
        found => assert_eq!(found, server_name(whole)),
    }
}

/// The end of a head is where it is however it is cut, and what is written anew says the same.
pub fn request_head(data: &[u8]) {
    let Some((whole, [part, _])) = cut(data) else { return };
    let in_parts = match find_end(part, 0) {
        Ok(None) => find_end(whole, part.len()),
        found => found,
    };
    let found = find_end(whole, 0);
    assert_eq!(in_parts, found);
    let Ok(Some(end)) = found else { return };
    let Ok(head) = parse(&whole[..end]) else { return };
    let (host, path) = match &head.target {
        Target::Absolute(host, _, path) => (host.clone(), path.clone()),
        Target::Path(path) => ("a.example".parse().unwrap(), path.clone()),
        Target::Authority(..) => return,
    };
    if head.method == "CONNECT" {
        return;
    }
    let no_secrets = [].iter() as std::slice::Iter<'_, Secret>;
    let written = head.for_destination(&path, &host, None, no_secrets).unwrap();
    assert_eq!(find_end(&written, 0), Ok(Some(written.len())));
    let again: Head = parse(&written).unwrap();
    assert_eq!((again.method, again.framing), (head.method, head.framing));
    assert_eq!(again.target, Target::Path(path));
}
