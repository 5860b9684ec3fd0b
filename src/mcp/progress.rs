//! What a client that waits is told (results.md 6).

use std::time::Duration;

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{context::Waiting, text};

/// Tells a client that waits how long it has waited and for what (results.md 6). The progress is the seconds passed, which
/// always grow; the total is what the tool said it waits for at most.
pub(super) async fn report(
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    mut waiting: watch::Receiver<Waiting>,
) -> std::convert::Infallible {
    let begun = Instant::now();
    sleep(FIRST_REPORT).await;
    loop {
        let Waiting { total, message } = waiting.borrow_and_update().clone();
        let mut report = ProgressNotificationParam::new(token.clone(), begun.elapsed().as_secs_f64());
        report.total = total.map(|total| total.as_secs_f64());
        report.message = message.map(|message| text::one_line(text::cut(&message, LONGEST).0));
        if peer.notify_progress(report).await.is_err() {
            return std::future::pending().await;
        }
        sleep(BETWEEN_REPORTS).await;
        let _ = timeout(QUIET_REPORT, waiting.changed()).await;
    }
}

/// How long a call may take before its client is told anything.
const FIRST_REPORT: Duration = Duration::from_secs(1);
/// At most four reports a second.
const BETWEEN_REPORTS: Duration = Duration::from_millis(250);
/// With nothing new to say, one a second.
const QUIET_REPORT: Duration = Duration::from_millis(750);
/// Bytes of what a report says.
const LONGEST: usize = 512;
