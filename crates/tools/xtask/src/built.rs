//! The test programs that cargo has built, by its messages.

use std::path::{Path, PathBuf};

/// The option of cargo that prints the messages, and errors of the compiler as text.
pub(crate) const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The crate's folder and the target's name.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder in which it runs, the one of its crate.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Returns the test program that a message of cargo says is built.
    pub(crate) fn of(message: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        let is_artifact = message.get("reason")? == "compiler-artifact";
        if !is_artifact || message.get("profile")?.get("test")? != true {
            return None;
        }
        let target = message.get("target")?;
        let kind = target.get("kind")?.get(0)?.as_str()?;
        let name = if kind == "test" { target.get("name")?.as_str()? } else { kind };
        let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
        let last = folder.file_name()?.to_str()?;
        // `path+file:///folder#name@version`, without the name if it is that of the folder.
        let (_, of_package) = message.get("package_id")?.as_str()?.split_once('#')?;
        Some(Self {
            package: of_package.split_once('@').map_or(last, |(package, _)| package).to_owned(),
            name: format!("{last} {name}"),
            path: message.get("executable")?.as_str()?.into(),
            folder: folder.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_the_messages_of_cargo() {
        let message = |test: bool, kind: &str, of: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/r/base/sync/Cargo.toml\",\
                 \"package_id\":\"path+file:///r/base/sync#{of}\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"all\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/r/target/all-1\"}}"
            )
        };
        let built = Program::of(&message(true, "test", "thermocline-sync@0.1.0"));
        let built = built.expect("a program");
        assert_eq!((&*built.name, &*built.package), ("sync all", "thermocline-sync"));
        assert_eq!(built.path, Path::new("/r/target/all-1"));
        assert_eq!(built.folder, Path::new("/r/base/sync"));
        let short = Program::of(&message(true, "lib", "0.1.0")).expect("a program");
        assert_eq!((&*short.name, &*short.package), ("sync lib", "sync"));
        assert_eq!(Program::of(&message(false, "bin", "0.1.0")), None);
        assert_eq!(Program::of("{\"reason\":\"build-finished\"}"), None);
    }
}
