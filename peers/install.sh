#!/usr/bin/env bash
# Installs the C libraries that the peers are linked against: RocksDB from the Maven package
# org.rocksdb:rocksdbjni, whose native library has the C interface, into peers/lib; LevelDB from Debian's
# or Ubuntu's packages; with --faster also what FASTER includes. Does nothing where all is there.
set -eu

rocksdb_version=11.8.1
rocksdb_file=librocksdbjni-linux64.so
rocksdb_sha256=265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d
# Where the library goes, and a library to take in place of the registry's.
lib=${PEERS_LIB:-$(dirname "$0")/lib}
given=${ROCKSDB_LIBRARY:-}

die() { echo "peers/install.sh: $*" >&2; exit 1; }

sum() { sha256sum "$1" | cut -d ' ' -f 1; }

# Puts the file $1 into place if its checksum is right.
place_rocksdb() {
  local found
  found=$(sum "$1")
  [ "$found" = "$rocksdb_sha256" ] ||
    die "$1 is not RocksDB $rocksdb_version: its SHA-256 is $found, want $rocksdb_sha256"
  mkdir -p "$lib"
  # Under its name it is there whole or not at all.
  cp "$1" "$lib/$rocksdb_file.partial"
  mv "$lib/$rocksdb_file.partial" "$lib/$rocksdb_file"
}

install_rocksdb() {
  if [ -n "$given" ]; then
    [ -f "$given" ] || die "ROCKSDB_LIBRARY: no file $given"
    place_rocksdb "$given"
    return
  fi
  if [ -f "$lib/$rocksdb_file" ] && [ "$(sum "$lib/$rocksdb_file")" = "$rocksdb_sha256" ]; then
    return
  fi
  local package=org.rocksdb:rocksdbjni:$rocksdb_version help
  help="get $rocksdb_file out of the Maven package $package and name it in ROCKSDB_LIBRARY"
  command -v mvn >/dev/null || die "no mvn here: install Maven, or $help"
  echo "peers/install.sh: fetching $package"
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  # Outside of any project, so that no pom.xml is read.
  (cd "$unpacked" && mvn -q -B dependency:unpack "-Dartifact=$package" \
    "-DoutputDirectory=$unpacked" "-Dmdep.unpack.includes=$rocksdb_file" </dev/null >&2) ||
    die "the registry cannot be reached: $help"
  [ -f "$unpacked/$rocksdb_file" ] || die "$package has no $rocksdb_file: $help"
  place_rocksdb "$unpacked/$rocksdb_file"
}

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
  die "RocksDB's library is for Linux on x86_64, and this is $(uname -s) on $(uname -m)"
install_rocksdb

missing=()
[ -e /usr/include/leveldb/c.h ] || missing+=(libleveldb-dev)
# heed compiles LMDB's two C files by itself, and jemalloc is compiled with make.
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)
if [ "${1:-}" = --faster ]; then
    command -v c++ >/dev/null || missing+=(g++)
    [ -e /usr/include/uuid/uuid.h ] || missing+=(uuid-dev)
    [ -e /usr/include/tbb/version.h ] || missing+=(libtbb-dev)
    [ -e /usr/include/libaio.h ] || missing+=(libaio-dev)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "peers/install.sh: no apt-get here. Install by your own system's means: header and library" >&2
    die "of LevelDB's C interface (1.23), a C compiler and make"
fi
root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "no root and no sudo; have root run: apt-get install ${missing[*]}"
    root=(sudo)
fi
echo "peers/install.sh: installing ${missing[*]}"
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
