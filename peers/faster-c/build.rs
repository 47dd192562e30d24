//! Compiles the shim and the parts of FASTER that are not templates.
//!
//! The C++ source is in the package `libfaster-sys`, which cargo downloads.
//! `peers/install.sh --faster` installs the headers that they include.

use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

fn main() {
    let source = source();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=source/Cargo.toml");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++14").opt_level(3).debug(false).warnings(false).include(&source);
    // Headers of its time found these by others.
    build.flag("-include").flag("cstring").flag("-include").flag("stdexcept").flag("-fpermissive");
    for file in
        ["core/address.cc", "core/lss_allocator.cc", "core/thread.cc", "environment/file_linux.cc"]
    {
        build.file(source.join(file));
    }
    build.file("shim/shim.cc").compile("faster_shim");
    for library in ["stdc++fs", "uuid", "tbb", "aio", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// The directory of FASTER's C++ source.
fn source() -> PathBuf {
    let metadata = MetadataCommand::new()
        .manifest_path("source/Cargo.toml")
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo downloads the package that brings FASTER's source");
    let package = metadata.packages.iter().find(|package| package.name.as_str() == "libfaster-sys");
    let manifest = &package.expect("source/Cargo.toml names it").manifest_path;
    manifest.parent().map(|dir| Path::new(dir).join("FASTER/cc/src")).expect("a file's directory")
}
