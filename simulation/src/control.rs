//! Promises broken on purpose, in the database and behind the server's back: the checker must notice.

use clap::ValueEnum;

/// A promise to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Control {
    /// Every dedup key is gone as soon as it is taken
    Dedup,
    /// A job's fence goes back when its run ends, so that a stale token fits
    Fencing,
    /// A lease that ran out is never ended
    Rescue,
    /// Nothing waits for what was made before it under its order key
    Order,
    /// A job that is to run again is put off for ever
    Wake,
    /// What is to run later runs five seconds too late
    Late,
}

impl Control {
    /// The rules that must notice it.
    pub fn rules(self) -> &'static [&'static str] {
        match self {
            Control::Dedup => &["U1"],
            Control::Fencing => &["L1", "E2"],
            Control::Rescue => &["L7"],
            Control::Order => &["L9"],
            Control::Wake => &["L5", "L7"],
            Control::Late => &["D5"],
        }
    }

    /// How it is broken.
    pub fn sql(self) -> &'static str {
        match self {
            Control::Dedup => {
                "CREATE TRIGGER control AFTER INSERT ON dedup_keys BEGIN
                   DELETE FROM dedup_keys WHERE key = NEW.key;
                 END;"
            }
            Control::Fencing => {
                "CREATE TRIGGER control_fence AFTER UPDATE OF state ON work WHEN OLD.state = 5 AND NEW.state <> 5
                 BEGIN
                   UPDATE work SET fence = 0 WHERE tenant = NEW.tenant AND id = NEW.id;
                 END;
                 CREATE TRIGGER control_attempt BEFORE INSERT ON attempts BEGIN
                   DELETE FROM attempts WHERE work_id = NEW.work_id AND fence = NEW.fence;
                 END;"
            }
            Control::Rescue => {
                "CREATE TRIGGER control_rescue BEFORE INSERT ON attempts WHEN NEW.error = 'the lease ran out' BEGIN
                   SELECT RAISE(ABORT, 'control');
                 END;"
            }
            Control::Order => {
                "DROP INDEX work_head;
                 CREATE TRIGGER control_order AFTER INSERT ON work WHEN NEW.behind = 1 BEGIN
                   UPDATE work SET behind = 0 WHERE tenant = NEW.tenant AND id = NEW.id;
                 END;"
            }
            Control::Wake => {
                "CREATE TRIGGER control_wake AFTER UPDATE OF state ON work WHEN OLD.state = 5 AND NEW.state <> 5
                 BEGIN
                   UPDATE work SET run_at = run_at + 31536000000 WHERE tenant = NEW.tenant AND id = NEW.id;
                 END;"
            }
            Control::Late => {
                "CREATE TRIGGER control_late AFTER INSERT ON work WHEN NEW.state = 1
                 BEGIN
                   UPDATE work SET run_at = run_at + 5000 WHERE tenant = NEW.tenant AND id = NEW.id;
                 END;"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_each_control_with_the_rules_that_notice_it() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulation.md");
        let text = std::fs::read_to_string(file).unwrap();
        let rows = text.split("\n## Controls\n").nth(1).unwrap().lines();
        let listed: Vec<String> = rows
            .filter_map(|row| row.strip_prefix("| `")?.strip_suffix(" |"))
            .map(|row| {
                format!("{}: {}", row.split('`').next().unwrap(), row.rsplit(" | ").next().unwrap())
            })
            .collect();
        let known = Control::value_variants().iter().map(|control| {
            let name = control.to_possible_value().unwrap();
            format!("{}: {}", name.get_name(), control.rules().join(", "))
        });
        assert_eq!(listed, known.collect::<Vec<_>>());
    }
}
