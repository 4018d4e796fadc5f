#!/bin/sh
# The same agent by pull: asks for one job, runs agent.sh, and says how it went. Put it in a loop to have a worker.
# It sends no heartbeat, so the lease must outlast the work.
set -u

post() {
    curl -sS -m 60 -f -X POST "$WAKEPOST_URL/api/v1/$1" \
        -H "Authorization: Bearer $WAKEPOST_KEY" -H 'Content-Type: application/json' -d "$2"
}

leased=$(post jobs/lease '{"worker":"shell","kinds":["greet"],"wait_s":10,"lease_s":120}') || exit 1
# One job was asked for, so each of these is there once.
WAKEPOST_JOB_ID=$(printf '%s' "$leased" | sed -n 's/.*"id":"\(job_[0-9A-Z]*\)".*/\1/p')
WAKEPOST_LEASE_TOKEN=$(printf '%s' "$leased" | sed -n 's/.*"lease_token":"\([^"]*\)".*/\1/p')
[ -n "$WAKEPOST_JOB_ID" ] || exit 0 # nothing to do
export WAKEPOST_JOB_ID WAKEPOST_LEASE_TOKEN

token="\"lease_token\":\"$WAKEPOST_LEASE_TOKEN\""
result=$(printf '%s' "$leased" | sh "$(dirname "$0")/agent.sh")
case $? in
0) if [ -n "$result" ]; then post "jobs/$WAKEPOST_JOB_ID/complete" "{$token,\"result\":$result}"; fi ;;
65) post "jobs/$WAKEPOST_JOB_ID/fail" "{$token,\"error\":\"the job names nobody\",\"retryable\":false}" ;;
*) post "jobs/$WAKEPOST_JOB_ID/fail" "{$token,\"error\":\"the agent failed\"}" ;;
esac
