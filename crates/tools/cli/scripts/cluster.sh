#!/usr/bin/env bash
# Starts a cluster on this machine, each component a process of its own: an etcd, two coordinators,
# five StoCs, three LTCs and a gateway. After a signal it ends the processes that it has started, and
# no others: first the gateway, then LTCs, StoCs, coordinators and the etcd.
#
# cluster.sh DIR: certificates, data and logs are below DIR. Another start with DIR continues with
# its data. BINARY=path is the `thermocline` to start, built with the feature `cluster`.
set -euo pipefail

binary=${BINARY:?names the program thermocline}
dir=${1:?names the directory of the cluster}
coordinators=2 stocs=5 ltcs=3
# Memory of the ranges of each LTC.
ltc_memory=256mb
# The numbered database 0 of Redis clients, and the keys between its ranges.
keyspace=redis-0
splits=(5 a h o v)
# Seconds that a process has to serve, and to end.
serve_max=90 end_max=60

say() { printf '%s\n' "$*" >&2; }
die() { say "cluster: $*"; exit 1; }

[ ! -e "$dir/CLUSTER" ] || die "$dir is a cluster of \`thermocline cluster dev\`: name another directory"
mkdir -p "$dir/logs"
dir=$(cd "$dir" && pwd)
logs=$dir/logs
# The processes have the lock too: it is held while any of them runs.
exec 9>"$dir/LOCK"
flock -n 9 || die "$dir is in use. Its processes are: $(xargs <"$dir/PIDS")"
: >"$dir/PIDS"

# --- processes -----------------------------------------------------------------------------------

# Those that run, by their order. A process that has ended has no entry in `pids`.
names=() pids=()
stopping=

# start NAME COMMAND...: in a process group of its own, so that Ctrl-C at the terminal ends no process
# out of order.
start() {
  local name=$1; shift
  [ ! -f "$logs/$name.log" ] || mv "$logs/$name.log" "$logs/$name.log.before"
  set -m
  "$@" </dev/null >"$logs/$name.log" 2>&1 &
  set +m
  names+=("$name")
  pids+=("$!")
  echo "$name $!" >>"$dir/PIDS"
}

# Waits for a moment. The script ends here alone after a signal: no process is missing in `pids` then.
pause() {
  sleep "${1:-0.1}" || true
  [ -z "$stopping" ] || exit 0
}

# failed NAME WHY: ends with the last lines of a log.
failed() {
  say "cluster: $1 $2. The end of $logs/$1.log:"
  tail -n 5 "$logs/$1.log" >&2
  exit 1
}

# serves NAME: whether the process says that it serves.
serves() {
  case "$1" in
    etcd) listens "$etcd_port" ;;
    *) grep -Eqs '^(process [0-9]+ is|serving cluster) ' "$logs/$1.log" ;;
  esac
}

# Waits until all processes that were started serve.
await_all() {
  local at left
  for at in "${!names[@]}"; do
    left=$((serve_max * 10))
    until serves "${names[at]}"; do
      kill -0 "${pids[at]}" 2>/dev/null || failed "${names[at]}" "has ended"
      [ "$left" -gt 0 ] || failed "${names[at]}" "does not serve after $serve_max s"
      left=$((left - 1))
      pause
    done
  done
}

# Forgets processes that have ended: their numbers may be those of others later.
forget_ended() {
  local at
  for at in "${!pids[@]}"; do
    kill -0 "${pids[at]}" 2>/dev/null && continue
    say "cluster: ${names[at]} (process ${pids[at]}) has ended: see $logs/${names[at]}.log"
    unset "pids[at]"
  done
}

# running ROLE: sets `found` to the places of the processes of a role that run.
running() {
  local at
  found=()
  for at in "${!pids[@]}"; do
    if [ "${names[at]%-*}" = "$1" ] && kill -0 "${pids[at]}" 2>/dev/null; then found+=("$at"); fi
  done
}

end_all() {
  trap '' INT TERM HUP
  local role at left
  [ ${#pids[@]} = 0 ] || say "cluster: ends its processes"
  for role in gateway ltc stoc coordinator etcd; do
    running "$role"
    for at in ${found[@]+"${found[@]}"}; do kill -TERM "${pids[at]}" 2>/dev/null || true; done
    left=$((end_max * 10))
    while running "$role"; [ ${#found[@]} -gt 0 ] && [ "$left" -gt 0 ]; do
      left=$((left - 1))
      sleep 0.1
    done
    for at in ${found[@]+"${found[@]}"}; do
      say "cluster: ${names[at]} does not end in $end_max s, and is killed"
      kill -KILL "${pids[at]}" 2>/dev/null || true
    done
  done
  : >"$dir/PIDS"
}

trap end_all EXIT
trap 'stopping=1' INT TERM HUP

# --- ports ---------------------------------------------------------------------------------------

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port FIRST: sets `port` to the first port from FIRST on at which nothing listens.
taken=" "
free_port() {
  port=$1
  while [[ $taken == *" $port "* ]] || listens "$port"; do port=$((port + 1)); done
  taken+="$port "
}

# --- the cluster ---------------------------------------------------------------------------------

free_port 2379; etcd_port=$port
free_port 2380; peer=http://127.0.0.1:$port
etcd=http://127.0.0.1:$etcd_port
addresses=()
for node in $(seq "$coordinators"); do free_port 7400; addresses+=("127.0.0.1:$port"); done
places=$(IFS=,; echo "${addresses[*]}")
free_port 6379; redis_port=$port
member=(--certificates "$dir/certs" --coordinators "$places")
admin() { "$binary" cluster "$@" "${member[@]}" </dev/null; }

"$binary" cluster certs "$dir/certs" --quiet
start etcd etcd --data-dir "$dir/etcd" \
  --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
  --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
await_all
for node in $(seq "$coordinators"); do
  start "coordinator-$node" "$binary" coordinator --node "$node" --address "${addresses[node - 1]}" \
    --etcd "$etcd" --data-dir "$dir/coordinator-$node" "${member[@]}"
done
await_all
for node in $(seq "$stocs"); do
  start "stoc-$node" "$binary" stoc --node "$node" --data-dir "$dir/stoc-$node" "${member[@]}"
done
await_all
for node in $(seq "$ltcs"); do
  start "ltc-$node" "$binary" ltc --node "$node" --memory "$ltc_memory" "${member[@]}"
done
await_all
start gateway "$binary" serve --cluster "$places" --certificates "$dir/certs" --port "$redis_port"
await_all

# Prints the ranges of the keyspace that are served: the number of each, and of its LTC.
served() {
  admin status 2>/dev/null |
    sed -n "s/^range \([0-9]*\) of keyspace $keyspace, .*: Serving at LTC \([0-9]*\), epoch .*/\1 \2/p"
}

# await_ranges TEST: waits until TEST is true of the ranges that are served, which are in `ranges`.
await_ranges() {
  local left=$((serve_max * 2))
  until ranges=$(served) && "$1"; do
    [ "$left" -gt 0 ] || die "the ranges of $keyspace are not served after $serve_max s: see $logs"
    left=$((left - 1))
    pause 0.5
  done
}

all_served() { [ "$(wc -l <<<"$ranges")" -gt ${#splits[@]} ]; }
all_own() { all_served && [ "$(cut -d ' ' -f 2 <<<"$ranges" | sort -u | wc -l)" = "$ltcs" ]; }

# An LTC that starts first may get all ranges, so they are moved until each LTC has some.
admin keyspace "$keyspace" "${splits[@]/#/--split-at=}" --quiet
await_ranges all_served
if ! all_own; then
  next=0
  while read -r range owner; do
    target=$((next % ltcs + 1))
    next=$((next + 1))
    if [ "$owner" != "$target" ]; then admin move "$range" --to "$target" --quiet; fi
  done <<<"$ranges"
  await_ranges all_own
fi

echo "a cluster of ${#pids[@]} processes below $dir:"
for at in "${!names[@]}"; do printf '  process %-8s %s\n' "${pids[at]:-ended}" "${names[at]}"; done
cat <<HELP
Connect, in another shell:
  redis-cli -p $redis_port set city Turin
  $binary cluster status ${member[*]}
  $binary bench run --engine nova:ranges=6 --cluster $places --certificates $dir/certs --workload rw50 --keys 100k --warmup 10
The logs are in $logs. Ctrl-C ends the processes, and the next start continues with the same data.
HELP
while true; do
  forget_ended
  pause 1
done
