#!/bin/sh
# Shows the shell agent at work: run by the server as a command, and the same agent by pull.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
program=${WAKEPOST_BIN:-$root/target/release/wakepost}
[ -x "$program" ] || program=${WAKEPOST_BIN:-$root/target/debug/wakepost}
if ! [ -x "$program" ]; then
    echo "there is no server: build it with \`cargo build --release\`, or name it by WAKEPOST_BIN" >&2
    exit 1
fi
program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")

# What would be a setting of the server: an example must not write into somebody's database.
unset DATABASE_URL WEBHOOK_BASE_URL APP_URL URL
for name in $(env | sed -n 's/^\(WAKEPOST_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done

work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || :; wait "$server" || :; fi; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

WAKEPOST_KEY=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export WAKEPOST_KEY TMPDIR="$work"
cd "$here"
: >"$work/log"
WAKEPOST_ADMIN_KEY=$WAKEPOST_KEY "$program" serve --listen 127.0.0.1:0 --data-dir "$work/data" >"$work/log" 2>&1 &
server=$!

# Runs a command until it prints something; gives up after half a minute.
wait_for() {
    tries=300
    until found=$("$@") && [ -n "$found" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "waited in vain for: $*" >&2; exit 1; }
        sleep 0.1
    done
}

api() {
    method=$1 path=$2
    shift 2
    curl -sS -m 60 -f -X "$method" "$WAKEPOST_URL/api/v1/$path" -H "Authorization: Bearer $WAKEPOST_KEY" \
        -H 'Content-Type: application/json' "$@"
}

succeeded() {
    api GET "jobs/$1" | sed -n '/"status":"succeeded"/s/.*"result":\({[^}]*}\).*/\1/p'
}

create() {
    api POST jobs -d "$1" | sed -n 's/.*"id":"\(job_[0-9A-Z]*\)".*/\1/p'
}

wait_for sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/log"
export WAKEPOST_URL="$found"
echo "the server listens on $WAKEPOST_URL"

job=$(create '{"kind":"greet","input":{"name":"Ada"},"executor":{"kind":"exec","name":"greet"}}')
echo "made $job, for the command"
wait_for succeeded "$job"
echo "the server ran agent.sh: $found"

job=$(create '{"kind":"greet","input":{"name":"Grace"}}')
echo "made $job, to be pulled"
sh pull.sh >/dev/null
wait_for succeeded "$job"
echo "pull.sh ran agent.sh: $found"

echo "greetings that went out:"
sed 's/^/  /' "$work/greetings.txt"
[ "$(wc -l <"$work/greetings.txt")" -eq 2 ]
