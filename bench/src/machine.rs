//! What the figures were measured on.

use std::fmt;
use std::fs;

use crate::world::postgres::Postgres;

/// The machine, as far as it matters.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many cores we may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// The kernel.
    pub kernel: String,
    /// The database server.
    pub postgres: Option<String>,
    /// How busy the machine was before we began.
    pub load_average: String,
}

impl Machine {
    /// Looks around.
    pub async fn look(postgres: Option<&Postgres>) -> anyhow::Result<Machine> {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib: u64 = field(&memory, "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse().ok())
            .unwrap_or(0);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Ok(Machine {
            processor: field(&processors, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: kib / 1024 / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            postgres: match postgres {
                Some(postgres) => Some(postgres.describe().await?),
                None => None,
            },
            load_average: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        })
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cores of {}, {} GiB, Linux {}",
            self.cores, self.processor, self.memory_gib, self.kernel
        )?;
        if let Some(postgres) = &self.postgres {
            writeln!(f, "{postgres}")?;
        }
        write!(f, "load average before the run: {}", self.load_average)
    }
}
