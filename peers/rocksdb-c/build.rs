//! Links the library that `peers/install.sh` puts into `peers/lib`, and lets programs find it
//! there.

use std::path::Path;

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's directory");
    let dir = Path::new(&dir).join("../lib");
    let dir = dir.display();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-search=native={dir}");
    println!("cargo::rustc-link-lib=dylib=rocksdbjni-linux64");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
    println!("cargo::metadata=dir={dir}");
}
