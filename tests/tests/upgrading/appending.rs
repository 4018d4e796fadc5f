//! Migrations only append: users have databases that were made by those of every release.

use std::collections::BTreeMap;

use wakepost_tests::{Past, migrations};

use super::RELEASE;

/// What is wrong with the migrations as they are now, beside those of a release.
fn problem(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    for (path, sum) in then {
        let what = match now.get(path) {
            None => "gone",
            Some(now) if now != sum => "another",
            Some(_) => continue,
        };
        return Some(format!(
            "{path} is {what}, and databases of {RELEASE} were made with it: put it back as it was, and say what \
             should change in a new file with the next number, in both databases"
        ));
    }
    let added = |database: &str| {
        let of = |path: &&String| path.contains(&format!("/{database}/"));
        let names = now.keys().filter(of).filter_map(|path| path.rsplit('/').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (postgres, sqlite) = (added("postgres"), added("sqlite"));
    if postgres != sqlite {
        return Some(format!("the databases differ: {postgres:?} and {sqlite:?}"));
    }
    let numbered = (1..).zip(&sqlite).find(|(n, name)| !name.starts_with(&format!("{n:04}_")));
    numbered.map(|(n, name)| format!("{name} should have the number {n:04}"))
}

#[test]
fn no_migration_of_a_release_is_changed_removed_or_overtaken() {
    assert_eq!(problem(&Past::migrations(RELEASE), &migrations()), None);
}

#[test]
fn a_changed_a_missing_and_a_misplaced_migration_are_told_apart() {
    let of = |names: &[(&str, &str)]| {
        let both = ["postgres", "sqlite"].into_iter().flat_map(|database| {
            names.iter().map(move |(name, sum)| (format!("m/{database}/{name}"), (*sum).to_owned()))
        });
        both.collect::<BTreeMap<String, String>>()
    };
    let then = of(&[("0001_first.sql", "a"), ("0002_second.sql", "b")]);
    let says = |now: &BTreeMap<String, String>| problem(&then, now).unwrap_or_default();
    assert_eq!(says(&then), "");
    let appended =
        of(&[("0001_first.sql", "a"), ("0002_second.sql", "b"), ("0003_third.sql", "c")]);
    assert_eq!(says(&appended), "");
    let changed = says(&of(&[("0001_first.sql", "a"), ("0002_second.sql", "c")]));
    assert!(changed.contains("0002_second.sql is another") && changed.contains("next number"));
    assert!(says(&of(&[("0002_second.sql", "b")])).contains("0001_first.sql is gone"));
    let gap = of(&[("0001_first.sql", "a"), ("0002_second.sql", "b"), ("0004_fourth.sql", "c")]);
    assert!(says(&gap).contains("should have the number 0003"));
    let mut one = appended;
    one.remove("m/sqlite/0003_third.sql");
    assert!(says(&one).contains("the databases differ"));
}
