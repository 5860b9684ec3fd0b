//! What runs when somebody calls either half of the store of work orders.

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;

use super::{
    orders::Orders,
    place,
    service::{tell, unknown},
};
use crate::{
    link::now_ms,
    node::{Failure, Incoming, Node, Service, ServiceFuture},
    wire::{Map, Value},
};

/// The read half.
pub(super) const READ: &str = "workOrders";
/// The write half.
pub(super) const WRITE: &str = "workOrders.write";

/// The store, behind both halves.
#[derive(Clone, Debug)]
pub(super) struct OrderService {
    orders: Arc<Mutex<Orders>>,
    first_state: Map,
}

impl OrderService {
    pub(super) fn new() -> Self {
        let orders = Orders::new();
        let first_state = orders.state();
        Self { orders: Arc::new(Mutex::new(orders)), first_state }
    }

    /// Has every change of an order conflict, or none.
    pub(super) async fn set_meddled(&self, meddled: bool) {
        self.orders.lock().await.set_meddled(meddled);
    }

    /// The state of the read half to begin with.
    pub(super) fn first_state(&self) -> Map {
        self.first_state.clone()
    }

    fn transition(orders: &mut Orders, call: &Incoming) -> Result<Option<Value>, Failure> {
        let number = || {
            let number = call.args.first().and_then(Value::as_i64);
            number.ok_or_else(|| Failure::coded("InvalidParams", "argument 0: expected an integer"))
        };
        match (call.namespace.as_str(), call.method.as_str()) {
            (WRITE, method) => orders.call(method, &call.args, now_ms()).map(Some),
            (READ, "start") => orders.start(number()?).map(|status| Some(status.into())),
            (READ, "setDelay") => Ok(Some(orders.set_delay(number()?).into())),
            _ => Err(unknown(call)),
        }
    }
}

impl Service for OrderService {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move {
            let mut orders = this.orders.lock().await;
            let result = Self::transition(&mut orders, &call);
            let news = (orders.take_news(), Vec::new());
            tell(&node, READ, news).await;
            if let (READ, "start", Ok(_), Some(number)) =
                (call.namespace.as_str(), call.method.as_str(), &result, call.args.first().and_then(Value::as_i64))
            {
                place::work_on(&node, number).await;
            }
            let delay = if call.namespace == WRITE { orders.delay() } else { Duration::ZERO };
            drop(orders);
            tokio::time::sleep(delay).await;
            result
        })
    }
}
