//! The flags of every list.

use clap::Args;
use wakepost_client::PageQuery;

#[derive(Args)]
pub struct Paging {
    /// How many to show (50 unless told otherwise)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub limit: Option<u32>,
    /// Where to go on, as the end of a page says
    #[arg(long)]
    pub cursor: Option<String>,
}

impl From<Paging> for PageQuery {
    fn from(paging: Paging) -> PageQuery {
        PageQuery { limit: paging.limit, cursor: paging.cursor }
    }
}
