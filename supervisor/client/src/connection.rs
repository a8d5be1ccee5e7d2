//! Making connections.

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::request::Body;
use super::{Client, ClientError, Transport};

impl Client {
    /// The kept connection if it is still open, else a new one.
    pub(super) async fn connected(&mut self) -> Result<SendRequest<Body>, ClientError> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let failed = |source| ClientError::Connect { url: self.url.clone(), source };
        match self.url.transport() {
            Transport::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                // Without it a small request waits for the delayed acknowledgement of the one
                // before (tcp(7), TCP_NODELAY).
                stream.set_nodelay(true).map_err(failed)?;
                self.handshake(stream).await
            }
            Transport::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(failed)?;
                self.handshake(stream).await
            }
        }
    }

    async fn handshake<S>(&self, stream: S) -> Result<SendRequest<Body>, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |source| ClientError::Http { url: self.url.clone(), source };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        tokio::spawn(async move {
            // Whoever waits for the response gets the error, too.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the daemon ended");
            }
        });
        Ok(sender)
    }
}
