//! The targets. Each holds what its parser promises, whatever it is given.

mod gate;
mod streams;
mod texts;

/// All, by name.
pub const ALL: &[(&str, fn(&[u8]))] = &[
    ("client_hello", gate::client_hello),
    ("request_head", gate::request_head),
    ("calls_wire", streams::calls_wire),
    ("chunks", streams::chunks),
    ("config", texts::config),
    ("envelopes", streams::envelopes),
    ("frames", streams::frames),
    ("image", crate::image::image),
    ("jupyter_wire", texts::jupyter_wire),
    ("kernel_wire", streams::kernel_wire),
    ("rpc", texts::rpc),
    ("sse", streams::sse),
    ("tar", streams::tar),
    ("terminal", texts::terminal),
];

/// The input's first byte says where the rest is cut: a parser has to find the same in both parts
/// as in the whole.
fn cut(data: &[u8]) -> Option<(&[u8], [&[u8]; 2])> {
    let (&at, whole) = data.split_first()?;
    let at = usize::from(at) * whole.len() / 256;
    let (one, other) = whole.split_at(at);
    Some((whole, [one, other]))
}
