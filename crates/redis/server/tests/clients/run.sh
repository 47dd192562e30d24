#!/usr/bin/env bash
# Real clients against `thermocline serve`: redis-cli, redis-benchmark, redis-py's own tests, node-redis.
# Installs what is missing into ./.tools, starts a server on a free port in a directory of its own,
# ends only what it started, and prints `N passed, N failed` last.
#
# BINARY=path is the `thermocline` to test; without it the release build's is, which is built first.
# CLUSTER=1 tests `thermocline cluster dev` instead of `serve`.
# SERVE='command' serves something else than the built binary: it gets DIR and ADDRESS behind it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../../.." && pwd)
tools="$root/.tools"
redis_py=5.2.1
node_redis=4.7.0
mkdir -p "$tools"

say() { printf '%s\n' "$*" >&2; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
need() {
  command -v "$1" >/dev/null && return
  say "installing $2"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

need redis-cli redis-tools
need python3 python3
need npm npm

if [ ! -x "$tools/redis-py/venv/bin/pytest" ]; then
  say "installing redis-py $redis_py and its tests"
  rm -rf "$tools/redis-py"; mkdir -p "$tools/redis-py"
  python3 -m venv "$tools/redis-py/venv" 2>/dev/null || { need virtualenv python3-venv; python3 -m venv "$tools/redis-py/venv"; }
  pip="$tools/redis-py/venv/bin/pip"
  "$pip" -q download --no-deps --no-binary :all: "redis==$redis_py" -d "$tools/redis-py"
  tar -xf "$tools/redis-py/redis-$redis_py.tar.gz" -C "$tools/redis-py"
  "$pip" -q install pytest pytest-asyncio packaging mock "$tools/redis-py/redis-$redis_py"
fi
if [ ! -d "$tools/node/node_modules/redis" ]; then
  say "installing node-redis $node_redis"
  mkdir -p "$tools/node"
  npm install --silent --no-audit --no-fund --prefix "$tools/node" "redis@$node_redis" >/dev/null
fi

work=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
if [ -n "${SERVE:-}" ]; then
  $SERVE "$work/data" "127.0.0.1:$port" >"$work/log" 2>&1 &
else
  if [ -z "${BINARY:-}" ]; then
    (cd "$root" && cargo build -q --release --locked -p thermocline-cli)
    BINARY="$root/target/release/thermocline"
  fi
  if [ -n "${CLUSTER:-}" ]; then
    "$BINARY" cluster dev --data "$work/data" --port "$port" >"$work/log" 2>&1 &
  else
    "$BINARY" serve --dir "$work/data" --port "$port" >"$work/log" 2>&1 &
  fi
fi
server=$!
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -p "$port" ping >/dev/null || { cat "$work/log" >&2; say "the server does not answer"; exit 1; }

passed=0 failed=0
count() { passed=$((passed + $1)); failed=$((failed + $2)); }
# expect NAME WANT COMMAND...: the command's output is WANT.
expect() {
  local name=$1 want=$2 got; shift 2
  got=$("$@" 2>&1) || true
  if [ "$got" = "$want" ]; then count 1 0; else count 0 1; say "FAILED $name: got '$got', want '$want'"; fi
}

say "--- redis-cli"
cli=(redis-cli -p "$port")
expect set OK "${cli[@]}" set greeting hello
expect get hello "${cli[@]}" get greeting
expect resp3 hello "${cli[@]}" -3 get greeting
expect pipe "errors: 0, replies: 2" bash -c "printf 'SET p 1\r\nINCR p\r\n' | redis-cli -p $port --pipe | tail -1"
expect stdin hello bash -c "printf hello | redis-cli -p $port -x set from-stdin >/dev/null; redis-cli -p $port get from-stdin"
expect scan 3 bash -c "redis-cli -p $port --scan | wc -l | tr -d ' '"
expect database "" "${cli[@]}" -n 3 get greeting
expect error "ERR unknown command 'lpush', with args beginning with: 'l' 'x' " "${cli[@]}" lpush l x
expect flushall OK "${cli[@]}" flushall

say "--- redis-benchmark"
bench=$(redis-benchmark -p "$port" -t ping,set,get,incr,mset -n 20000 -c 50 -P 16 -q --csv 2>&1) || true
lines=$(printf '%s\n' "$bench" | grep -c '^"\(PING\|SET\|GET\|INCR\|MSET\)' || true)
if [ "$lines" = 6 ]; then count 1 0; else count 0 1; say "FAILED redis-benchmark: $bench"; fi
"${cli[@]}" flushall >/dev/null

say "--- node-redis"
if NODE_PATH="$tools/node/node_modules" node "$here/smoke.js" "$port" >"$work/node" 2>&1; then
  count "$(grep -c '^ok' "$work/node")" 0
else
  cat "$work/node" >&2; count "$(grep -c '^ok' "$work/node" || true)" 1
fi

# pytest's last line counts; what is deselected, and why, is in redis-py.txt.
redis_py_tests() {
  local protocol=$1 out="$work/redis-py-$1" deselected=()
  # The databases of a cluster are ranges: a command stays within one.
  if [ -n "${CLUSTER:-}" ]; then
    deselected=(--deselect tests/test_commands.py::TestRedisCommands::test_copy_to_another_database)
  fi
  say "--- redis-py's own tests, RESP$protocol"
  (cd "$tools/redis-py/redis-$redis_py" &&
    REDIS_PY_SELECTION="$here/redis-py.txt" PYTHONPATH="$here" timeout 800 \
      "$tools/redis-py/venv/bin/python" -m pytest -q -p selection -p no:cacheprovider -o asyncio_mode=auto \
      -W ignore -m "not onlycluster and not redismod and not ssl" \
      --redis-url "redis://127.0.0.1:$port/0" --protocol "$protocol" "${deselected[@]}" \
      tests/test_commands.py tests/test_pipeline.py tests/test_encoding.py) >"$out" 2>&1 || true
  grep -E '^(FAILED|ERROR)' "$out" >&2 || true
  local ok bad
  ok=$(tail -3 "$out" | awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^passed/) n += $(i - 1) } END { print n + 0 }')
  bad=$(tail -3 "$out" | awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^(failed|errors?)/) n += $(i - 1) } END { print n + 0 }')
  tail -1 "$out" >&2
  if [ "$ok" = 0 ]; then tail -20 "$out" >&2; bad=1; fi
  count "$ok" "$bad"
}
redis_py_tests 2
redis_py_tests 3

say "--- shutdown"
"${cli[@]}" shutdown >/dev/null 2>&1 || true
for _ in $(seq 100); do kill -0 "$server" 2>/dev/null || break; sleep 0.1; done
if wait "$server"; then count 1 0; else count 0 1; cat "$work/log" >&2; say "FAILED: the server did not end well"; fi
server=

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
