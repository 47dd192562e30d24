//! Lets the program find RocksDB's library in the place from which `rocksdb-c` has linked it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let dir = std::env::var("DEP_ROCKSDB_DIR").expect("rocksdb-c names its library's directory");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
}
