//! The keeper, with gates that the test plays.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use vivarium_audit::AuditLog;
use vivarium_egress::message::GATE_VERSION;
use vivarium_egress::wire::{GateReceiver, encode};
use vivarium_egress::{Decided, Decision, FromGate, Reason, ToGate, Via};
use vivarium_metrics::Metrics;
use vivarium_protocol::stream::{recv_some, send_some};

use super::*;
use crate::engine::testing::{settings, tenant};
use crate::settings::GateSource;

/// Where gates are.
struct Place {
    listener: UnixListener,
    dir: TempDir,
}

struct FakeGate {
    stream: UnixStream,
    receiver: GateReceiver,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { listener: UnixListener::bind(dir.path().join("gate")).unwrap(), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("gate")
    }

    /// A gate that is ready.
    async fn gate(&self) -> FakeGate {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut gate = FakeGate { stream, receiver: GateReceiver::default() };
        gate.send(&FromGate::Ready { version: GATE_VERSION, confinement: vec![] }).await;
        gate
    }
}

impl FakeGate {
    async fn send(&mut self, message: &FromGate) {
        let bytes = encode(message).unwrap();
        self.stream.writable().await.unwrap();
        let sent = send_some(&self.stream, &bytes, &[] as &[OwnedFd]).unwrap();
        assert_eq!(sent, bytes.len());
    }

    async fn recv(&mut self) -> (ToGate, Option<OwnedFd>) {
        loop {
            if let Some(message) = self.receiver.next_message().unwrap() {
                return message;
            }
            let mut buffer = vec![0; 4096];
            let interest = tokio::io::Interest::READABLE;
            let (len, fds) = self
                .stream
                .async_io(interest, || recv_some(&self.stream, &mut buffer))
                .await
                .unwrap();
            assert!(len > 0, "the supervisor is gone");
            self.receiver.push(&buffer[..len], fds);
        }
    }

    /// The session that is to be served, which is then.
    async fn open(&mut self) -> (SessionKey, Rules, Option<Authority>, OwnedFd) {
        let (message, socket) = self.recv().await;
        let ToGate::Open { session, rules, authority, .. } = message else { panic!("{message:?}") };
        self.send(&FromGate::Opened { session }).await;
        (session, rules, authority, socket.unwrap())
    }
}

fn egress_at(place: &Place, metrics: &Arc<Metrics>) -> Egress {
    let source = GateSource::Socket(place.path());
    Egress::new(source.into(), accounting(metrics), approvals(|_| ()))
}

fn with_list() -> Settings {
    let mut settings = settings();
    settings.egress.allow = vec!["a.example".parse().unwrap(), "b.example".parse().unwrap()];
    settings
}

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new().unwrap())
}

fn accounting(metrics: &Arc<Metrics>) -> Accounting {
    Accounting { metrics: Arc::clone(metrics), audit: AuditLog::default(), usage: Arc::default() }
}

fn approvals(change: impl FnOnce(&mut Settings)) -> Arc<Approvals> {
    let approvals = Approvals::new(metrics(), AuditLog::default());
    let mut settings = settings();
    change(&mut settings);
    approvals.set(&settings);
    Arc::new(approvals)
}

fn listener() -> OwnedFd {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()
}

async fn eventually(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn gate_that_is_not_there_is_named_and_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gate");
    let egress = Egress::new(
        GateSource::Socket(path.clone()).into(),
        accounting(&metrics()),
        approvals(|_| ()),
    );
    for _ in 0..2 {
        let error = egress.ready().await.unwrap_err();
        assert!(matches!(&error, GateError::Connect { .. } | GateError::Ended), "{error}");
    }
    let place = Place { listener: UnixListener::bind(&path).unwrap(), dir };
    let gate = tokio::spawn(async move { place.gate().await });
    // Within the wait after a failure there is no new try.
    while egress.ready().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(gate.await.unwrap());
}

#[tokio::test]
async fn sessions_are_opened_counted_and_closed() {
    let place = Place::new();
    let metrics = metrics();
    let egress = egress_at(&place, &metrics);
    let settings = with_list();
    let session = egress.session(&settings, "one", None, ApprovalRule::Allow).unwrap();
    assert_eq!(session.allowed(), ["a.example", "b.example"]);
    assert!(session.certificate().is_none());
    egress.serve(Arc::clone(&session), "a", listener(), &settings).await;
    let mut gate = place.gate().await;
    let (key, rules, authority, socket) = gate.open().await;
    assert_eq!(rules.allow, settings.egress.allow);
    assert!(authority.is_none());
    assert!(std::net::TcpListener::from(socket).local_addr().is_ok());

    let decision = |decision, reason| {
        FromGate::Decided(Decided {
            session: key,
            connection: 1,
            decision,
            reason,
            via: Via::Connect,
            destination: "a.example".to_owned(),
            port: 443,
            method: None,
            address: None,
        })
    };
    gate.send(&decision(Decision::Allowed, Reason::Listed)).await;
    gate.send(&decision(Decision::Refused, Reason::NotListed)).await;
    egress.end(&session).await;
    assert_eq!(gate.recv().await.0, ToGate::Close { session: key });
    // What is reported of its last connections still counts.
    gate.send(&FromGate::Done {
        session: key,
        connection: 1,
        bytes_in: 5,
        bytes_out: 7,
        duration: Duration::ZERO,
        cut: None,
    })
    .await;
    gate.send(&FromGate::Closed { session: key, bytes_in: 5, bytes_out: 7 }).await;
    eventually(|| session.bytes() == (5, 7)).await;
    let text = metrics.scrape(|_| ()).unwrap();
    for line in [
        r#"vivarium_egress_decisions_total{outcome="allowed",tenant="one"} 1"#,
        r#"vivarium_egress_decisions_total{outcome="not_listed",tenant="one"} 1"#,
        r#"vivarium_egress_bytes_total{direction="in",tenant="one"} 5"#,
        r#"vivarium_egress_bytes_total{direction="out",tenant="one"} 7"#,
        "vivarium_egress_gate_losses_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn another_gate_takes_sessions_over_with_the_rules_they_have_by_then() {
    let place = Place::new();
    let metrics = metrics();
    let egress = egress_at(&place, &metrics);
    let mut settings = with_list();
    let asked = vec!["b.example:443".parse().unwrap()];
    let session =
        egress.session(&settings, "one", Some(asked.clone()), ApprovalRule::Allow).unwrap();
    let gone = egress.session(&settings, "one", None, ApprovalRule::Allow).unwrap();
    egress.serve(Arc::clone(&session), "a", listener(), &settings).await;
    egress.serve(Arc::clone(&gone), "a", listener(), &settings).await;
    let mut gate = place.gate().await;
    let (key, rules, ..) = gate.open().await;
    assert_eq!(rules.allow, asked);
    gate.open().await;

    // What the operator took away, the request does not keep.
    settings.egress.allow.pop();
    egress.update(&session, &settings).await;
    let (message, _) = gate.recv().await;
    assert!(
        matches!(&message, ToGate::Update { session, rules } if *session == key && rules.allow.is_empty()),
        "{message:?}"
    );
    assert!(session.allowed().is_empty());

    drop(gate);
    egress.end(&gone).await;
    let mut gate = place.gate().await;
    let (again, rules, ..) = gate.open().await;
    assert_eq!(again, key);
    assert!(rules.allow.is_empty());
    egress.ready().await.unwrap();
    let text = metrics.scrape(|_| ()).unwrap();
    assert!(text.lines().any(|line| line == "vivarium_egress_gate_losses_total 1"), "{text}");
}

#[tokio::test]
async fn session_has_placeholders_and_the_gate_the_values() {
    let place = Place::new();
    let file = place.dir.path().join("value");
    std::fs::write(&file, "the value\n").unwrap();
    let mut one = tenant("1");
    one.secrets = vec![crate::settings::TenantSecret {
        name: "KEY".into(),
        hosts: vec!["a.example".parse().unwrap()],
        header: "authorization".into(),
        source: crate::settings::SecretSource::File(file.clone()),
    }];
    let mut settings = with_list();
    settings.tenants.insert("one".into(), one);

    let egress = egress_at(&place, &metrics());
    let session = egress.session(&settings, "one", None, ApprovalRule::Allow).unwrap();
    let variables: Vec<_> = session.variables().collect();
    assert_eq!(variables.len(), 1);
    assert!(variables[0].0 == "KEY" && !format!("{session:?}").contains("the value"));
    assert!(session.certificate().is_some());
    egress.serve(Arc::clone(&session), "a", listener(), &settings).await;
    let mut gate = place.gate().await;
    let (_, rules, authority, _) = gate.open().await;
    assert_eq!(rules.errors(), []);
    let [secret] = rules.secrets.as_slice() else { panic!("{rules:?}") };
    assert_eq!((&secret.placeholder, secret.value.as_str()), (&variables[0].1, "the value"));
    assert_eq!(authority.map(|authority| authority.certificate_pem), session.certificate());

    // A new value reaches sessions that run.
    std::fs::write(&file, "another").unwrap();
    egress.update(&session, &settings).await;
    let (message, _) = gate.recv().await;
    let ToGate::Update { rules, .. } = message else { panic!("{message:?}") };
    assert_eq!(rules.secrets[0].value, "another");

    std::fs::remove_file(&file).unwrap();
    assert!(matches!(
        egress.session(&settings, "one", None, ApprovalRule::Allow),
        Err(SecretError::Read { .. })
    ));
}

#[tokio::test]
async fn calls_of_the_daemon_are_answered_and_end_with_the_gate() {
    let place = Place::new();
    let egress = Arc::new(egress_at(&place, &metrics()));
    let request = Call {
        method: "POST".into(),
        url: "https://a.example/".into(),
        headers: vec![],
        body: vec![],
        timeout: Duration::from_secs(1),
        max_response_bytes: 10,
        allow_addresses: vec![],
    };
    let call = || {
        let (egress, request) = (Arc::clone(&egress), request.clone());
        tokio::spawn(async move { egress.call(request).await })
    };
    let first = call();
    let mut gate = place.gate().await;
    let (ToGate::Call { id, .. }, _) = gate.recv().await else { panic!() };
    let response = CallResponse { status: 204, headers: vec![], body: vec![] };
    gate.send(&FromGate::CallDone { id, result: Ok(response.clone()) }).await;
    assert_eq!(first.await.unwrap(), Ok(response));
    let second = call();
    gate.recv().await;
    drop(gate);
    assert!(matches!(second.await.unwrap(), Err(CallError::Broken(_))));
}

#[tokio::test]
async fn gate_that_speaks_out_of_turn_is_not_used() {
    let place = Place::new();
    let egress = egress_at(&place, &metrics());
    let playing = async {
        let (stream, _) = place.listener.accept().await.unwrap();
        let mut gate = FakeGate { stream, receiver: GateReceiver::default() };
        gate.send(&FromGate::Opened { session: 1 }).await;
        gate
    };
    let (error, gate) = tokio::join!(egress.ready(), playing);
    assert!(matches!(error, Err(GateError::Broken(_))), "{error:?}");
    assert!(gate.stream.as_fd().try_clone_to_owned().is_ok());
    // It is let go of.
    let mut stream = gate.stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn destinations_on_no_list_are_asked_for_once_and_withdrawn_with_their_gate() {
    let place = Place::new();
    let mut settings = with_list();
    settings.approval.egress = ApprovalRule::Ask;
    let approvals = approvals(|all| all.approval = settings.approval.clone());
    let source = GateSource::Socket(place.path());
    let egress = Egress::new(source.into(), accounting(&metrics()), Arc::clone(&approvals));
    let session = egress.session(&settings, "one", None, ApprovalRule::Allow).unwrap();
    egress.serve(Arc::clone(&session), "s", listener(), &settings).await;
    let mut gate = place.gate().await;
    let (key, rules, ..) = gate.open().await;
    assert!(matches!(rules.unlisted, vivarium_egress::Unlisted::Ask { .. }));
    // A list of the request's own is all that it gets.
    let asked = Some(vec!["a.example".parse().unwrap()]);
    let narrow = egress.session(&settings, "one", asked, ApprovalRule::Allow).unwrap();
    egress.serve(narrow, "n", listener(), &settings).await;
    assert_eq!(gate.open().await.1.unlisted, vivarium_egress::Unlisted::Refuse);
    // And so is a rule tighter than its tenant's.
    let denied = egress.session(&settings, "one", None, ApprovalRule::Deny).unwrap();
    egress.serve(denied, "d", listener(), &settings).await;
    assert_eq!(gate.open().await.1.unlisted, vivarium_egress::Unlisted::Refuse);

    let ask = |id, destination: &str| FromGate::Ask {
        id,
        session: key,
        destination: destination.into(),
        port: 443,
    };
    let pending = || approvals.list(None, &Default::default()).unwrap().0;
    let decide = |id: &str, decision| {
        let request = vivarium_api_types::DecideRequest { decision, remember: None, reason: None };
        approvals.decide(None, id, "x", request).unwrap();
    };
    gate.send(&ask(1, "c.example")).await;
    gate.send(&ask(2, "c.example")).await;
    gate.send(&ask(3, "d.example")).await;
    eventually(|| pending().len() == 2).await;
    let found = pending();
    assert_eq!(found[0].egress.as_ref().unwrap().host, "c.example");
    assert_eq!((&*found[0].tenant, &*found[0].session_id), ("one", "s"));
    decide(&found[0].id, vivarium_api_types::ApprovalDecision::Allow);
    let mut answers = vec![gate.recv().await.0, gate.recv().await.0];
    answers.sort_by_key(|answer| format!("{answer:?}"));
    let answer = |id, allowed| ToGate::Answer { id, allowed };
    assert_eq!(answers, [answer(1, true), answer(2, true)]);
    // What is denied is not asked for again at once.
    decide(&found[1].id, vivarium_api_types::ApprovalDecision::Deny);
    assert_eq!(gate.recv().await.0, answer(3, false));
    gate.send(&ask(4, "d.example")).await;
    assert_eq!(gate.recv().await.0, answer(4, false));
    assert!(pending().is_empty());

    gate.send(&ask(5, "e.example")).await;
    eventually(|| pending().len() == 1).await;
    drop(gate);
    eventually(|| pending().is_empty()).await;
    let mut gate = place.gate().await;
    let (key, ..) = gate.open().await;
    gate.open().await;
    let again = FromGate::Ask { id: 1, session: key, destination: "f.example".into(), port: 80 };
    gate.send(&again).await;
    eventually(|| pending().len() == 1).await;
    egress.end(&session).await;
    eventually(|| pending().is_empty()).await;
}
