//! What a client that waits is told (results.md 6).

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{ProgressNotification, ProgressNotificationParam, ProgressToken, ServerJsonRpcMessage, ServerNotification},
    service::RequestContext,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};

use super::{context::Waiting, text};

/// Stands in a request's extensions when it is served without a session of the SDK: its progress goes here.
#[derive(Clone, Debug)]
pub(crate) struct ProgressTo(pub(crate) mpsc::Sender<Box<ServerJsonRpcMessage>>);

/// Tells a client that waits how long it has waited and for what (results.md 6). The progress is the seconds passed, which
/// always grow; the total is what the tool said it waits for at most.
pub(super) async fn report(
    context: &RequestContext<RoleServer>,
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
        if !tell(context, report).await {
            return std::future::pending().await;
        }
        sleep(BETWEEN_REPORTS).await;
        let _ = timeout(QUIET_REPORT, waiting.changed()).await;
    }
}

/// Sends one report; whether there is anybody to send it to.
async fn tell(context: &RequestContext<RoleServer>, report: ProgressNotificationParam) -> bool {
    let Some(ProgressTo(to)) = context.extensions.get() else {
        return context.peer.notify_progress(report).await.is_ok();
    };
    let report = ServerNotification::ProgressNotification(ProgressNotification::new(report));
    to.send(Box::new(ServerJsonRpcMessage::notification(report))).await.is_ok()
}

/// How long a call may take before its client is told anything.
const FIRST_REPORT: Duration = Duration::from_secs(1);
/// At most four reports a second.
const BETWEEN_REPORTS: Duration = Duration::from_millis(250);
/// With nothing new to say, one a second.
const QUIET_REPORT: Duration = Duration::from_millis(750);
/// Bytes of what a report says.
const LONGEST: usize = 512;
