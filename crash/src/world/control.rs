//! Promises broken on purpose, in the database and behind the server's back: the checker must notice.

use anyhow::Context;
use tokio_postgres::NoTls;

use super::Cluster;
use crate::options::{Control, OutboundControl};

/// Every dedup key is gone as soon as it is taken. The server needs its unique index to speak at all, so the
/// index stays and its meaning goes.
const SQLITE_DEDUP: &str = "
CREATE TRIGGER control AFTER INSERT ON dedup_keys BEGIN
  DELETE FROM dedup_keys WHERE key = NEW.key;
END;";

const POSTGRES_DEDUP: &str = "
CREATE FUNCTION control() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    DELETE FROM dedup_keys WHERE key = NEW.key;
    RETURN NULL;
  END $$;
CREATE TRIGGER control AFTER INSERT ON dedup_keys FOR EACH ROW EXECUTE FUNCTION control();";

/// When a run ends, its job's fence goes back to 0, so that every claim gets the fence 1 and every token fits. On
/// PostgreSQL a job that shall run again is put back as a new row.
/// Only one record is kept of a job's runs then: they are told apart by the fence.
const SQLITE_FENCING: &str = "
CREATE TRIGGER control_fence AFTER UPDATE OF state ON work WHEN OLD.state = 5 AND NEW.state <> 5 BEGIN
  UPDATE work SET fence = 0 WHERE tenant = NEW.tenant AND id = NEW.id;
END;
CREATE TRIGGER control_attempt BEFORE INSERT ON attempts BEGIN
  DELETE FROM attempts WHERE work_id = NEW.work_id AND fence = NEW.fence;
END;";

const POSTGRES_FENCING: &str = "
CREATE FUNCTION control_fence() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.fence := 0; RETURN NEW; END $$;
CREATE TRIGGER control_fence BEFORE INSERT ON work FOR EACH ROW EXECUTE FUNCTION control_fence();
CREATE FUNCTION control_attempt() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    DELETE FROM attempts WHERE work_id = NEW.work_id AND fence = NEW.fence;
    RETURN NEW;
  END $$;
CREATE TRIGGER control_attempt BEFORE INSERT ON attempts
  FOR EACH ROW EXECUTE FUNCTION control_attempt();";

/// Nothing waits for what was made before it.
const SQLITE_ORDER: &str = "
DROP INDEX work_head;
CREATE TRIGGER control_order AFTER INSERT ON work WHEN NEW.behind = 1 BEGIN
  UPDATE work SET behind = 0 WHERE tenant = NEW.tenant AND id = NEW.id;
END;";

const POSTGRES_ORDER: &str = "
DROP INDEX work_head;
CREATE FUNCTION control_order() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.behind := false; RETURN NEW; END $$;
CREATE TRIGGER control_order BEFORE INSERT ON work
  FOR EACH ROW EXECUTE FUNCTION control_order();";

/// Each delivery is made twice: a second row, with an id of its own.
const SQLITE_TWICE: &str = "
CREATE TRIGGER control_twice AFTER INSERT ON work WHEN NEW.kind = 1 AND NEW.attempts = 0 BEGIN
  INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope, meta)
  SELECT NEW.tenant, copy, NEW.kind, NEW.lane, NEW.state, NEW.run_at, 0, NEW.max_attempts, NEW.fence,
         NEW.event_id, copy, NEW.meta
  FROM (SELECT CAST(substr(NEW.id, 1, 6) || randomblob(10) AS BLOB) AS copy);
END;";

const POSTGRES_TWICE: &str = "
CREATE FUNCTION control_twice() RETURNS trigger LANGUAGE plpgsql AS
  $$ DECLARE copy work := NEW; BEGIN
    copy.id := (substr(NEW.id::text, 1, 14) || substr(gen_random_uuid()::text, 15))::uuid;
    copy.scope := copy.id;
    INSERT INTO work SELECT copy.*;
    RETURN NULL;
  END $$;
CREATE TRIGGER control_twice AFTER INSERT ON work FOR EACH ROW
  WHEN (NEW.kind = 1 AND NEW.attempts = 0 AND pg_trigger_depth() = 0) EXECUTE FUNCTION control_twice();";

/// Tries that did not succeed leave nothing behind.
const SQLITE_ATTEMPT: &str = "
CREATE TRIGGER control_forget AFTER INSERT ON attempts BEGIN
  DELETE FROM attempts WHERE work_id = NEW.work_id AND fence = NEW.fence;
END;";

const POSTGRES_ATTEMPT: &str = "
CREATE FUNCTION control_forget() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    DELETE FROM attempts WHERE work_id = NEW.work_id AND fence = NEW.fence;
    RETURN NULL;
  END $$;
CREATE TRIGGER control_forget AFTER INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION control_forget();";

/// One in about thirty deliveries is gone once it ended.
const SQLITE_LOST: &str = "
CREATE TRIGGER control_lost AFTER INSERT ON work_done WHEN NEW.kind = 1 AND abs(random() % 30) = 0 BEGIN
  DELETE FROM work_done WHERE tenant = NEW.tenant AND id = NEW.id;
END;";

const POSTGRES_LOST: &str = "
CREATE FUNCTION control_lost() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    DELETE FROM work_done WHERE tenant = NEW.tenant AND id = NEW.id;
    RETURN NULL;
  END $$;
CREATE TRIGGER control_lost AFTER INSERT ON work_done FOR EACH ROW
  WHEN (NEW.kind = 1 AND random() < 0.033) EXECUTE FUNCTION control_lost();";

/// How a promise is broken, on each database.
pub struct Breaking {
    sqlite: &'static str,
    postgres: &'static str,
}

impl From<Control> for Breaking {
    fn from(control: Control) -> Breaking {
        let (sqlite, postgres) = match control {
            Control::Dedup => (SQLITE_DEDUP, POSTGRES_DEDUP),
            Control::Fencing => (SQLITE_FENCING, POSTGRES_FENCING),
            Control::Order => (SQLITE_ORDER, POSTGRES_ORDER),
        };
        Breaking { sqlite, postgres }
    }
}

impl From<OutboundControl> for Breaking {
    fn from(control: OutboundControl) -> Breaking {
        let (sqlite, postgres) = match control {
            OutboundControl::Dedup => (SQLITE_DEDUP, POSTGRES_DEDUP),
            OutboundControl::Twice => (SQLITE_TWICE, POSTGRES_TWICE),
            OutboundControl::Attempt => (SQLITE_ATTEMPT, POSTGRES_ATTEMPT),
            OutboundControl::Lost => (SQLITE_LOST, POSTGRES_LOST),
        };
        Breaking { sqlite, postgres }
    }
}

/// Breaks a promise, between two runs of the servers.
pub async fn break_promise(
    cluster: &mut Cluster,
    control: impl Into<Breaking>,
) -> anyhow::Result<()> {
    for number in 0..cluster.count() {
        cluster.kill_node(number);
    }
    let Breaking { sqlite, postgres } = control.into();
    match cluster.postgres_url() {
        None => rusqlite::Connection::open(cluster.sqlite_file())?.execute_batch(sqlite)?,
        Some(url) => {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            let connection = tokio::spawn(connection);
            client.batch_execute(postgres).await.context("breaking a promise")?;
            drop(client);
            connection.await??;
        }
    }
    for number in 0..cluster.count() {
        cluster.start_node(number).await?;
    }
    Ok(())
}
