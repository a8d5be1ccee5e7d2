//! Questions to a resolver, and its answers: RFC 1035. Only an answer to what was asked is one.

use std::net::IpAddr;

use domain::base::iana::{Class, Rcode};
use domain::base::{Message, MessageBuilder, Name as Domain, Rtype, ToName};
use domain::rdata::{A, Aaaa};
use vivarium_egress::Name;

/// What the resolver may send in one datagram: RFC 9715.
const UDP_PAYLOAD: u16 = 1232;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    V4,
    V6,
}

impl Kind {
    const fn rtype(self) -> Rtype {
        match self {
            Self::V4 => Rtype::A,
            Self::V6 => Rtype::AAAA,
        }
    }
}

/// What bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The answer; none, if the name has no such address, or is no name.
    Addresses(Vec<IpAddr>),
    /// The resolver could not find out.
    Failed,
    /// There is more than fits in a datagram.
    Truncated,
    /// Not an answer to this question.
    Foreign,
}

fn domain(name: &Name) -> Option<Domain<Vec<u8>>> {
    Domain::vec_from_str(&format!("{name}.")).ok()
}

/// The question; `None` for a name that DNS has no room for.
pub(super) fn query(id: u16, name: &Name, kind: Kind) -> Option<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((domain(name)?, kind.rtype())).ok()?;
    let mut builder = builder.additional();
    builder
        .opt(|opt| {
            opt.set_udp_payload_size(UDP_PAYLOAD);
            Ok(())
        })
        .ok()?;
    Some(builder.finish())
}

/// Reads what a resolver sent.
pub(super) fn answer(bytes: &[u8], id: u16, name: &Name, kind: Kind) -> Answer {
    let Ok(message) = Message::from_octets(bytes) else { return Answer::Foreign };
    let header = message.header();
    let Some(asked) = domain(name) else { return Answer::Foreign };
    let is_ours = message.sole_question().is_ok_and(|question| {
        question.qname().name_eq(&asked)
            && question.qtype() == kind.rtype()
            && question.qclass() == Class::IN
    });
    if !header.qr() || header.id() != id || !is_ours {
        return Answer::Foreign;
    }
    if header.tc() {
        return Answer::Truncated;
    }
    match header.rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Answer::Addresses(vec![]),
        _ => return Answer::Failed,
    }
    // Of the name that aliases lead to.
    let (Some(owner), Ok(records)) = (message.canonical_name(), message.answer()) else {
        return Answer::Failed;
    };
    let mut found = Vec::new();
    match kind {
        Kind::V4 => {
            for record in records.limit_to_in::<A>().flatten() {
                if record.owner().name_eq(&owner) {
                    found.push(IpAddr::V4(record.data().addr()));
                }
            }
        }
        Kind::V6 => {
            for record in records.limit_to_in::<Aaaa>().flatten() {
                if record.owner().name_eq(&owner) {
                    found.push(IpAddr::V6(record.data().addr()));
                }
            }
        }
    }
    Answer::Addresses(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> Name {
        "a.example".parse().unwrap()
    }

    /// The question sent back, with an address for `owner`.
    fn reply(id: u16, question: &str, owner: &str, rcode: Rcode) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_qr(true);
        builder.header_mut().set_rcode(rcode);
        let mut builder = builder.question();
        builder.push((Domain::vec_from_str(question).unwrap(), Rtype::A)).unwrap();
        let mut builder = builder.answer();
        let owner = Domain::vec_from_str(owner).unwrap();
        builder.push((owner, 60, A::from_octets(1, 2, 3, 4))).unwrap();
        builder.finish()
    }

    #[test]
    fn an_answer_is_of_the_question_that_was_asked() {
        let read = |bytes: &[u8]| answer(bytes, 7, &name(), Kind::V4);
        let address = "1.2.3.4".parse().unwrap();
        let good = reply(7, "a.example.", "a.example.", Rcode::NOERROR);
        assert_eq!(read(&good), Answer::Addresses(vec![address]));
        let other = reply(7, "a.example.", "b.example.", Rcode::NOERROR);
        assert_eq!(read(&other), Answer::Addresses(vec![]));
        assert_eq!(read(&reply(8, "a.example.", "a.example.", Rcode::NOERROR)), Answer::Foreign);
        assert_eq!(read(&reply(7, "b.example.", "a.example.", Rcode::NOERROR)), Answer::Foreign);
        assert_eq!(read(&reply(7, "a.example.", "a.example.", Rcode::SERVFAIL)), Answer::Failed);
        let none = reply(7, "a.example.", "a.example.", Rcode::NXDOMAIN);
        assert_eq!(read(&none), Answer::Addresses(vec![]));
        assert_eq!(answer(&good, 7, &name(), Kind::V6), Answer::Foreign);
        assert_eq!(read(&query(7, &name(), Kind::V4).unwrap()), Answer::Foreign);
    }

    proptest! {
        #[test]
        fn random_answers_never_panic(
            tail in proptest::collection::vec(any::<u8>(), 0..100), at in 0..60_usize,
        ) {
            let mut bytes = reply(7, "a.example.", "a.example.", Rcode::NOERROR);
            bytes.truncate(at);
            bytes.extend(tail);
            let _ = answer(&bytes, 7, &name(), Kind::V4);
        }
    }
}
