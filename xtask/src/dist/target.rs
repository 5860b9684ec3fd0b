//! The targets of a release, and what building for them needs: all static, and against musl.
//!
//! A static glibc would load the name services of whatever system it finds itself on, and die of their version; musl resolves
//! names by itself, from /etc/hosts and by DNS.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{find, first_line, run};
use crate::install;

/// One target.
pub(super) struct Target {
    pub(super) triple: &'static str,
    /// The C compiler, for what is C in the crates; of a foreign target it links too.
    compiler: &'static str,
    /// What brings the compiler, by Debian's names.
    packages: &'static [&'static str],
    /// What runs its programs here; nothing if this machine does.
    pub(super) emulator: Option<&'static str>,
    /// Debian's name of the machine, if its headers of musl have to be fetched: they are not where its compiler looks.
    foreign: Option<&'static str>,
}

pub(super) const TARGETS: [Target; 2] = [
    Target { triple: super::RUNTIME, compiler: "musl-gcc", packages: &["musl-tools"], emulator: None, foreign: None },
    Target {
        triple: "aarch64-unknown-linux-musl",
        compiler: "aarch64-linux-gnu-gcc",
        packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"],
        emulator: Some("qemu-aarch64-static"),
        foreign: Some("arm64"),
    },
];

/// The target of this name.
pub(super) fn named(triple: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.map(|target| target.triple).join(", ");
    TARGETS.iter().find(|target| target.triple == triple).ok_or_else(|| format!("--target is one of {}", known()))
}

/// What a build for a target is told.
pub(super) struct Toolchain {
    /// Set for cargo.
    pub(super) environment: Vec<(String, String)>,
    /// The licence of the C library that is linked.
    pub(super) musl_licence: PathBuf,
}

impl Target {
    /// Installs what is missing.
    pub(super) fn prepare(&self, dist: &Path) -> Result<Toolchain, String> {
        let programs = [Some(self.compiler), self.emulator];
        if programs.into_iter().flatten().any(|program| find(program).is_none()) {
            install::debian(self.packages)?;
        }
        run(Command::new("rustup").args(["--quiet", "target", "add", self.triple]))?;
        let mut flags = maps()?.iter().map(|map| format!("-ffile-prefix-map={map}")).collect::<Vec<_>>();
        let mut environment = vec![("CARGO_ENCODED_RUSTFLAGS".to_owned(), rust_flags()?)];
        let mut root = PathBuf::from("/");
        if let Some(machine) = self.foreign {
            root = headers(machine, dist, self.triple)?;
            flags.extend(self.includes(&root)?);
            let archiver = self.compiler.replace("-gcc", "-ar");
            environment.extend([
                (self.variable("CC"), self.compiler.to_owned()),
                (self.variable("AR"), archiver),
                // It needs no C library of its own: the target brings the one that is linked.
                (self.cargo_variable("LINKER"), self.compiler.to_owned()),
            ]);
        }
        environment.push((self.variable("CFLAGS"), flags.join(" ")));
        Ok(Toolchain { environment, musl_licence: root.join("usr/share/doc/musl-dev/copyright") })
    }

    /// The compiler's own headers and those of musl, and none of glibc.
    fn includes(&self, root: &Path) -> Result<[String; 3], String> {
        let own = first_line(self.compiler.as_ref(), &["-print-file-name=include"]);
        let own = own.ok_or_else(|| format!("{} does not say where its headers are", self.compiler))?;
        let machine = self.triple.split('-').next().unwrap_or_default();
        let musl = root.join(format!("usr/include/{machine}-linux-musl"));
        Ok(["-nostdinc".into(), format!("-isystem {own}"), format!("-isystem {}", musl.display())])
    }

    fn variable(&self, name: &str) -> String {
        format!("{name}_{}", self.triple.replace('-', "_"))
    }

    fn cargo_variable(&self, name: &str) -> String {
        format!("CARGO_TARGET_{}_{name}", self.triple.replace('-', "_").to_uppercase())
    }
}

/// The package musl-dev of another machine, unpacked: nothing of it is installed here. Lists of packages and whatever else apt
/// keeps stay below `dist` too.
fn headers(machine: &str, dist: &Path, triple: &str) -> Result<PathBuf, String> {
    let root = dist.join(format!("{triple}.headers"));
    if root.join("usr/include").is_dir() {
        return Ok(root);
    }
    let folder = dist.join(format!("{triple}.apt"));
    for part in ["state/lists/partial", "cache/archives/partial", "packages"] {
        install::create(&folder.join(part))?;
    }
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder.join("packages"));
        for setting in [
            format!("APT::Architecture={machine}"),
            format!("APT::Architectures={machine}"),
            format!("Dir::State={}", folder.join("state").display()),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Cache={}", folder.join("cache").display()),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            apt.args(["-o", &setting]);
        }
        run(apt.arg("-qq").args(words))
    };
    apt(&["update"])?;
    apt(&["download", "musl-dev"])?;
    for package in install::entries(&folder.join("packages"))? {
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    }
    Ok(root)
}

/// The names that compilers write for places of this machine, as `place=name`: what is shipped tells nobody where it was built.
pub(super) fn maps() -> Result<Vec<String>, String> {
    let mut maps: Vec<String> = crate_folders()?.iter().map(|folder| format!("{}=/crates", folder.display())).collect();
    maps.push(format!("{}=/plantbridge", install::repository().display()));
    Ok(maps)
}

/// Where cargo unpacks crates, one folder a registry.
fn crate_folders() -> Result<Vec<PathBuf>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).ok_or("there is no home folder")?;
    install::entries(&home.join("registry/src"))
}

/// That of .cargo/config.toml, which this replaces, and the names of places.
fn rust_flags() -> Result<String, String> {
    let maps = maps()?.into_iter().map(|map| format!("--remap-path-prefix={map}"));
    let flags = std::iter::once("-Csymbol-mangling-version=v0".to_owned()).chain(maps);
    Ok(flags.collect::<Vec<_>>().join("\u{1f}"))
}
