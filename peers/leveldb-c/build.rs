//! Links the system's library; `peers/install.sh` installs it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-lib=dylib=leveldb");
}
