#!/usr/bin/env bash
# Installs the C libraries that the peers are linked against, from Debian's or Ubuntu's packages; with
# --faster also those of FASTER. Does nothing where they are there already.
set -eu

missing=()
[ -e /usr/include/rocksdb/c.h ] || missing+=(librocksdb-dev)
[ -e /usr/include/leveldb/c.h ] || missing+=(libleveldb-dev)
# heed compiles LMDB's two C files by itself.
command -v cc >/dev/null || missing+=(gcc libc6-dev)
if [ "${1:-}" = --faster ]; then
    command -v c++ >/dev/null || missing+=(g++)
    [ -e /usr/include/uuid/uuid.h ] || missing+=(uuid-dev)
    [ -e /usr/include/tbb/version.h ] || missing+=(libtbb-dev)
    [ -e /usr/include/libaio.h ] || missing+=(libaio-dev)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "peers/install.sh: no apt-get here. Install by your own system's means: headers and" >&2
    echo "libraries of the C interfaces of RocksDB (7.8 or newer) and LevelDB (1.23), and a C compiler." >&2
    exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "peers/install.sh: no root and no sudo; have root run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    root=(sudo)
fi
echo "peers/install.sh: installing ${missing[*]}"
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
