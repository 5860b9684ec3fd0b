//! What may be asked of a package manager. It becomes one argument of a command, never a part of a shell's text; still a
//! flag, a path or an address in its place would be more than a package.

use super::{ScriptFault, results::Packager};

/// What is to be installed, and how.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The package, with a range if wanted; of what is to be removed, its name.
    pub spec: String,
    /// Whose.
    pub manager: Packager,
    /// Whether programs that come with it may run while it is installed.
    pub allow_install_scripts: bool,
}

impl Wanted {
    /// Whether it is a package that can be installed, or the name of one that can be removed.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self, adds: bool) -> Result<(), ScriptFault> {
        if adds { check(&self.spec, self.manager) } else { check_name(&self.spec, self.manager) }
    }
}

/// Checks what is to be installed (tools.md 5): `name`, `@scope/name`, and a range.
fn check(spec: &str, manager: Packager) -> Result<(), ScriptFault> {
    let refuse = |why| Err(ScriptFault::Spec { spec: spec.chars().take(80).collect(), why });
    if spec.is_empty() || spec.len() > LONGEST {
        return refuse("1 to 214 characters");
    }
    let (name, range) = match manager {
        Packager::Npm => npm_parts(spec),
        Packager::Pip => pip_parts(spec),
    };
    if !is_name(name, manager) {
        return refuse(match manager {
            Packager::Npm => "a name or @scope/name, with @range if wanted; no flag, no path, no address",
            Packager::Pip => "a name, with ==version if wanted; no flag, no path, no address",
        });
    }
    if range.is_some_and(|range| !is_range(range)) {
        return refuse("its range may hold letters, digits, blanks and . ^ ~ * > < = ! | , - only");
    }
    Ok(())
}

/// Checks the name of what is to be removed.
fn check_name(name: &str, manager: Packager) -> Result<(), ScriptFault> {
    if name.len() <= LONGEST && is_name(name, manager) {
        return Ok(());
    }
    Err(ScriptFault::Spec { spec: name.chars().take(80).collect(), why: "a name alone, as list_packages shows it" })
}

fn npm_parts(spec: &str) -> (&str, Option<&str>) {
    // The first character may be the @ of a scope.
    match spec.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (spec.get(..at).unwrap_or_default(), spec.get(at + 1..)),
        None => (spec, None),
    }
}

fn pip_parts(spec: &str) -> (&str, Option<&str>) {
    match spec.find(['=', '<', '>', '!', '~']) {
        Some(at) => (spec.get(..at).unwrap_or_default(), spec.get(at..)),
        None => (spec, None),
    }
}

/// Whether this is the name of a package, and nothing a path could be made of.
pub(super) fn is_name(name: &str, manager: Packager) -> bool {
    match name.strip_prefix('@').filter(|_| manager == Packager::Npm) {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

fn is_part(text: &str) -> bool {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let starts = text.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    starts && text.bytes().all(kept)
}

fn is_range(range: &str) -> bool {
    let kept = |c: char| c.is_ascii_alphanumeric() || " _.^~*><=!|,-".contains(c);
    !range.trim().is_empty() && range.chars().all(kept)
}

/// Bytes of a specifier.
const LONGEST: usize = 214;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_taken_and_nothing_else() {
        for good in
            ["mqtt", "mqtt@5", "mqtt@^5.10.0", "@source-repo/rpc", "@source-repo/rpc@>=5 <6", "left_pad@1.x || 2.x"]
        {
            assert_eq!(check(good, Packager::Npm), Ok(()), "{good}");
        }
        for good in ["paho-mqtt", "paho-mqtt==2.1.0", "paho_mqtt>=2,<3", "x~=1.4"] {
            assert_eq!(check(good, Packager::Pip), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-g",
            "--global",
            "mqtt --global",
            "../x",
            "./x",
            "/etc/passwd",
            "a/b",
            "a/b/c",
            "@a",
            "@a/",
            "@/a",
            "@a/b/c",
            "@../b",
            "file:../x",
            "mqtt@file:../x",
            "git+https://x/y",
            "https://x/y.tgz",
            "mqtt@https://x",
            "npm:x",
            "mqtt@npm:x@1",
            "mqtt@",
            "mqtt@ ",
            ".hidden",
            "a\\b",
            "a;b",
            "a$(b)",
            "a\nb",
            "ä",
            "mqtt@1;x",
            "user/repo",
            "mqtt@#main",
        ] {
            assert!(check(bad, Packager::Npm).is_err(), "{bad:?}");
            assert!(check(bad, Packager::Pip).is_err(), "{bad:?}");
        }
        assert!(check(&"x".repeat(215), Packager::Npm).is_err());
        assert!(check_name("mqtt@5", Packager::Npm).is_err() && check_name("@a/b", Packager::Npm).is_ok());
        assert!(check_name("@a/b", Packager::Pip).is_err() && check_name("-r", Packager::Pip).is_err());
    }
}
