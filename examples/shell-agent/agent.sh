#!/bin/sh
# A shell agent: greets whom its job names, once. The job is on standard input, its id and lease in the environment.
# What it prints is the result, what it writes to standard error is progress, its exit code says how it went.
set -u

job=$(cat)
# Good enough for a plain name in a job of our own making. For anything else, use a JSON parser.
name=$(printf '%s' "$job" | sed -n 's/.*"input":{"name":"\([A-Za-z ]*\)"}.*/\1/p')
if [ -z "$name" ]; then
    echo "the job names nobody" >&2
    exit 65 # 64 to 78 are final: no retry finds a name
fi

# Calls about this job need its lease, and the key that Wakepost gave us for it.
call() {
    curl -sS -m 30 --retry 5 --retry-all-errors -f -X POST "$WAKEPOST_URL/api/v1/jobs/$WAKEPOST_JOB_ID/$1" \
        -H "Authorization: Bearer $WAKEPOST_KEY" -H 'Content-Type: application/json' \
        -d "{\"lease_token\":\"$WAKEPOST_LEASE_TOKEN\"$2}"
}

# Ask before what must not happen twice, and say afterwards that it did.
decision=$(call effects ',"key":"greeting"') || exit 75 # try again later
case $decision in
*'"decision":"execute"'*)
    echo "greeting $name" >&2
    echo "Hello, $name!" >>"${TMPDIR:-/tmp}/greetings.txt" || exit 75 # left in doubt: a person looks
    call effects/greeting/commit '' >/dev/null || exit 75
    ;;
*'"decision":"skip"'*)
    echo "$name was greeted by an earlier run" >&2
    ;;
*)
    exit 0 # in doubt, or to be approved: this run has ended, and a person decides
    ;;
esac
printf '{"greeted":"%s"}\n' "$name"
