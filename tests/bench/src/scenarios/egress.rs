//! A session's requests through the egress gate to a server on the host, and the same program's
//! outside, asked directly.

use std::time::Duration;

use serde_json::{Value, json};
use vivarium_api_types::Outcome;
use vivarium_client::Method;

use super::{Context, outside, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const ABOVE_DIRECT_MS: f64 = 1.0;
const RATE_MB_PER_S: f64 = 500.0;
const SESSION: &str = "egress";
const WHAT: &str = "a request through the egress gate";

/// Requests before the other side has its turn.
const TURN: usize = 25;

/// Prints its port; answers with two bytes, or with as many as the path says.
const SERVER: &str = r#"
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
block = bytes(1 << 20)
while True:
    with listener.accept()[0] as peer:
        size = int(peer.recv(65536).split()[1].rpartition(b"/")[2])
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
        while size:
            part = block[:size]
            peer.sendall(part)
            size -= len(part)
"#;

/// Asks `count` times for `size` bytes at an address, and prints the times in ns: to the first byte, and
/// from there to the last.
const ASK: &str = r#"
import socket, time
def ask(address, url, size, count):
    host = url.split("/")[2]
    text = f"GET {url}{size} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    buffer = bytearray(1 << 20)
    times = []
    for _ in range(count):
        begun = time.perf_counter_ns()
        with socket.create_connection(address) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(text)
            got = peer.recv_into(buffer)
            first = time.perf_counter_ns()
            assert buffer.startswith(b"HTTP/1.1 200 "), bytes(buffer[:got])
            while more := peer.recv_into(buffer):
                got += more
            assert got > size, got
            times.append([first - begun, time.perf_counter_ns() - first])
    print(times)
"#;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let (_server, port) = outside::server(&context.machine.interpreter, SERVER).await?;
    // By a name, as programs do: the gate finds it in the hosts file.
    let config = format!(
        "sandbox.allowed_networks = [\"loopback\", \"trusted\"]\n\
         egress.allow = [\"localhost:{port}\"]\negress.allow_addresses = [\"127.0.0.1\"]\n"
    );
    let found = with_daemon(&config, async |daemon| requests(daemon, context, port).await).await?;
    let [direct, gated, direct_bytes, gated_bytes] = found;
    let direct = direct.summary("first byte of a server, by Python");
    let gated = gated.summary("first byte through the egress gate");
    let bytes = context.plan.transfer_bytes;
    let mb = bytes / 1_000_000;
    let direct_rate = direct_bytes.rate(format!("{mb} MB from a server, by Python"), bytes);
    let rate = gated_bytes.rate(format!("{mb} MB through the egress gate"), bytes);
    let name = "egress gate's first byte, above a direct one";
    Ok(Findings {
        bars: vec![
            Bar::at_most(name, gated.p50 - direct.p50, ABOVE_DIRECT_MS, "ms"),
            Bar::at_least("through the egress gate", rate.mb_per_s(), RATE_MB_PER_S, "MB/s"),
        ],
        times: vec![direct, gated],
        rates: vec![direct_rate, rate],
        ..Findings::default()
    })
}

/// Directly and through the gate, in turns: times to the first byte, and of many bytes.
async fn requests(
    daemon: &Daemon,
    context: &Context,
    port: u16,
) -> Result<[Samples; 4], BenchError> {
    let session = json!({"id": SESSION, "network": "trusted"});
    daemon.client().json::<Value>(Method::POST, "/v1/sessions", Some(&session)).await?;
    requests::execute(&mut daemon.client(), SESSION, ASK, WHAT).await?;
    let interpreter = &context.machine.interpreter;
    let mut samples = [(); 4].map(|()| Samples::default());
    let [direct, gated, direct_bytes, gated_bytes] = &mut samples;
    // The first turn is not counted.
    for turn in 0..=context.plan.port_requests / TURN {
        let call = format!("ask(('127.0.0.1', {port}), 'http://localhost:{port}/', 2, {TURN})");
        take(
            &outside::printed(interpreter, &format!("{ASK}\n{call}")).await?,
            0,
            turn > 0,
            direct,
        )?;
        let call = call.replacen(&port.to_string(), "3128", 1);
        take(&inside(daemon, &call).await?, 0, turn > 0, gated)?;
    }
    let bytes = context.plan.transfer_bytes;
    for turn in 0..=context.plan.transfers {
        let call = format!("ask(('127.0.0.1', {port}), 'http://localhost:{port}/', {bytes}, 1)");
        take(
            &outside::printed(interpreter, &format!("{ASK}\n{call}")).await?,
            1,
            turn > 0,
            direct_bytes,
        )?;
        let call = call.replacen(&port.to_string(), "3128", 1);
        take(&inside(daemon, &call).await?, 1, turn > 0, gated_bytes)?;
    }
    Ok(samples)
}

async fn inside(daemon: &Daemon, call: &str) -> Result<String, BenchError> {
    let outcome: Outcome = requests::execute(&mut daemon.client(), SESSION, call, WHAT).await?;
    Ok(outcome.stdout)
}

/// Adds one of the two times of each request.
fn take(
    printed: &str,
    which: usize,
    counts: bool,
    samples: &mut Samples,
) -> Result<(), BenchError> {
    let times: Vec<[u64; 2]> =
        serde_json::from_str(printed).map_err(|_| requests::unexpected(WHAT, &printed))?;
    for time in times.iter().filter_map(|times| times.get(which)) {
        samples.add_if(counts, Duration::from_nanos(*time));
    }
    Ok(())
}
