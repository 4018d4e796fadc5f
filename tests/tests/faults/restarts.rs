//! A PostgreSQL that is stopped and started again, in each way there is.

use wakepost_tests::{Database, Gateway, skipped};
use xtask::postgres::{Durability, Postgres};

use crate::load::Load;

#[tokio::test]
async fn a_server_that_is_stopped_and_started_in_any_way_loses_nothing_on_postgres() {
    if !Postgres::is_installed() {
        return skipped("there is no PostgreSQL on this machine");
    }
    let mut server = Postgres::start(Durability::Fast).expect("a server");
    let first = Gateway::setup(Database::Postgres).server(&server.url()).start().await;
    let nodes = [first.node().await, first];
    let load = Load::new(&nodes).await;
    load.through(async {
        // Nobody new comes in; those who are connected work on.
        server.close().expect("it listens to signals");
        load.goes_on("while nobody is let in").await;
        for end in [Postgres::stop, Postgres::quit, Postgres::kill] {
            end(&mut server).expect("it ends");
            load.is_refused().await;
            server.start_again().expect("it starts");
            load.goes_on("after a restart").await;
        }
    })
    .await;
}
