//! Key files on disk: read at the start, and made by `plantbridge keygen`, which also says what the fakes of a bridge are
//! listed with.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use zeroize::Zeroizing;

use super::{StartError, plain};
use crate::wire::{
    PeerName,
    signing::{KeyFile, Listed, Secret, Seed},
};

#[derive(Debug, Args)]
pub(super) struct KeygenArgs {
    /// The file to write, which must not exist; with --for-fake, the file of the bridge, which is read.
    #[arg(value_name = "KEYFILE")]
    file: PathBuf,
    /// The peer whose key it is: the name others list it under.
    #[arg(long, value_name = "PEER", required_unless_present = "for_fake")]
    name: Option<String>,
    /// Makes nothing, and prints what others list a fake of this name with that is started by the bridge of this key file. Of an
    /// HMAC key that is a secret.
    #[arg(long, value_name = "PEER", conflicts_with_all = ["name", "ed25519", "hmac"])]
    for_fake: Option<String>,
    /// A key pair: others get a public key and cannot sign with it. This is what is made unless --hmac is given.
    #[arg(long, conflicts_with = "hmac")]
    ed25519: bool,
    /// One secret, which others need too: for peers that know no key pairs. Whoever verifies with it can sign with it.
    #[arg(long)]
    hmac: bool,
}

/// What was asked for, as it is printed.
pub(super) fn run(args: &KeygenArgs) -> Result<String, StartError> {
    match (&args.for_fake, &args.name) {
        (Some(fake), _) => listed(args, fake),
        (None, Some(name)) => make(args, name),
        (None, None) => Err(StartError("keygen makes the key of a peer: give its --name".into())),
    }
}

/// The entry of a fake in the key files of others, and nothing beside it, so that it can be passed on.
fn listed(args: &KeygenArgs, fake: &str) -> Result<String, StartError> {
    let name = PeerName::configured(fake).map_err(|error| StartError(format!("--for-fake {fake:?}: {error}")))?;
    let keys = load(&args.file, &args.file.display())?;
    if keys.name.as_ref() == Some(&name) {
        return Err(StartError(format!(
            "--for-fake {fake:?}: that is the name of the bridge itself, whose key is in the file"
        )));
    }
    Ok(match keys.kin.key_of(&name).listed {
        Listed::Public(public) => json!({ name.as_str(): {"public": public.to_string()} }).to_string(),
        Listed::Secret(secret) => {
            eprint_line("what follows is a secret: whoever has it can sign as that fake");
            json!({ name.as_str(): secret.expose() }).to_string()
        }
    })
}

/// Makes a new key file, never over another one, and says what others need. A secret is written to the file alone.
fn make(args: &KeygenArgs, name: &str) -> Result<String, StartError> {
    let name = PeerName::configured(name).map_err(|error| StartError(format!("--name {name:?}: {error}")))?;
    let seed = Seed::new(*random()?);
    let path = args.file.display();
    let (file, said) = if args.hmac {
        let file = json!({"name": name.as_str(), "secret": seed.write().expose()});
        let said = format!(
            "{path} holds the secret of {name}. Others list {name} under `peers` with the same secret: carry it to their key \
             files, and through nothing that others read."
        );
        (file, said)
    } else {
        let public = seed.public().to_string();
        let file = json!({"name": name.as_str(), "ed25519": {"seed": seed.write().expose(), "public": public}});
        let entry = json!({name.as_str(): {"public": public}});
        (
            file,
            format!("{path} holds the key pair of {name}. Others list it under `peers` of their key files:\n\n{entry}"),
        )
    };
    let text = Secret::new(format!("{file:#}\n"));
    write_new(&args.file, text.expose().as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            StartError(format!("{path} exists, and a key is never written over another file"))
        }
        _ => StartError(format!("{path} cannot be written: {error}")),
    })?;
    Ok(format!(
        "{said}\n\nList the peers it believes under `peers` in {path}; without that it signs, and believes everybody."
    ))
}

/// Reads a key file. One that others can read is taken and warned about: the keys may be known already.
pub(super) fn read(path: &Path) -> Result<KeyFile, StartError> {
    load(path, &format_args!("--sign {}", path.display()))
}

fn load(path: &Path, named: &dyn std::fmt::Display) -> Result<KeyFile, StartError> {
    let wrong = |why: &dyn std::fmt::Display| StartError(format!("{named}: {why}"));
    let unreadable = |error: io::Error| wrong(&format_args!("cannot be read: {error}"));
    let file = plain::open(path).map_err(unreadable)?;
    if let Some(mode) = open_to_others(&file).map_err(unreadable)? {
        let shown = path.display();
        eprint_line(&format!(
            "{shown}: others of this machine can read it (mode {mode:o}); make it 0600, and new keys"
        ));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(wrong(&format_args!("is larger than {LARGEST_FILE} bytes, which no key file is")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(&"is not UTF-8"))?;
    let keys = KeyFile::parse(text).map_err(|error| wrong(&error))?;
    for place in &keys.short {
        eprint_line(&format!(
            "{}: `{place}` is a secret of fewer than 16 bytes, which can be guessed from one signed frame",
            path.display()
        ));
    }
    Ok(keys)
}

/// A warning of the start, before logging runs and whatever it is told to leave out.
fn eprint_line(text: &str) {
    // With standard error closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "plantbridge: {text}");
}

fn random() -> Result<Zeroizing<[u8; 32]>, StartError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|error| StartError(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// Writes a file that did not exist, for its owner alone from its first moment on. What cannot be written whole is removed.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key is of no use to anybody.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// The mode of a file that others than its owner can read or change, where the system knows such a thing.
#[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "elsewhere it has to ask the system"))]
fn open_to_others(file: &File) -> io::Result<Option<u32>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata()?.permissions().mode() & 0o777;
        Ok((mode & 0o077 != 0).then_some(mode))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Ok(None)
    }
}

/// How large a key file may be, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn args(file: PathBuf, hmac: bool) -> KeygenArgs {
        KeygenArgs { file, name: Some("oven".into()), for_fake: None, ed25519: false, hmac }
    }

    #[test]
    fn a_made_file_is_read_again_and_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        for hmac in [true, false] {
            let path = folder.path().join(format!("{hmac}.json"));
            let said = run(&args(path.clone(), hmac)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let keys = read(&path).unwrap();
            assert_eq!(keys.name.unwrap().as_str(), "oven");
            assert_eq!(keys.signer.kind(), if hmac { "HMAC-SHA256" } else { "Ed25519" });
            let file: serde_json::Value = serde_json::from_str(&text).unwrap();
            let secret = if hmac { &file["secret"] } else { &file["ed25519"]["seed"] };
            assert!(!said.contains(secret.as_str().unwrap()), "a secret was printed");
            if !hmac {
                assert!(said.contains(file["ed25519"]["public"].as_str().unwrap()), "{said}");
            }
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            }
            let refused = run(&args(path.clone(), hmac)).unwrap_err().0;
            assert!(refused.contains("exists"), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        assert!(read(&path).unwrap_err().0.contains("keys.json"));
        for (bytes, wanted) in [
            (&b"\xff"[..], "UTF-8"),
            (b"{}", "`secret`"),
            (&vec![b' '; usize::try_from(LARGEST_FILE).unwrap() + 1][..], "larger than"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let refused = read(&path).unwrap_err().0;
            assert!(refused.contains("keys.json") && refused.contains(wanted), "{refused}");
        }
        assert!(
            run(&args(folder.path().join("missing/keys.json"), false)).unwrap_err().0.contains("cannot be written")
        );
    }

    /// What others list is what the bridge's fake signs with: a key of its own, and never the bridge's.
    #[test]
    fn a_fake_is_listed_with_a_key_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for hmac in [true, false] {
            let path = folder.path().join(format!("{hmac}.json"));
            run(&args(path.clone(), hmac)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let asked =
                |fake: &str| run(&KeygenArgs { name: None, for_fake: Some(fake.into()), ..args(path.clone(), false) });
            let entry: serde_json::Value = serde_json::from_str(&asked("double").unwrap()).unwrap();
            let key = if hmac { &entry["double"] } else { &entry["double"]["public"] };
            assert!(!text.contains(key.as_str().unwrap()), "{entry}");
            let list = json!({"secret": "a secret of some length", "peers": entry}).to_string();
            assert_eq!(KeyFile::parse(&list).unwrap().peers.unwrap().len(), 1, "others can read it");
            assert!(asked("oven").unwrap_err().0.contains("the bridge itself"));
            assert!(asked("a/b").unwrap_err().0.contains("--for-fake"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the file is only read");
        }
        assert!(run(&KeygenArgs { name: None, ..args(folder.path().join("x"), false) }).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_noticed() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true)] {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_to_others(file.as_file()).unwrap().is_some(), open, "{mode:o}");
        }
    }
}
