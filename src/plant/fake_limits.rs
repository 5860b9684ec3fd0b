//! What neither a contract nor a description says, so that a fake made of it cannot do it; and what a description says more.

use std::sync::Arc;

use crate::contract::{Contract, Description, Effect, Method, Namespace, TypeNode, Types};

/// How many methods a warning names.
const NAMED: usize = 8;

/// A contract does not say which methods require authority, and a description does: the fake of a peer requires it where
/// the peer does. Tells whether any method does.
pub(super) fn command(contract: &mut Contract, description: &Description) -> bool {
    let mut any = false;
    for namespace in &mut contract.namespaces {
        let described = description.namespace(&namespace.name);
        for method in Arc::make_mut(&mut namespace.methods) {
            let known = described.and_then(|described| described.method(&method.name));
            method.requires_authority = known.is_some_and(|known| known.requires_authority);
            any |= method.requires_authority;
        }
    }
    any
}

/// What a fake of this contract does not do because nothing says that it should.
pub(super) fn warning(contract: &Contract, described: bool) -> Option<String> {
    let named = |wanted: &dyn Fn(&Namespace, &Method) -> bool| {
        let methods = contract.namespaces.iter().flat_map(|ns| ns.methods.iter().map(move |method| (ns, method)));
        let names = methods.filter(|(namespace, method)| wanted(namespace, method));
        names.take(NAMED).map(|(namespace, method)| format!("{}.{}", namespace.name, method.name)).collect::<Vec<_>>()
    };
    if described {
        let receipts = named(&|_, method| is_receipt(method.returns.as_ref(), &contract.types));
        return (!receipts.is_empty()).then(|| {
            format!(
                "{}: the peer answers with what looks like the receipt of a later answer, and does not describe that \
                 answer; the fake answers at once, and nothing follows",
                receipts.join(", ")
            )
        });
    }
    let commands = named(&|namespace, method| namespace.component.is_some() && method.effect() != Effect::Observe);
    (!commands.is_empty()).then(|| {
        format!(
            "a contract does not say which methods require authority: {} run for everybody here, also where the device \
             demands control",
            commands.join(", ")
        )
    })
}

/// How a method that answers later describes what it returns at once (semantics 10.1).
fn is_receipt(returns: Option<&TypeNode>, types: &Types) -> bool {
    let Some(TypeNode::Object { fields, .. }) = returns.and_then(|node| types.resolve(node)) else { return false };
    let has = |name: &str| fields.iter().any(|field| field.name == name);
    fields.len() == 2 && has("id") && has("expiresAt")
}
