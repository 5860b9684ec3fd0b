//! One call on its way into the trail: asked, then begun and ended, or refused. However it goes, it leaves its line.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value as Json};
use tokio::{sync::oneshot, time::timeout};

use super::{
    Audit, Unavailable,
    line::{Asked, Ending, Names, name},
    writer::{Message, Place},
};
use crate::plant::Target;

/// How long a call waits for its line to be written. A disk that takes longer counts as one that cannot be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// A call that could change a plant. Clones are the same call.
#[derive(Clone)]
pub struct Entry(Arc<Call>);

struct Call {
    audit: Audit,
    asked: Arc<Asked>,
    /// What was found to be addressed, if that is known better than by the arguments.
    addressed: Mutex<Option<Names>>,
    stage: Mutex<Stage>,
    since: Instant,
}

enum Stage {
    Asked,
    /// Its line is being written.
    Beginning,
    Begun {
        call: u64,
        place: Place,
    },
    Over,
}

impl Entry {
    pub(super) fn new(audit: Audit, client: &str, tool: &str, arguments: &Map<String, Json>) -> Self {
        let text = |key: &str| arguments.get(key).and_then(Json::as_str).map(name);
        let names = Names {
            peer: text("peer").or_else(|| text("node")),
            namespace: text("namespace"),
            method: text("method"),
            name: text("name").or_else(|| text("script")).or_else(|| text("watch")),
        };
        let args = audit.digest(tool, arguments);
        let asked = Arc::new(Asked { client: name(client), tool: name(tool), names, args });
        let (addressed, stage) = (Mutex::default(), Mutex::new(Stage::Asked));
        Self(Arc::new(Call { audit, asked, addressed, stage, since: Instant::now() }))
    }

    /// Writes down that the call is about to be made. To be waited for before anything is done.
    ///
    /// # Errors
    ///
    /// When it is not written down: the call must not be made then.
    pub async fn begin(&self) -> Result<(), Unavailable> {
        *self.0.stage() = Stage::Beginning;
        match self.written().await {
            Ok(begun) => {
                *self.0.stage() = begun;
                Ok(())
            }
            Err(why) => {
                *self.0.stage() = Stage::Asked;
                self.refuse(Ending::UNAUDITED);
                Err(why)
            }
        }
    }

    async fn written(&self) -> Result<Stage, Unavailable> {
        let (place, (acknowledge, acknowledged)) = (self.0.audit.reserve()?, oneshot::channel());
        self.0.audit.send(Message::Begun { asked: Arc::clone(&self.0.asked), acknowledge });
        let written = timeout(PATIENCE, acknowledged).await.map_err(|_| Unavailable::Slow)?;
        let call = written.map_err(|_| Unavailable::Ended)?.map_err(Unavailable::Failing)?;
        Ok(Stage::Begun { call, place })
    }

    /// Says what the plant shows to be addressed.
    pub(in crate::plant) fn addresses(&self, target: &Target) {
        let names = Names {
            peer: Some(name(target.peer.as_str())),
            namespace: Some(name(&target.namespace)),
            method: Some(name(&target.method)),
            name: self.0.asked.names.name.clone(),
        };
        *self.0.addressed.lock().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// The call that had begun is over. Only the first word counts.
    pub fn end(&self, ending: Ending) {
        self.0.end(ending);
    }

    /// The call was refused, if it had not begun; what has begun ends by itself, even where nobody waits for it.
    pub fn refuse(&self, ending: Ending) {
        self.0.refuse(ending);
    }
}

impl Call {
    fn stage(&self) -> std::sync::MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn us(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn end(&self, ending: Ending) {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Begun { call, place } => {
                let addressed = self.addressed.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (asked, us) = (Arc::clone(&self.asked), self.us());
                self.audit.send(Message::Ended { call, asked, addressed, ending, us, place });
            }
            before => *stage = before,
        }
    }

    fn refuse(&self, ending: Ending) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Asked) {
            *stage = Stage::Over;
            self.audit.refused(Arc::clone(&self.asked), ending, self.us());
        }
    }
}

/// A call that nobody knows the end of: given up before it began, or broken off.
impl Drop for Call {
    fn drop(&mut self) {
        self.refuse(Ending::GIVEN_UP);
        self.end(Ending::BROKEN);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Entry").field(&self.0.asked).finish()
    }
}
