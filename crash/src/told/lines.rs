//! Lines: jobs that share an order key, in the order their client was told of them (L9).

use std::collections::HashMap;

use super::{Inner, Told};

/// What is known of all lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The jobs of each, in order.
    jobs: HashMap<String, Vec<String>>,
    /// The job before each job in its line.
    before: HashMap<String, String>,
    /// Jobs that somebody asked for, whatever came of it.
    asked: usize,
}

impl Told {
    /// A client is about to ask for a job in a line.
    pub fn lining_up(&self) {
        self.lock().lines.asked += 1;
    }

    /// A client was told that a job is in its line, for the first time or again.
    pub fn lined_up(&self, line: &str, job: &str) {
        let mut inner = self.lock();
        let jobs = inner.lines.jobs.entry(line.to_owned()).or_default();
        if jobs.last().is_some_and(|last| last == job) {
            return;
        }
        let last = jobs.last().cloned();
        let twice = jobs.iter().any(|known| known == job);
        jobs.push(job.to_owned());
        if let Some(last) = last {
            inner.lines.before.insert(job.to_owned(), last);
        }
        if twice {
            inner.violation("U1", format!("{line}: {job} was given for two of its jobs"));
        }
    }

    /// How many jobs of a line have not ended, as far as anybody was told.
    pub fn open_in_line(&self, line: &str) -> usize {
        let inner = self.lock();
        let jobs = inner.lines.jobs.get(line).map(Vec::as_slice).unwrap_or_default();
        let open = |job: &&String| inner.jobs.get(*job).is_none_or(|job| job.leases.is_empty());
        jobs.iter().filter(open).count()
    }

    /// The job before this one in its line: it must have ended, since this one runs.
    pub fn before_in_line(&self, job: &str) -> Option<String> {
        self.lock().lines.before.get(job).cloned()
    }
}

impl Inner {
    /// What is wrong with the jobs that came from no event: those that were told of are there, and there are
    /// no more than were asked for.
    pub fn line_problems(&self, shown: &[String]) -> Vec<super::Problem> {
        let mut problems = Vec::new();
        for (line, jobs) in &self.lines.jobs {
            for lost in jobs.iter().filter(|job| !shown.contains(job)) {
                problems.push(("D1", format!("{lost} of {line} was acknowledged and is lost")));
            }
        }
        let (there, asked) = (shown.len(), self.lines.asked);
        if there > asked {
            problems.push(("U1", format!("{there} jobs are there, {asked} were asked for")));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_lost_or_doubled_is_noticed() {
        let told = Told::default();
        for job in ["job_1", "job_2", "job_2"] {
            told.lining_up();
            told.lined_up("line", job);
        }
        assert_eq!(told.before_in_line("job_2").as_deref(), Some("job_1"));
        assert_eq!(told.before_in_line("job_1"), None);
        let rules = |shown: &[&str]| {
            let shown: Vec<String> = shown.iter().map(|job| (*job).to_owned()).collect();
            let problems = told.lock().line_problems(&shown);
            problems.into_iter().map(|(rule, _)| rule).collect::<Vec<_>>()
        };
        assert_eq!(rules(&["job_1", "job_2"]), [""; 0]);
        assert_eq!(rules(&["job_2"]), ["D1"]);
        assert_eq!(rules(&["job_1", "job_2", "job_3", "job_4"]), ["U1"]);
    }
}
