//! The dependency policy of `deny.toml`, applied to `cargo metadata` without the network.
//!
//! It checks the same rules as `cargo deny check bans licenses sources`, for a machine without
//! cargo-deny: building that takes longer than all other checks together. One file of rules serves
//! both. Only cargo-deny checks the advisory database, which is online.
//!
//! It reads all four workspaces: the shipped one, the fuzz targets, the peers and the cases.
//!
//! 1. Every package's licence expression must be satisfiable with the allowed licences.
//! 2. Every package must come from crates.io or from this repository.
//! 3. No banned package, and no two versions of one package unless its reason is written down. (Of
//!    the last two workspaces nothing is shipped, so there versions may differ.)

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::Findings;

/// The rules of `deny.toml` that are judged here.
struct Policy {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    twice: BTreeSet<String>,
    registries: BTreeSet<String>,
}

/// The workspace that is shipped.
const SHIPPED: &str = "Cargo.toml";
/// The platform that it is shipped for. Packages that only other platforms need are left out.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The workspaces that are not.
const OTHERS: [&str; 3] = ["fuzz/Cargo.toml", "peers/Cargo.toml", "cases/Cargo.toml"];

/// Judges the packages that the workspaces resolve to.
pub(crate) fn check() -> Findings {
    let policy = read_policy()?;
    let mut findings = Vec::new();
    for manifest in [SHIPPED].into_iter().chain(OTHERS) {
        check_workspace(manifest, &policy, &mut findings)?;
    }
    Ok(findings)
}

fn check_workspace(
    manifest: &str,
    policy: &Policy,
    findings: &mut Vec<String>,
) -> Result<(), String> {
    let metadata = metadata(manifest)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let version = package["version"].as_str().unwrap_or_default();
        versions.entry(name).or_default().insert(version);
        judge(package, name, version, policy, findings);
    }
    for (name, versions) in versions {
        if manifest == SHIPPED && versions.len() > 1 && !policy.twice.contains(name) {
            let list: Vec<_> = versions.into_iter().collect();
            findings.push(format!(
                "{name} is there in versions {}: unify them, or add it to [bans].skip with a reason",
                list.join(" and ")
            ));
        }
    }
    Ok(())
}

fn judge(package: &Value, name: &str, version: &str, policy: &Policy, findings: &mut Vec<String>) {
    if policy.banned.contains(name) {
        findings.push(format!("{name} {version} is banned by deny.toml"));
    }
    if let Some(source) = package["source"].as_str()
        && !policy.registries.contains(source.trim_start_matches("registry+"))
    {
        findings.push(format!("{name} {version} comes from {source}, which is not allowed"));
    }
    match package["license"].as_str() {
        None => findings.push(format!("{name} {version} declares no licence")),
        Some(expression) if !satisfied(expression, &policy.licences) => {
            findings.push(format!("{name} {version}: licence {expression} is not allowed"));
        }
        Some(_) => {}
    }
}

/// Whether an SPDX expression can be met with `allowed`: OR binds looser than AND.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut good = all_of(rest, allowed);
    while let Some((&"OR", after)) = rest.split_first() {
        *rest = after;
        good |= all_of(rest, allowed);
    }
    good
}

fn all_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut good = one(rest, allowed);
    while let Some((&"AND", after)) = rest.split_first() {
        *rest = after;
        good &= one(rest, allowed);
    }
    good
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let Some((&first, after)) = rest.split_first() else { return false };
    *rest = after;
    if first == "(" {
        let good = any_of(rest, allowed);
        if let Some((&")", after)) = rest.split_first() {
            *rest = after;
        }
        return good;
    }
    if let [with, exception, after @ ..] = *rest
        && *with == "WITH"
    {
        *rest = after;
        return allowed.contains(first) || allowed.contains(&format!("{first} WITH {exception}"));
    }
    allowed.contains(first)
}

fn metadata(manifest: &str) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--all-features"])
        .args(["--filter-platform", PLATFORM, "--manifest-path", manifest])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn read_policy() -> Result<Policy, String> {
    let text =
        std::fs::read_to_string("deny.toml").map_err(|error| format!("deny.toml: {error}"))?;
    let rules: toml::Table =
        toml::from_str(&text).map_err(|error| format!("deny.toml: {error}"))?;
    let list = |section: &str, key: &str| -> BTreeSet<String> {
        let entries = rules.get(section).and_then(|section| section.get(key));
        let entries = entries.and_then(toml::Value::as_array).into_iter().flatten();
        // An entry is a plain string, or a table whose `crate` is "name" or "name@version".
        let name = |entry: &toml::Value| {
            let name = entry.as_str().or_else(|| entry.get("crate")?.as_str())?;
            Some(name.split('@').next().unwrap_or(name).to_owned())
        };
        entries.filter_map(name).collect()
    };
    Ok(Policy {
        licences: list("licenses", "allow"),
        banned: list("bans", "deny"),
        twice: list("bans", "skip"),
        registries: list("sources", "allow-registry"),
    })
}
