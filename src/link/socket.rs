//! The socket below a connection; the only file of the links with platform code.
//!
//! A stock broker has Nagle on, and a hub may have: it holds the second of two small packets back until the first is acknowledged. Our
//! kernel would delay that acknowledgement by 40 ms. Hence no delay on our side, and on Linux a quick acknowledgement
//! re-armed after every read, because the kernel forgets it. TLS runs on top of this socket and gains the same.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Where a connection leaves its stream when it is dropped, so that a departure can wait for the broker to have read it. What
/// nobody takes from there closes when the last that knows the place is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Parted(Arc<Mutex<Option<TcpStream>>>);

impl Parted {
    /// The stream, once its connection was dropped.
    pub(super) fn take(&self) -> Option<TcpStream> {
        self.place().take()
    }

    fn place(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the first address of `host` that answers within its share of `budget`. The stream is left in
/// `parted` when it is dropped.
pub(super) async fn connect(host: &str, port: u16, budget: Duration, parted: Parted, lazy: Lazy) -> io::Result<Prompt> {
    let addresses = lookup(host, port).await?;
    let share = budget / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let problem = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Prompt::new(stream, parted, lazy),
            Ok(Err(error)) => error,
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, "no answer"),
        };
        last = io::Error::new(problem.kind(), format!("{address}: {problem}"));
    }
    Err(last)
}

/// Every address of `host`.
pub(super) async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(lookup_host((host, port)).await?.collect())
}

/// Tells the broker that nothing follows and waits, bounded, until it has closed too. Closing at once could throw away
/// what the broker has not read yet: a close with unread bytes in our buffer resets the connection.
pub(super) async fn part(mut stream: TcpStream, patience: Duration) {
    let farewell = async {
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    if !matches!(timeout(patience, farewell).await, Ok(Ok(()))) {
        tracing::debug!("the broker did not close the connection after the farewell");
    }
}

/// A socket that delays neither data nor acknowledgements.
#[derive(Debug)]
pub(super) struct Prompt {
    /// Present until dropped.
    stream: Option<TcpStream>,
    parted: Parted,
    lazy: Lazy,
}

/// Leaves acknowledgements to the kernel while it is set, as ordinary clients do: for measuring what those are made to wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Lazy(Arc<AtomicBool>);

impl Lazy {
    pub(super) fn set(&self, lazy: bool) {
        self.0.store(lazy, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is below a protocol: the socket, or TLS on it, or a WebSocket on either.
pub(super) trait Below: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Below for T {}

impl Prompt {
    fn new(stream: TcpStream, parted: Parted, lazy: Lazy) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        platform::bound_silence(&stream);
        platform::acknowledge_quickly(&stream, true);
        Ok(Self { stream: Some(stream), parted, lazy })
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            *self.parted.place() = Some(stream);
        }
    }
}

impl AsyncRead for Prompt {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream()?.poll_read(cx, buffer))?;
        if let Some(stream) = &self.stream {
            platform::acknowledge_quickly(stream, !self.lazy.is_set());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Whether acknowledgements can be hurried here.
pub(super) const HURRIES: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
mod platform {
    //! Both options only make things faster or failures sooner: where the kernel refuses one, all still works.

    use rustix::net::sockopt;
    use tokio::net::TcpStream;

    /// Sends acknowledgements at once, or when it suits, until the kernel thinks otherwise.
    pub(super) fn acknowledge_quickly(stream: &TcpStream, quickly: bool) {
        sockopt::set_tcp_quickack(stream, quickly).ok();
    }

    /// Gives the connection up when what was written stays unread: what cannot leave now must not leave much later.
    pub(super) fn bound_silence(stream: &TcpStream) {
        sockopt::set_tcp_user_timeout(stream, 20_000).ok();
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    //! Elsewhere the defaults of the system stand.

    use tokio::net::TcpStream;

    pub(super) const fn acknowledge_quickly(_: &TcpStream, _: bool) {}

    pub(super) const fn bound_silence(_: &TcpStream) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn pair() -> (Prompt, TcpStream, Parted) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let parted = Parted::default();
        let ours = connect("127.0.0.1", port, Duration::from_secs(5), parted.clone(), Lazy::default()).await.unwrap();
        (ours, listener.accept().await.unwrap().0, parted)
    }

    #[tokio::test]
    async fn nagle_is_off() {
        let (ours, _theirs, _back) = pair().await;
        assert!(ours.stream.as_ref().unwrap().nodelay().unwrap());
    }

    /// The kernel leaves quick acknowledgement by itself; every read must arm it again.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn every_read_arms_the_quick_acknowledgement_again() {
        use rustix::net::sockopt;
        let (mut ours, mut theirs, _back) = pair().await;
        for _ in 0..3 {
            sockopt::set_tcp_quickack(ours.stream.as_ref().unwrap(), false).unwrap();
            assert!(!sockopt::tcp_quickack(ours.stream.as_ref().unwrap()).unwrap());
            theirs.write_all(b"x").await.unwrap();
            ours.read_u8().await.unwrap();
            assert!(sockopt::tcp_quickack(ours.stream.as_ref().unwrap()).unwrap());
        }
        ours.lazy.set(true);
        theirs.write_all(b"x").await.unwrap();
        ours.read_u8().await.unwrap();
        assert!(
            !sockopt::tcp_quickack(ours.stream.as_ref().unwrap()).unwrap(),
            "left to the kernel where that is measured"
        );
    }

    #[tokio::test]
    async fn a_dropped_socket_comes_back_to_part_in_peace() {
        let (ours, mut theirs, parted) = pair().await;
        assert!(parted.take().is_none());
        drop(ours);
        let stream = parted.take().unwrap();
        // Unread bytes on our side: a plain close would reset the connection.
        theirs.write_all(b"unread").await.unwrap();
        let parting = tokio::spawn(part(stream, Duration::from_secs(5)));
        assert_eq!(theirs.read(&mut [0; 8]).await.unwrap(), 0);
        drop(theirs);
        parting.await.unwrap();
    }

    #[tokio::test]
    async fn a_name_without_a_listener_is_named_in_the_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error =
            connect("127.0.0.1", port, Duration::from_secs(5), Parted::default(), Lazy::default()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
}
