//! kill -9 of the daemon while it writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use vivarium_tests::http::Client;

use super::{lines, of_event, place, setup, verify};

#[test]
fn what_was_answered_is_in_the_log_after_every_kill() {
    let place = place();
    let at = place.path().join("audit");
    let mut kept = None;
    let answered = AtomicU64::new(0);
    for round in 0..20 {
        let mut setup = setup(&at, "capture_code = true").config("sandbox", "mode = \"auto\"");
        if let Some(dir) = kept.take() {
            setup = setup.in_place_of(dir);
        }
        let daemon = setup.start();
        let (stop, unix) = (AtomicBool::new(false), daemon.unix());
        let (stop, unix, answered) = (&stop, &unix, &answered);
        kept = Some(std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    scope.spawn(move || {
                        let path = format!("/v1/sessions/r{round}c{client}/execute?create=true");
                        let code = "x".repeat(20_000);
                        let code = json!({"code": format!("# {code}")}).to_string();
                        while !stop.load(Ordering::Relaxed) {
                            // Dies with the daemon.
                            let Ok(mut client) = Client::try_connect(unix) else { break };
                            let headers = [("Content-Type", "application/json")];
                            client.ask("POST", &path, &headers, Some(code.as_bytes()));
                            let Some(answer) = client.receive() else { break };
                            if answer.status == 200 {
                                answered.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    })
                })
                .collect();
            let before = answered.load(Ordering::Relaxed);
            vivarium_tests::wait::until_true("answers", || {
                answered.load(Ordering::Relaxed) >= before + 4
            });
            let dir = daemon.kill_and_check();
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                drop(client.join());
            }
            dir
        }));
    }
    let daemon = setup(&at, "").in_place_of(kept.unwrap()).start();
    daemon.stop_and_check();
    let (intact, report) = verify(&at, &[]);
    assert!(intact && report["torn"].is_null(), "{report}");
    let all = lines(&at);
    let ended = of_event(&all, "execution_ended").len() as u64;
    assert!(ended >= answered.load(Ordering::Relaxed), "{ended}: {answered:?}");
    assert_eq!(of_event(&all, "daemon_started").len(), 21);
}
