//! From a request to the first byte of its answer, by a server in a session through the daemon, and
//! by the same server outside, asked directly.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vivarium_client::Method;

use super::{Context, outside, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const ABOVE_DIRECT_MS: f64 = 1.0;
const SESSION: &str = "ports";
const WHAT: &str = "a request to a server";

/// Prints its port, then answers one connection after the other.
const SERVER: &str = r#"
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    with listener.accept()[0] as peer:
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
"#;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let [direct, proxied] = with_daemon("", async |daemon| requests(daemon, context).await).await?;
    let direct = direct.summary("first byte of a server, directly");
    let proxied = proxied.summary("first byte through the port proxy");
    let above = proxied.p50 - direct.p50;
    let name = "port proxy's first byte, above a direct one";
    let bar = Bar::at_most(name, above, ABOVE_DIRECT_MS, "ms");
    let times = vec![direct, proxied];
    Ok(Findings { times, bars: vec![bar], ..Findings::default() })
}

/// In turns, each over a connection of its own.
async fn requests(daemon: &Daemon, context: &Context) -> Result<[Samples; 2], BenchError> {
    let session = json!({"id": SESSION, "network": "loopback"});
    daemon.client().json::<Value>(Method::POST, "/v1/sessions", Some(&session)).await?;
    let command = json!({"argv": ["python3", "-c", SERVER], "background": true});
    let mut inside = requests::command(daemon.client(), SESSION, &command).await?;
    let port = outside::port(&requests::printed(&mut inside, WHAT).await?)?;
    let path = format!("/v1/sessions/{SESSION}/ports/{port}/");
    let (_server, port_outside) = outside::server(&context.machine.interpreter, SERVER).await?;
    let outside = SocketAddr::from((Ipv4Addr::LOCALHOST, port_outside));

    let mut samples = [(); 2].map(|()| Samples::default());
    let [direct, proxied] = &mut samples;
    for turn in 0..=context.plan.port_requests {
        direct.add_if(turn > 0, first_byte(outside, "/").await?);
        proxied.add_if(turn > 0, first_byte(daemon.address(), &path).await?);
    }
    Ok(samples)
}

async fn first_byte(server: SocketAddr, path: &str) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let mut answer = [0; 64];
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.read(&mut answer).await
    };
    let read = asked.await;
    let time = start.elapsed();
    match read {
        Ok(_) if answer.starts_with(b"HTTP/1.1 200") => Ok(time),
        Ok(_) => Err(requests::unexpected(WHAT, &String::from_utf8_lossy(&answer))),
        Err(error) => Err(requests::unexpected(WHAT, &error)),
    }
}
