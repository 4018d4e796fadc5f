-- Ids are 16 bytes and sort by time (sources' are random). Times are Unix milliseconds.
-- State codes: 0 pending, 1 scheduled, 2 retrying | 3 awaiting_approval, 4 held | 5 running
--              | 6 succeeded, 7 cancelled, 8 dead_letter.

CREATE TABLE tenants (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  settings TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

INSERT INTO tenants (id, slug, settings, created_at)
VALUES (1, 'default', '{"name":"Default"}', CAST(unixepoch('subsec') * 1000 AS INTEGER));

CREATE TABLE data_keys (
  id INTEGER PRIMARY KEY,
  tenant INTEGER NOT NULL UNIQUE,    -- 0: the server itself
  master BLOB NOT NULL,              -- names the master key that wraps it
  wrapped BLOB NOT NULL
) STRICT;

CREATE TABLE keys (
  id BLOB PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  tenant INTEGER,                    -- null: all tenants
  role INTEGER NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  last_used_at INTEGER,
  revoked_at INTEGER,
  rate_per_s REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  provider TEXT NOT NULL,
  config TEXT NOT NULL,
  secrets BLOB NOT NULL,             -- sealed
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sources_by_tenant ON sources (tenant, created_at, id);

-- Requests that were kept to be sent again; until somebody deletes them.
CREATE TABLE fixtures (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  name TEXT NOT NULL,
  provider TEXT NOT NULL,
  type TEXT NOT NULL,
  event_id BLOB NOT NULL,            -- which it was; it may be gone
  body_bytes INTEGER NOT NULL,
  content BLOB NOT NULL,             -- sealed headers and body
  UNIQUE (tenant, name)
) STRICT;
CREATE INDEX fixtures_by_tenant ON fixtures (tenant, id);
-- What the server itself keeps of a source, apart from what people set.
CREATE TABLE source_states (
  source BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  registration BLOB,                 -- sealed: what set-up made at the provider
  expires_at INTEGER,                -- when that ends unless it is renewed
  renew_at INTEGER,                  -- when somebody should renew it
  position BLOB,                     -- sealed: how far the provider's changes were read
  version INTEGER NOT NULL DEFAULT 0 -- how often the position moved
) STRICT, WITHOUT ROWID;
CREATE INDEX source_states_due ON source_states (renew_at) WHERE renew_at IS NOT NULL;

CREATE TABLE lanes (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE,          -- hash of everything below
  tenant INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  origin BLOB,
  name TEXT NOT NULL,
  executor TEXT,
  shut_until INTEGER NOT NULL DEFAULT 0 -- until then nothing of it is handed out
) STRICT;
CREATE INDEX lanes_by_tenant ON lanes (tenant);

-- Small columns only, so that lists never read a body. Clustered by tenant, newest last.
CREATE TABLE events (
  tenant INTEGER NOT NULL,
  id BLOB NOT NULL,
  source BLOB NOT NULL,
  type TEXT NOT NULL,
  dedup_key TEXT NOT NULL,
  route INTEGER NOT NULL,            -- 0 job, 1 ignored, 2 unmapped, 3 joined, 4 published
  verified INTEGER NOT NULL,
  subject TEXT,
  occurred_at INTEGER,
  payload_hash BLOB NOT NULL,
  duplicates INTEGER NOT NULL,
  remote_addr TEXT,
  latency_us INTEGER NOT NULL,
  body_id BLOB,                      -- where the body is, if the request told of several events
  part INTEGER,                      -- and which of them this is
  signature INTEGER,                 -- its hash, where it covers a time
  thread TEXT,                       -- the conversation it belongs to
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
-- Only events that share a body with others.
CREATE INDEX events_sharing ON events (body_id) WHERE body_id IS NOT NULL;
-- Only what was published: lists of that look past what was received.
CREATE INDEX events_published ON events (tenant, id) WHERE route = 4;
CREATE INDEX events_by_thread ON events (tenant, thread, id) WHERE thread IS NOT NULL;

-- Apart from events: kept for less long. An ordinary table, since rows are large and arrive in order.
CREATE TABLE bodies (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  content BLOB NOT NULL              -- sealed headers and body
) STRICT;

-- The key is a hash over tenant, source and the provider's id. Expired rows are found by walking the
-- table in small steps, which saves an index on every accept.
CREATE TABLE dedup_keys (
  key BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  event_id BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  source BLOB NOT NULL,
  event_id BLOB,                     -- null: rejected
  remote_addr TEXT,
  verdict INTEGER NOT NULL,
  latency_us INTEGER NOT NULL,
  detail TEXT,
  evidence TEXT                      -- of a duplicate, as JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_by_event ON receipts (event_id, id) WHERE event_id IS NOT NULL;
CREATE INDEX receipts_by_source ON receipts (source, id);
-- Only the latest of these are kept, however many duplicates lie between them.
CREATE INDEX receipts_refused ON receipts (source, id) WHERE event_id IS NULL;

-- Live work of all kinds: small rows, no bodies. A finished item moves to work_done.
CREATE TABLE work (
  tenant INTEGER NOT NULL,
  id BLOB NOT NULL,
  kind INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  state INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  event_id BLOB,
  scope BLOB NOT NULL,
  subject TEXT,
  order_key BLOB,                    -- hash: items that share it run one at a time, in order
  behind INTEGER NOT NULL DEFAULT 0, -- 1: an earlier item of its order key lives
  meta TEXT,
  held_reason INTEGER,
  last_error TEXT,
  worker TEXT,
  started_at INTEGER,
  lease_expires_at INTEGER,
  run_deadline INTEGER,
  cancel_at INTEGER,                 -- when a stop was asked for
  caps TEXT,                         -- the counters this running item holds, separated by spaces
  place INTEGER NOT NULL DEFAULT 9223372036854775807, -- its number within its order key; the largest: none
  coalesce_key BLOB,                 -- hash: a newer one supersedes it while it waits
  gathers_until INTEGER,             -- how long messages that join it may put it off
  cancel_key BLOB,                   -- hash: an event about the same subject may cancel it
  callback_lane INTEGER,             -- where what tells its outcome will wait, which its end makes
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_ready ON work (lane, run_at, id) WHERE state <= 2 AND behind = 0;
CREATE INDEX work_timers ON work (run_at, lane) WHERE state IN (1, 2) AND behind = 0;
-- Of each order key one item is not behind another. Only that one can be claimed.
CREATE UNIQUE INDEX work_head ON work (order_key) WHERE order_key IS NOT NULL AND behind = 0;
CREATE INDEX work_behind ON work (order_key, place, id) WHERE behind = 1;
CREATE INDEX work_coalescing ON work (coalesce_key) WHERE coalesce_key IS NOT NULL;
-- Only live work that an event may cancel, which is little: events look here, and the usual look finds nothing.
CREATE INDEX work_cancelling ON work (cancel_key) WHERE cancel_key IS NOT NULL;
CREATE INDEX work_running ON work (lease_expires_at) WHERE state = 5;
CREATE INDEX work_stopping ON work (cancel_at) WHERE cancel_at IS NOT NULL;
-- The deliveries of a webhook.
CREATE INDEX work_deliveries ON work (lane, id) WHERE kind = 1;
-- Only items after an event's first, deliveries, and only replays: the usual item is in neither.
CREATE INDEX work_again ON work (event_id) WHERE event_id <> id;
CREATE INDEX work_shared ON work (scope) WHERE scope <> id;

CREATE TABLE work_done (
  tenant INTEGER NOT NULL,
  id BLOB NOT NULL,
  kind INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  state INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  event_id BLOB,
  scope BLOB NOT NULL,
  subject TEXT,
  order_key BLOB,
  meta TEXT,
  last_error TEXT,
  worker TEXT,
  started_at INTEGER,
  finished_at INTEGER NOT NULL,
  replayed_as BLOB,
  callback_lane INTEGER,
  purged_by BLOB,                    -- the operation that purged it: its row is all that is left
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
-- The deliveries of a webhook; with their states, which are counted.
CREATE INDEX work_done_deliveries ON work_done (lane, id, state) WHERE kind = 1;
-- Only items after an event's first, deliveries, and only replays: the usual item is in neither.
CREATE INDEX work_done_again ON work_done (event_id) WHERE event_id <> id;
CREATE INDEX work_done_shared ON work_done (scope) WHERE scope <> id;
CREATE INDEX work_done_dead ON work_done (tenant, id) WHERE state = 8;
-- Those that nobody dealt with yet.
CREATE INDEX work_done_open ON work_done (tenant, id)
  WHERE state = 8 AND replayed_as IS NULL AND purged_by IS NULL;

-- The events of an item after its first, in the order they joined it. A replay has them too.
CREATE TABLE joined (
  work_id BLOB NOT NULL,
  place INTEGER NOT NULL,
  tenant INTEGER NOT NULL,
  event_id BLOB NOT NULL,
  PRIMARY KEY (work_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX joined_by_event ON joined (event_id, work_id);

-- Threads that the agent takes part in. The key is a hash over tenant, source and thread.
CREATE TABLE threads (
  key BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The numbers of order keys whose events are numbered.
CREATE TABLE sequences (
  key BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  next INTEGER NOT NULL,
  begun INTEGER,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Runs that ended, but for those that succeeded: work_done tells of them, and saves their row.
CREATE TABLE attempts (
  work_id BLOB NOT NULL,
  fence INTEGER NOT NULL,
  tenant INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  worker TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  error TEXT,
  detail BLOB,                       -- sealed: how exactly it went
  PRIMARY KEY (work_id, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_state (
  work_id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  input BLOB,                        -- sealed, as are the next three
  checkpoint BLOB,
  result BLOB,
  reply BLOB,
  cost REAL,                         -- of all its runs
  scheduled_for INTEGER              -- the tick of the schedule that made the job
) STRICT;

CREATE TABLE effects (
  scope BLOB NOT NULL,
  key TEXT NOT NULL,
  tenant INTEGER NOT NULL,
  state INTEGER NOT NULL,            -- 0 begun, 1 committed, 2 aborted, 3 proposed, 4 approved, 5 rejected
  work_id BLOB NOT NULL,
  fence INTEGER NOT NULL,
  begun_nth INTEGER NOT NULL,        -- its place among all changes of its scope, which streams go by
  resolved_nth INTEGER,
  description TEXT,
  result BLOB,                       -- sealed
  error TEXT,
  begun_at INTEGER NOT NULL,
  resolved_at INTEGER,
  proposal_hash BLOB,                -- what exactly was proposed
  expires_at INTEGER,                -- until when that, or its approval, is good
  undecided_until INTEGER,           -- the same, while a person must decide
  decided_by TEXT,
  decided_at INTEGER,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
-- Only what a person must decide on.
CREATE INDEX effects_undecided ON effects (undecided_until) WHERE undecided_until IS NOT NULL;

CREATE TABLE progress (
  work_id BLOB NOT NULL,
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  content BLOB NOT NULL,             -- sealed
  PRIMARY KEY (work_id, seq)
) STRICT, WITHOUT ROWID;

-- What counts towards bounds, by whose work they count.
CREATE TABLE lane_caps (
  scope TEXT PRIMARY KEY,
  running INTEGER NOT NULL,
  next_at REAL NOT NULL DEFAULT 0  -- when the next start would be due, if they came evenly
) STRICT, WITHOUT ROWID;

-- What sources that have a budget used of it, by day (UTC, counted from 1970). A run's cost is its first day's.
CREATE TABLE budgets (
  source BLOB NOT NULL,
  day INTEGER NOT NULL,
  runs INTEGER NOT NULL,
  cost REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (source, day)
) STRICT, WITHOUT ROWID;

-- What runs cost, of those that said so: the total they told last.
CREATE TABLE costs (
  work_id BLOB NOT NULL,
  fence INTEGER NOT NULL,
  tenant INTEGER NOT NULL,
  cost REAL NOT NULL,
  PRIMARY KEY (work_id, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  key BLOB PRIMARY KEY,
  body_hash BLOB NOT NULL,
  answer BLOB NOT NULL,              -- sealed
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs that are made again and again.
CREATE TABLE schedules (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  settings TEXT NOT NULL,             -- JSON
  input BLOB NOT NULL,                -- sealed
  next_at INTEGER,                    -- the next tick; null: it does not fire
  fired_at INTEGER,                   -- the last tick that was fired
  last_job BLOB,
  version INTEGER NOT NULL DEFAULT 0  -- how often it was changed or fired
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_by_tenant ON schedules (tenant, id);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

-- Who subscribed to what is published, and how they are told.
CREATE TABLE webhooks (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  lane INTEGER NOT NULL,              -- where its deliveries wait; until when that is shut is in its row
  config TEXT NOT NULL,               -- JSON, as are circuit and notices
  secrets BLOB NOT NULL,              -- sealed
  circuit TEXT NOT NULL,              -- how its receiver does
  notices TEXT NOT NULL,              -- what its owner has to hear of
  due_at INTEGER,                     -- when somebody must look at it next
  signs_publicly INTEGER NOT NULL,    -- whether everybody may know what verifies its deliveries
  version INTEGER NOT NULL            -- how often it was changed
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_signing ON webhooks (id) WHERE signs_publicly = 1;

-- The catalogue of what is published.
CREATE TABLE event_types (
  tenant INTEGER NOT NULL,
  name TEXT NOT NULL,
  spec TEXT NOT NULL,                 -- JSON
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Bulk work: what was asked for, and how far it is. It goes from the newest item to the oldest.
CREATE TABLE operations (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  asked TEXT NOT NULL,                -- JSON
  position BLOB,                      -- the last item that was dealt with
  matched INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  turn INTEGER NOT NULL DEFAULT 0,       -- grows whenever a node takes it
  busy_until INTEGER NOT NULL DEFAULT 0, -- until then a node has it
  finished_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX operations_open ON operations (busy_until) WHERE finished_at IS NULL;

-- What each node counted, by minute (since 1970). Tenant 0: what was too many tenants' to be told apart.
CREATE TABLE figures (
  tenant INTEGER NOT NULL,
  minute INTEGER NOT NULL,
  node INTEGER NOT NULL,
  counted BLOB NOT NULL,
  PRIMARY KEY (tenant, minute, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX figures_by_minute ON figures (minute, tenant);

-- How queues stood, once a minute.
CREATE TABLE samples (
  tenant INTEGER NOT NULL,
  minute INTEGER NOT NULL,
  sample TEXT NOT NULL,               -- JSON
  PRIMARY KEY (tenant, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX samples_by_minute ON samples (minute);

-- What one node does for all: when the next may.
CREATE TABLE turns (
  what TEXT PRIMARY KEY,
  free_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is wrong, and what was. Of one tenant, kind and subject one fires at a time.
CREATE TABLE alerts (
  id BLOB PRIMARY KEY,
  tenant INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  subject TEXT NOT NULL,
  severity INTEGER NOT NULL,          -- 0 warning, 1 critical
  title TEXT NOT NULL,
  detail TEXT NOT NULL,
  value REAL NOT NULL,
  threshold REAL NOT NULL,
  good_since INTEGER,
  resolved_at INTEGER,
  untold INTEGER NOT NULL,            -- bits: 1 that it fired, 2 that it got worse, 4 that it is over
  version INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX alerts_firing ON alerts (tenant, kind, subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_by_tenant ON alerts (tenant, id);
CREATE INDEX alerts_untold ON alerts (id) WHERE untold <> 0;

-- How many runs of a source's jobs failed in a row.
CREATE TABLE streaks (
  tenant INTEGER NOT NULL,
  source BLOB NOT NULL,
  failures INTEGER NOT NULL,
  PRIMARY KEY (tenant, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  id BLOB PRIMARY KEY,
  tenant INTEGER,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  note TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_tenant ON audit (tenant, id);
CREATE INDEX audit_by_actor ON audit (actor, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_by_target ON audit (target, id);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
