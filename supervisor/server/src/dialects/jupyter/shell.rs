//! Requests of clients: those that a kernel answers in turn, and those that are answered at once.

use std::sync::Weak;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use vivarium_client::path;

use super::kernel::{Job, Kernel, Socket};
use super::wire::Request;
use super::{assist, execute};
use crate::dialects::native::{self, Call, Native, Refusal};

/// Answers what waits, in turn, until the kernel is forgotten.
pub(super) async fn work<N: Native>(kernel: Weak<Kernel<N>>, mut waiting: mpsc::Receiver<Job<N>>) {
    while let Some(job) = waiting.recv().await {
        let Some(kernel) = kernel.upgrade() else { return };
        if answer_in_turn(&kernel, &job).await != Then::GoOn {
            drop(job);
            while let Ok(job) = waiting.try_recv() {
                abort(&kernel, &job).await;
            }
        }
    }
}

/// What becomes of the requests that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    /// Code failed, and what was to follow it is not executed.
    Abort,
    /// The kernel is another now, and not because a client has asked for that.
    Restarted,
}

async fn answer_in_turn<N: Native>(kernel: &Kernel<N>, job: &Job<N>) -> Then {
    let Job { native, socket, request, .. } = job;
    kernel.status(native, Some(&request.header), "busy").await;
    let (kind, content, then) = match request.kind.as_str() {
        "execute_request" => {
            let (content, then) = execute::run(kernel, native, request).await;
            ("execute_reply", content, then)
        }
        "complete_request" => {
            ("complete_reply", assist::complete(kernel, native, request).await, Then::GoOn)
        }
        "inspect_request" => {
            ("inspect_reply", assist::inspect(kernel, native, request).await, Then::GoOn)
        }
        _ => ("is_complete_reply", assist::is_complete(kernel, native, request).await, Then::GoOn),
    };
    kernel.reply(native, socket, request, kind, content).await;
    kernel.end();
    kernel.status(native, Some(&request.header), "idle").await;
    if then == Then::Restarted {
        kernel.status(native, None, "restarting").await;
    }
    then
}

/// Answers a request that waited behind code which failed.
async fn abort<N: Native>(kernel: &Kernel<N>, job: &Job<N>) {
    if job.request.kind != "execute_request" {
        answer_in_turn(kernel, job).await;
        return;
    }
    let Job { native, socket, request, .. } = job;
    kernel.status(native, Some(&request.header), "busy").await;
    let content = json!({"status": "aborted"});
    kernel.reply(native, socket, request, "execute_reply", content).await;
    kernel.status(native, Some(&request.header), "idle").await;
}

/// Whether the request waits for what was asked before it.
pub(super) fn is_in_turn(request: &Request) -> bool {
    matches!(
        request.kind.as_str(),
        "execute_request" | "complete_request" | "inspect_request" | "is_complete_request"
    )
}

/// Answers a request that waits for nothing.
pub(super) async fn answer_at_once<N: Native>(
    kernel: &Kernel<N>,
    native: &N,
    socket: &Socket,
    request: &Request,
) {
    let answer = match request.kind.as_str() {
        "kernel_info_request" => ("kernel_info_reply", kernel_info(kernel)),
        "history_request" => {
            let history = kernel.history(request);
            ("history_reply", json!({"status": "ok", "history": history}))
        }
        "comm_info_request" => ("comm_info_reply", json!({"status": "ok", "comms": {}})),
        "comm_open" => {
            kernel.status(native, Some(&request.header), "busy").await;
            let id = request.content.get("comm_id").cloned().unwrap_or_default();
            let content = json!({"comm_id": id, "data": {}});
            kernel.publish(native, "comm_close", Some(&request.header), content).await;
            kernel.idle(native, &request.header).await;
            return;
        }
        "interrupt_request" => {
            let call = interrupt(&kernel.id);
            ("interrupt_reply", done(native::whole(native, call).await.map(drop), json!({})))
        }
        "shutdown_request" => {
            shut_down(kernel, native, socket, request).await;
            return;
        }
        // Comms that were closed, answers to what is never asked, and what is newer.
        _ => return,
    };
    kernel.status(native, Some(&request.header), "busy").await;
    kernel.reply(native, socket, request, answer.0, answer.1).await;
    kernel.idle(native, &request.header).await;
}

async fn shut_down<N: Native>(kernel: &Kernel<N>, native: &N, socket: &Socket, request: &Request) {
    let restart = request.content.get("restart").and_then(Value::as_bool).unwrap_or(false);
    let call = if restart { reset(&kernel.id) } else { delete(&kernel.id) };
    kernel.status(native, Some(&request.header), "busy").await;
    let ended = native::whole(native, call).await.map(drop);
    let is_over = ended.is_ok();
    let content = done(ended, json!({"restart": restart}));
    kernel.reply(native, socket, request, "shutdown_reply", content).await;
    kernel.status(native, Some(&request.header), "idle").await;
    match restart {
        true if is_over => kernel.restarted(),
        false if is_over => kernel.status(native, None, "dead").await,
        _ => {}
    }
}

fn kernel_info<N: Native>(kernel: &Kernel<N>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let python = kernel.facts().python_version;
    json!({
        "status": "ok",
        "protocol_version": super::wire::PROTOCOL,
        "implementation": "vivarium",
        "implementation_version": version,
        "language_info": {
            "name": "python",
            "version": python,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": format!("Python {python} in Vivarium {version}"),
        "help_links": [],
        "debugger": false,
    })
}

/// The content of a reply that says whether something was done.
fn done(ended: Result<(), Refusal>, mut content: Value) -> Value {
    let status = match ended {
        Ok(()) => json!({"status": "ok"}),
        Err(refusal) => failed(&refusal),
    };
    if let (Some(members), Value::Object(status)) = (content.as_object_mut(), status) {
        members.extend(status);
    }
    content
}

/// The content of a reply to a request that was refused.
pub(super) fn failed(refusal: &Refusal) -> Value {
    json!({"status": "error", "ename": refusal.code, "evalue": refusal.text(), "traceback": []})
}

pub(super) fn interrupt(id: &str) -> Call {
    Call::new(Method::POST, format!("{}/interrupt", path::session(id)))
}

pub(super) fn reset(id: &str) -> Call {
    Call::new(Method::POST, format!("{}/reset", path::session(id)))
}

pub(super) fn delete(id: &str) -> Call {
    Call::new(Method::DELETE, path::session(id))
}
