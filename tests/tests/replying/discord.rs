//! Discord: the message that was promised is filled, changed, and followed.

use serde_json::json;
use wakepost_tests::platform::{Discord, DiscordMessage, Fault, Platform};
use wakepost_tests::{Database, Gateway, now, on_both};

use crate::conversation::{Asked, INTERIM, are_the_text, gateway, long_text, source};

on_both!(
    a_message_for_good_is_not_written_over,
    the_promised_message_is_the_interim_one_and_then_the_first_part,
    a_first_part_in_doubt_is_written_again_in_place,
);

/// What the sample says.
const APPLICATION: &str = "845027738276462632";
const TOKEN: &str = "aW50ZXJhY3Rpb246JElE";

/// Three parts, as Discord splits.
const LONG: usize = 4500;

/// When Discord's ids begin, in milliseconds.
const EPOCH: i64 = 1_420_070_400_000;

struct Command {
    discord: Platform<Discord>,
    gateway: Gateway,
    asked: Asked,
}

impl Command {
    async fn start(database: Database) -> Command {
        let (discord, gateway) = (Discord::start(APPLICATION).await, gateway(database).await);
        let settings = json!({"api_url": discord.url("/api/v10")});
        let source = source(&gateway, "discord", settings).await;
        // Its id says when it was given, and so until when it can be answered.
        let id = ((now().as_millis() - EPOCH) << 22).to_string();
        let request = source.sample_at(Some("interaction.command"), &id, now());
        discord.with(|discord| discord.defers(TOKEN));
        let asked = Asked::by(&gateway, &request).await;
        Command { discord, gateway, asked }
    }

    fn said(&self) -> Vec<DiscordMessage> {
        self.discord.with(|discord| discord.said(TOKEN))
    }

    #[track_caller]
    fn holds(&self, text: &str) {
        let said = self.said();
        assert!(said.len() >= 3, "{} parts", said.len());
        are_the_text(said.iter().map(|message| message.content.as_str()), text);
        assert!(self.discord.script_is_over());
    }
}

async fn the_promised_message_is_the_interim_one_and_then_the_first_part(database: Database) {
    let command = Command::start(database).await;
    command.asked.interim().await;
    command.asked.sent(&command.gateway.admin()).await;
    let interim = command.said();
    assert_eq!((interim.len(), interim[0].content.as_str()), (1, INTERIM));

    let text = long_text(LONG);
    command.discord.next_to("POST ", Fault::RateLimits { retry_after_s: 1 });
    command.asked.answered(&text).await;
    command.asked.sent(&command.gateway.admin()).await;
    command.holds(&text);
    let said = command.said();
    assert_eq!((&said[0].id, said[0].edits), (&interim[0].id, 1));
    assert!(said[1..].iter().all(|message| message.edits == 0));
}

async fn a_first_part_in_doubt_is_written_again_in_place(database: Database) {
    let command = Command::start(database).await;
    command.discord.next_to("PATCH ", Fault::ClosesAfter);
    let text = long_text(LONG);
    command.asked.answered(&text).await;
    command.asked.sent(&command.gateway.admin()).await;
    command.holds(&text);
    assert_eq!(command.discord.calls("PATCH ").len(), 2);
}

async fn a_message_for_good_is_not_written_over(database: Database) {
    let command = Command::start(database).await;
    let kept = json!({"text": "Found three problems.", "update": false});
    command.asked.lease.post("reply", kept).await.is(200);
    command.asked.sent(&command.gateway.admin()).await;
    command.asked.answered("All of them are fixed.").await;
    command.asked.sent(&command.gateway.admin()).await;
    let said: Vec<String> = command.said().into_iter().map(|message| message.content).collect();
    assert_eq!(said, ["Found three problems.", "All of them are fixed."]);
}
