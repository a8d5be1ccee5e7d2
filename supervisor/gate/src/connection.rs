//! One connection of a session, from its first byte to its end.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use vivarium_egress::allow::{HTTP_PORT, HTTPS_PORT};
use vivarium_egress::{Decision, Host, Name, Reason, Via};
use vivarium_protocol::discard;

use crate::buffered::Buffered;
use crate::context::Context;
use crate::dial::{self, Admission};
use crate::flow::{Asked, Flow};
use crate::http::head::{Head, HeadError, Target};
use crate::http::{self, RequestError};
use crate::packages;
use crate::relay;
use crate::socks::{self, SocksError};
use crate::tls::client_hello::{self, HANDSHAKE};

type Client = Buffered<TcpStream>;

/// What a client wants.
struct Wanted {
    via: Via,
    host: Host,
    port: u16,
    /// The request, if it is one and not a tunnel, and its path.
    request: Option<(Head, String)>,
}

enum WantedError {
    /// The client went away, or was answered what SOCKS has for it.
    Ended(Via),
    Silent,
    Bad(HeadError),
}

/// A connection that goes somewhere.
struct Admitted<'a> {
    context: &'a Context,
    asked: Asked,
    host: Host,
    port: u16,
    admission: Admission,
}

/// Serves a connection; returns what cut it after it was allowed, if that was the gate.
pub(crate) async fn serve(context: &Context, stream: TcpStream) -> Option<Reason> {
    let mut client = Buffered::new(stream);
    let limits = &context.rules.limits;
    let wanted = match timeout(limits.header, read_wanted(&mut client)).await {
        Ok(Ok(wanted)) => wanted,
        Ok(Err(error)) => return unreadable(context, client, error).await,
        Err(_) => {
            context
                .flow
                .decide(&Asked::unknown(Via::Unknown), Decision::Refused, Reason::Timeout)
                .await;
            return None;
        }
    };
    let Wanted { via, host, port, request } = wanted;
    let method = request.as_ref().map(|(head, _)| head.method.clone());
    let mut asked = Asked { via, destination: host.to_string(), port, method, address: None };
    if packages::is_index(&host) {
        let head = request.as_ref().map(|(head, _)| head);
        return match (packages::check(context, &asked, &host, head), request) {
            (Ok(()), _) if context.tenant.is_used_up() => {
                refuse(context, client, &asked, Reason::EgressRate).await
            }
            (Ok(()), Some(request)) => packages::serve(context, client, &asked, &request).await,
            (checked, _) => {
                let reason = checked.err().unwrap_or(Reason::BadRequest);
                refuse(context, client, &asked, reason).await
            }
        };
    }
    let session = context.flow.session;
    let admission = match dial::admit(&context.shared, session, &context.rules, &host, port).await {
        Ok(admission) => admission,
        Err(reason) => return refuse(context, client, &asked, reason).await,
    };
    if context.tenant.is_used_up() {
        return refuse(context, client, &asked, Reason::EgressRate).await;
    }
    if let Some((head, _)) = &request {
        if head.check_host(&host, port, HTTP_PORT).is_err() {
            return refuse(context, client, &asked, Reason::BadRequest).await;
        }
        if !admission.has_method(&head.method) {
            return refuse(context, client, &asked, Reason::MethodNotListed).await;
        }
        // Within which the gate would see no request.
        if port == HTTPS_PORT {
            return refuse(context, client, &asked, Reason::NotTls).await;
        }
    }
    let allowed = &context.rules.allow_addresses;
    let connected = dial::connect(&context.shared, allowed, &host, port, limits.connect).await;
    let destination = match connected {
        Ok((stream, address)) => {
            asked.address = Some(address);
            stream
        }
        Err(refusal) => {
            asked.address = refusal.address;
            return refuse(context, client, &asked, refusal.reason).await;
        }
    };
    let answer: &[u8] = match via {
        Via::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
        Via::Socks5 => &socks::reply(socks::SUCCEEDED),
        Via::Http | Via::Unknown => &[],
    };
    if client.write_all(answer).await.is_err() {
        context.flow.decide(&asked, Decision::Refused, Reason::Timeout).await;
        return None;
    }
    let admitted = Admitted { context, asked, host, port, admission };
    match request {
        Some((head, path)) => admitted.plain(client, destination, &head, &path).await,
        None => admitted.tunnel(client, destination).await,
    }
}

async fn read_wanted(client: &mut Client) -> Result<Wanted, WantedError> {
    if !client.fill().await.unwrap_or(false) {
        return Err(WantedError::Ended(Via::Unknown));
    }
    if client.bytes().first() == Some(&socks::VERSION) {
        let (host, port) = socks::read(client).await.map_err(|error| match error {
            SocksError::Gone => WantedError::Ended(Via::Unknown),
            SocksError::Answered(_) => WantedError::Ended(Via::Socks5),
        })?;
        return Ok(Wanted { via: Via::Socks5, host, port, request: None });
    }
    // Everything else that is no letter is no method either: TLS, SOCKS4.
    if !client.bytes().first().is_some_and(u8::is_ascii_alphabetic) {
        return Err(WantedError::Silent);
    }
    let head = http::read_head(client).await.map_err(|error| match error {
        RequestError::Gone => WantedError::Ended(Via::Unknown),
        RequestError::Bad(error) => WantedError::Bad(error),
    })?;
    match head.target.clone() {
        Target::Authority(host, port) => {
            Ok(Wanted { via: Via::Connect, host, port, request: None })
        }
        Target::Absolute(host, port, path) => {
            Ok(Wanted { via: Via::Http, host, port, request: Some((head, path)) })
        }
        Target::Path(_) => Err(WantedError::Bad(HeadError::Target)),
    }
}

async fn unreadable(context: &Context, mut client: Client, error: WantedError) -> Option<Reason> {
    let via = match error {
        // Nothing was asked for.
        WantedError::Ended(Via::Unknown) => return None,
        WantedError::Ended(via) => via,
        WantedError::Silent | WantedError::Bad(_) => Via::Unknown,
    };
    context.flow.decide(&Asked::unknown(via), Decision::Refused, Reason::BadRequest).await;
    if let WantedError::Bad(error) = error {
        http::refuse(&mut client, Reason::BadRequest, &error.to_string()).await;
    }
    None
}

async fn refuse(
    context: &Context,
    mut client: Client,
    asked: &Asked,
    reason: Reason,
) -> Option<Reason> {
    context.flow.decide(asked, Decision::Refused, reason).await;
    if asked.via == Via::Socks5 {
        discard(client.write_all(&socks::reply(socks::code(reason))).await, "it may be gone");
        discard(client.shutdown().await, "it may be gone");
    } else {
        let detail = format!("{}:{} is not reached", asked.destination, asked.port);
        http::refuse(&mut client, reason, &detail).await;
    }
    None
}

/// What a tunnel is found to carry.
enum Carried {
    /// TLS, with this name in it.
    Tls(Option<Name>),
    /// Something that the gate does not read.
    Bytes,
    /// A request, on a port that is for requests.
    Http,
}

impl Admitted<'_> {
    fn flow(&self) -> &Flow {
        &self.context.flow
    }

    async fn refused(&self, reason: Reason) -> Option<Reason> {
        self.flow().decide(&self.asked, Decision::Refused, reason).await;
        None
    }

    async fn allowed(&self) {
        self.flow().decide(&self.asked, Decision::Allowed, self.admission.reason).await;
    }

    /// A request to a destination, in the clear.
    async fn plain(
        &self,
        client: Client,
        destination: TcpStream,
        head: &Head,
        path: &str,
    ) -> Option<Reason> {
        let port = (self.port != HTTP_PORT).then_some(self.port);
        let Ok(bytes) = head.for_destination(path, &self.host, port, [].iter()) else {
            return self.answer(client, Reason::BadRequest).await;
        };
        self.allowed().await;
        let idle = self.context.rules.limits.idle;
        http::exchange(client, destination, &bytes, head.framing, self.flow(), idle).await
    }

    /// Bytes to a destination, of which the first say what they are.
    async fn tunnel(mut self, mut client: Client, destination: TcpStream) -> Option<Reason> {
        let limits = self.context.rules.limits;
        let looked = timeout(limits.header, self.look(&mut client, &destination)).await;
        match looked {
            Err(_) => self.refused(Reason::Timeout).await,
            Ok(Err(reason)) => self.refused(reason).await,
            Ok(Ok(Carried::Bytes)) => {
                self.allowed().await;
                relay::both(client, destination, self.flow(), limits.idle).await
            }
            Ok(Ok(Carried::Tls(name))) => self.tls(client, destination, name).await,
            Ok(Ok(Carried::Http)) => {
                let (head, path) = match self.request(&mut client, HTTP_PORT).await {
                    Ok(request) => request,
                    Err(reason) => return self.answer(client, reason).await,
                };
                self.plain(client, destination, &head, &path).await
            }
        }
    }

    /// Refuses a request within a tunnel, as its server would.
    async fn answer<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
        &self,
        mut client: Buffered<S>,
        reason: Reason,
    ) -> Option<Reason> {
        self.flow().decide(&self.asked, Decision::Refused, reason).await;
        http::refuse(&mut client, reason, "the request is not passed on").await;
        None
    }

    /// Looks at what the client sends first; on ports of other protocols the destination may be first.
    async fn look(&self, client: &mut Client, destination: &TcpStream) -> Result<Carried, Reason> {
        let is_http = self.port == HTTP_PORT || self.admission.methods.is_some();
        let ends_tls = self.context.rules.ends_tls(&self.host);
        let is_other = self.port != HTTPS_PORT && !is_http && !ends_tls;
        while client.bytes().is_empty() {
            tokio::select! {
                more = client.fill() => if !more.unwrap_or(false) {
                    return if is_other { Ok(Carried::Bytes) } else { Err(Reason::BadRequest) };
                },
                _ = destination.readable(), if is_other => return Ok(Carried::Bytes),
            }
        }
        if client.bytes().first() != Some(&HANDSHAKE) {
            return match self.port {
                HTTPS_PORT => Err(Reason::NotTls),
                _ if is_http => Ok(Carried::Http),
                _ => Ok(Carried::Bytes),
            };
        }
        loop {
            match client_hello::server_name(client.bytes()) {
                Ok(Some(name)) => return Ok(Carried::Tls(name)),
                Ok(None) => {}
                Err(client_hello::HelloError::NotTls) if is_other => return Ok(Carried::Bytes),
                Err(client_hello::HelloError::NotTls) => return Err(Reason::NotTls),
                Err(_) => return Err(Reason::BadRequest),
            }
            if !client.fill().await.unwrap_or(false) {
                return Err(Reason::BadRequest);
            }
        }
    }

    async fn tls(
        mut self,
        client: Client,
        destination: TcpStream,
        said: Option<Name>,
    ) -> Option<Reason> {
        // Certificates of addresses have no name to compare: there the rule is by address.
        if let Host::Name(name) = &self.host {
            match &said {
                Some(said) if said == name => {}
                Some(_) => return self.refused(Reason::SniMismatch).await,
                None => return self.refused(Reason::SniMissing).await,
            }
            if self.context.rules.ends_tls(&self.host) {
                let name = name.clone();
                return self.end_tls(client, destination, &name).await;
            }
        }
        if self.admission.methods.is_some() {
            return self.refused(Reason::MethodNotListed).await;
        }
        self.allowed().await;
        relay::both(client, destination, self.flow(), self.context.rules.limits.idle).await
    }

    /// Reads a request within TLS, and sends it on with secrets.
    async fn end_tls(
        &mut self,
        client: Client,
        destination: TcpStream,
        name: &Name,
    ) -> Option<Reason> {
        let limits = self.context.rules.limits;
        let server = self.context.signer.as_ref().and_then(|signer| signer.server(name).ok());
        let Some(server) = server else { return self.refused(Reason::Certificate).await };
        let accepting = tokio_rustls::TlsAcceptor::from(server).accept(client);
        let Ok(Ok(client)) = timeout(limits.header, accepting).await else {
            return self.refused(Reason::BadRequest).await;
        };
        let mut client = Buffered::new(client);
        let (head, path) = match self.request(&mut client, HTTPS_PORT).await {
            Ok(request) => request,
            Err(reason) => return self.answer(client, reason).await,
        };
        let port = (self.port != HTTPS_PORT).then_some(self.port);
        let secrets: Vec<_> = self.context.rules.secrets_for(&self.host).cloned().collect();
        let Ok(bytes) = head.for_destination(&path, &self.host, port, secrets.iter()) else {
            return self.answer(client, Reason::BadRequest).await;
        };
        self.allowed().await;
        let connecting = self.context.shared.tls.connect(name.as_str(), destination);
        let Ok(Ok(destination)) = timeout(limits.connect, connecting).await else {
            http::refuse(&mut client, Reason::Certificate, "no TLS with the destination").await;
            return Some(Reason::Certificate);
        };
        http::exchange(client, destination, &bytes, head.framing, self.flow(), limits.idle).await
    }

    /// Reads a request that is for the destination of this tunnel.
    async fn request<S: tokio::io::AsyncRead + Unpin>(
        &mut self,
        client: &mut Buffered<S>,
        scheme_port: u16,
    ) -> Result<(Head, String), Reason> {
        let reading = http::read_head(client);
        let head = match timeout(self.context.rules.limits.header, reading).await {
            Ok(Ok(head)) => head,
            Ok(Err(_)) => return Err(Reason::BadRequest),
            Err(_) => return Err(Reason::Timeout),
        };
        self.asked.method = Some(head.method.clone());
        let Target::Path(path) = head.target.clone() else { return Err(Reason::BadRequest) };
        if head.check_host(&self.host, self.port, scheme_port).is_err() {
            return Err(Reason::BadRequest);
        }
        if !self.admission.has_method(&head.method) {
            return Err(Reason::MethodNotListed);
        }
        Ok((head, path))
    }
}
