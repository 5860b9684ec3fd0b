//! Why a process ends, apart from its client going away.

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
