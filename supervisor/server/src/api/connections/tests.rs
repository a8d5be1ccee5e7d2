use std::net::Ipv4Addr;

use futures_util::FutureExt;

use super::*;

const HERE: Peer = Peer::User(Some(1));

fn connections(max: usize) -> Connections {
    Connections::new(max, Arc::new(Metrics::new().unwrap()))
}

fn is_closed(connection: &Connection) -> bool {
    connection.closed().now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn longest_silent_connection_makes_room() {
    let connections = connections(4);
    let peers = [1, 2, 3, 4, 5].map(|user| Peer::User(Some(user)));
    let mut open = Vec::new();
    for peer in &peers[..4] {
        open.push(connections.admit(*peer).unwrap());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    open[0].activity().busy();
    open[1].activity().received();
    let fifth = connections.admit(peers[4]).unwrap();
    assert!(!fifth.activity().is_reserve);
    let closed: Vec<_> = open.iter().map(is_closed).collect();
    assert_eq!(closed, [false, false, true, false]);
}

#[test]
fn busy_listener_has_a_bounded_reserve() {
    let connections = connections(4);
    let address = |last| Peer::Address(Ipv4Addr::new(192, 0, 2, last).into());
    let busy: Vec<_> = (0..4).map(|last| connections.admit(address(last)).unwrap()).collect();
    busy.iter().for_each(|connection| connection.activity().busy());
    let mut reserve = Vec::new();
    for last in 0..32 {
        let one = connections.admit(address(100 + last)).unwrap();
        assert!(one.activity().is_reserve);
        one.activity().busy();
        reserve.push(one);
    }
    assert!(connections.admit(HERE).is_none());
    assert!(!busy.iter().chain(&reserve).any(is_closed));
    drop((busy, reserve));
    assert!(!connections.admit(HERE).unwrap().activity().is_reserve);
}

#[test]
fn one_peer_can_not_take_all_connections() {
    let connections = connections(4);
    let own: Vec<_> = (0..3).map(|_| connections.admit(HERE).unwrap()).collect();
    let fourth = connections.admit(HERE).unwrap();
    assert_eq!(own.iter().filter(|connection| is_closed(connection)).count(), 1);
    assert!(!connections.admit(Peer::User(None)).unwrap().activity().is_reserve);
    assert!(!is_closed(&fourth));
}

#[test]
fn silent_reserve_connection_makes_room_in_the_reserve_only() {
    let connections = connections(4);
    let busy: Vec<_> = (0..3).map(|_| connections.admit(HERE).unwrap()).collect();
    busy.iter().for_each(|connection| connection.activity().busy());
    let reserve: Vec<_> = (0..33).map(|_| connections.admit(HERE).unwrap()).collect();
    assert!(reserve.iter().all(|connection| connection.activity().is_reserve));
    assert!(!reserve.iter().any(is_closed));
    assert!(connections.admit(HERE).unwrap().activity().is_reserve);
    // Once an ordinary connection is silent, a new one takes its place and the reserve's.
    busy[0].activity().idle();
    assert!(!connections.admit(HERE).unwrap().activity().is_reserve);
    assert!(reserve.iter().all(is_closed));
}

#[test]
fn one_tenant_can_not_keep_all_connections_busy() {
    let connections = connections(4);
    let open: Vec<_> = (0..3).map(|_| connections.admit(HERE).unwrap()).collect();
    open[0].activity().count_towards("t").unwrap();
    open[0].activity().count_towards("t").unwrap();
    open[1].activity().count_towards("t").unwrap();
    assert_eq!(open[2].activity().count_towards("t").unwrap_err().code, "too_many_requests");
    open[2].activity().count_towards("other").unwrap();
    open[0].activity().idle();
    open[2].activity().count_towards("t").unwrap();
}
