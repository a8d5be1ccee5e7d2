//! `1+1` in a sandbox of E2B: the request that its SDKs send, over one connection that is kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vivarium_api_types::ListenAddr;
use vivarium_client::{Client, Method, Url};

use super::super::requests;
use crate::BenchError;

/// The end of a body in chunks.
const END: &[u8] = b"\r\n0\r\n\r\n";

/// A sandbox, and a connection to what runs its code.
pub(super) struct Sandbox {
    stream: TcpStream,
    request: String,
    what: &'static str,
}

impl Sandbox {
    pub(super) async fn open(address: SocketAddr, what: &'static str) -> Result<Self, BenchError> {
        let mut control = Client::new(Url::from(&ListenAddr::Tcp(address)));
        let wanted = json!({"templateID": "base", "timeout": 3600});
        let made: Value = control.json(Method::POST, "/v2/sandboxes", Some(&wanted)).await?;
        let text = |name: &str| made.get(name).and_then(Value::as_str).unwrap_or_default();
        let (id, token) = (text("sandboxID"), text("trafficAccessToken"));
        let body = json!({"code": "1+1", "context_id": null, "language": null, "env_vars": null});
        let body = body.to_string();
        let request = format!(
            "POST /execute HTTP/1.1\r\nHost: {address}\r\nE2b-Sandbox-Id: {id}\r\n\
             E2b-Sandbox-Port: 49999\r\nE2B-Traffic-Access-Token: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let broken = |error: std::io::Error| requests::unexpected(what, &error.to_string());
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Self { stream, request, what })
    }

    /// Executes `1+1`, until the last line of its answer has come.
    pub(super) async fn two(&mut self) -> Result<Duration, BenchError> {
        let start = Instant::now();
        let answer = self.ask().await;
        let time = start.elapsed();
        let answer = answer.map_err(|error| requests::unexpected(self.what, &error.to_string()))?;
        let answer = String::from_utf8_lossy(&answer);
        let is_two = answer.starts_with("HTTP/1.1 200") && answer.contains("\"text\":\"2\"");
        if is_two { Ok(time) } else { Err(requests::unexpected(self.what, &answer)) }
    }

    async fn ask(&mut self) -> std::io::Result<Vec<u8>> {
        self.stream.write_all(self.request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(END) {
            if self.stream.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        Ok(answer)
    }
}
