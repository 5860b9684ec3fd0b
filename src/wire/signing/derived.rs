//! Credentials that a node mints for a program it starts (wire.md 8.5), for hubs that take its word.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value as Json, json};

use super::{Secret, SignatureKey};

/// What a credential says of who presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims<'a> {
    /// Names the credential.
    pub credential_id: &'a str,
    /// The peer it is for.
    pub subject: &'a str,
    /// Who vouches for it.
    pub issuer: &'a str,
    /// When it was made, in milliseconds since the Unix epoch.
    pub issued_at: i64,
    /// Until when it is good.
    pub expires_at: i64,
}

/// Mints the credential of a program: role `ai-program`, generation 2.
pub fn mint(secret: &Secret, claims: &Claims<'_>) -> Secret {
    let sent = json!({
        "subject": claims.subject,
        "credentialId": claims.credential_id,
        "roles": ["ai-program"],
        "issuer": claims.issuer,
        "generation": 2,
        "issuedAt": claims.issued_at,
        "expiresAt": claims.expires_at,
    });
    let signed = format!("{PREFIX}{}", sorted(&sent));
    let signature = SignatureKey::hmac(secret).sign(signed.as_bytes());
    Secret::new(format!("{PREFIX}{}.{signature}", BASE64_STANDARD.encode(sent.to_string())))
}

/// The same with its keys in the order of their characters.
fn sorted(claims: &Json) -> Json {
    let mut members: Vec<_> = claims.as_object().into_iter().flatten().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    members.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

const PREFIX: &str = "srpc-d1.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors;

    /// wire.md 8.5: the recorded credential, byte for byte.
    #[test]
    fn a_credential_is_minted_as_recorded() {
        let recorded = vectors::file("signing.json")["derivedCredential"].clone();
        let claims = &recorded["claims"];
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        let (id, subject, issuer) = (text(&claims["credentialId"]), text(&claims["subject"]), text(&claims["issuer"]));
        let (issued_at, expires_at) = (claims["issuedAt"].as_i64().unwrap(), claims["expiresAt"].as_i64().unwrap());
        let claims = Claims { credential_id: &id, subject: &subject, issuer: &issuer, issued_at, expires_at };
        let secret = Secret::new(text(&recorded["secretUtf8"]));
        assert_eq!(mint(&secret, &claims).expose(), text(&recorded["token"]));
    }
}
