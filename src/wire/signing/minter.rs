//! Credentials that we mint for programs of ours, and that a hub takes which lists us as an issuer (wire.md 8.5).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::Secret;
use super::key::HmacKey;
use crate::wire::PeerName;

/// Mints them.
#[derive(Clone, Debug)]
pub struct Minter {
    secret: Secret,
    issuer: PeerName,
}

/// What one says.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// Which credential it is; one of its own each time.
    pub id: &'a str,
    /// Who presents it: the name it goes by.
    pub subject: &'a PeerName,
    /// What it is.
    pub roles: &'a [&'a str],
    /// How many hands it is away from a person.
    pub generation: u8,
    /// From when it holds, in milliseconds since 1970.
    pub issued_ms: u64,
    /// Until when.
    pub expires_ms: u64,
}

/// What stands before it, and is signed too.
const FORM: &str = "srpc-d1.";

impl Minter {
    /// Mints as `issuer`, with the secret that the hub knows it by.
    pub const fn new(secret: Secret, issuer: PeerName) -> Self {
        Self { secret, issuer }
    }

    /// One credential, which is a secret: whoever has it is its subject.
    pub fn mint(&self, claims: &Claims<'_>) -> Secret {
        let Claims { id, subject, roles, generation, issued_ms, expires_ms } = *claims;
        let (subject, issuer) = (subject.as_str(), self.issuer.as_str());
        // Signed by the order of their names.
        let sorted = json!({
            "credentialId": id, "expiresAt": expires_ms, "generation": generation, "issuedAt": issued_ms,
            "issuer": issuer, "roles": roles, "subject": subject,
        });
        let sent = json!({
            "subject": subject, "credentialId": id, "roles": roles, "issuer": issuer,
            "generation": generation, "issuedAt": issued_ms, "expiresAt": expires_ms,
        });
        let key = HmacKey::of(self.secret.expose().as_bytes());
        let signature = key.tag(format!("{FORM}{sorted}").as_bytes());
        let (claims, signature) = (BASE64_STANDARD.encode(sent.to_string()), BASE64_STANDARD.encode(*signature));
        Secret::new(format!("{FORM}{claims}.{signature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors;

    /// Wire.md 8.5, as recorded.
    #[test]
    fn a_credential_is_as_recorded() {
        let recorded = vectors::file("signing.json")["derivedCredential"].clone();
        let text = |at: &str| recorded["claims"][at].as_str().unwrap().to_owned();
        let number = |at: &str| recorded["claims"][at].as_u64().unwrap();
        let name = |at: &str| PeerName::mqtt(&text(at)).unwrap();
        let secret = Secret::new(recorded["secretUtf8"].as_str().unwrap().to_owned());
        let (id, subject) = (text("credentialId"), name("subject"));
        let claims = Claims {
            id: &id,
            subject: &subject,
            roles: &["ai-program"],
            generation: u8::try_from(number("generation")).unwrap(),
            issued_ms: number("issuedAt"),
            expires_ms: number("expiresAt"),
        };
        let minter = Minter::new(secret, name("issuer"));
        assert_eq!(minter.mint(&claims).expose(), recorded["token"].as_str().unwrap());
        assert!(!format!("{minter:?}").contains("issuer-secret"));
    }
}
