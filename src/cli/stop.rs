//! What the system asks of a process: to end, or to read its settings again.

/// Waits until the system asks us to end.
pub(super) async fn asked() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let [Ok(mut interrupt), Ok(mut terminate)] = kinds.map(signal) else {
            tracing::warn!("signals cannot be heard; end the process by closing its input");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a process is told by SIGHUP: that its terminal is gone, or that its settings are to be read again.
pub(super) struct Hangups(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangups {
    /// Listens from now on.
    pub(super) fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let heard = signal(SignalKind::hangup());
            if heard.is_err() {
                tracing::warn!("SIGHUP cannot be heard; settings are read again by a restart");
            }
            Self(heard.ok())
        }
        #[cfg(not(unix))]
        Self()
    }

    /// Ends with the next; several that came at once are one.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(heard) = &mut self.0
            && heard.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
