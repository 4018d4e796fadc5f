//! `webhookctl event-types put`

use clap::Args;
use wakepost_client::{EventTypeFields, EventTypeVersion};

use super::show::summary;
use crate::commands::input::read_json;
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

const NOTES: &str = "What is not named stays as it is: the other versions, and the rest of this one. --file is \
                     the whole type, {description, versions: {VERSION: {schema, example, change}}}, in place of \
                     what was there.";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Put {
    /// The type's name: lower-case words joined by dots, such as order.created
    name: String,
    /// What happened, for those who subscribe
    #[arg(long)]
    description: Option<String>,
    /// Which version the next three flags are about
    #[arg(long)]
    version: Option<String>,
    /// What its data must look like, as a JSON Schema: JSON, @FILE or -
    #[arg(long, value_name = "JSON|@FILE|-", requires = "version")]
    schema: Option<String>,
    /// An example of its data: JSON, @FILE or -
    #[arg(long, value_name = "JSON|@FILE|-", requires = "version")]
    example: Option<String>,
    /// What changed since the version before
    #[arg(long, value_name = "TEXT", requires = "version")]
    change: Option<String>,
    /// The whole type: JSON, @FILE or -
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with_all = ["description", "version"])]
    file: Option<String>,
}

impl Put {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let fields = match &self.file {
            Some(given) => whole(given)?,
            None => self.changed(session).await?,
        };
        let call = session.client.put_event_type(&self.name, &fields);
        let Some(put) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&summary(&put).render(session.paint))?;
        Ok(())
    }

    /// What there is, with what was named: the API takes a type whole.
    async fn changed(&self, session: &Session) -> anyhow::Result<EventTypeFields> {
        if self.description.is_none() && self.version.is_none() {
            let nothing = "nothing to register: say --description, --version or --file";
            return Err(Usage(nothing.to_owned()).into());
        }
        let document = |flag: &str, given: &Option<String>| {
            given.as_deref().map(|given| read_json(flag, given)).transpose()
        };
        let (schema, example) =
            (document("--schema", &self.schema)?, document("--example", &self.example)?);
        let mut fields = existing(session, &self.name).await?;
        fields.description = self.description.clone().or(fields.description);
        if let Some(version) = &self.version {
            let known = fields.versions.entry(version.clone()).or_default();
            *known = EventTypeVersion {
                schema: schema.or(known.schema.take()),
                example: example.or(known.example.take()),
                change: self.change.clone().or(known.change.take()),
            };
        }
        Ok(fields)
    }
}

/// What the type is now; nothing, if it is new.
async fn existing(session: &Session, name: &str) -> anyhow::Result<EventTypeFields> {
    match session.client.get_event_type(name).await {
        Ok(known) => Ok(EventTypeFields {
            description: Some(known.description).filter(|text| !text.is_empty()),
            versions: known.versions,
        }),
        Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => {
            Ok(EventTypeFields::default())
        }
        Err(error) => Err(error.into()),
    }
}

fn whole(given: &str) -> anyhow::Result<EventTypeFields> {
    let refuse = |why: &str| Usage(format!("--file is not an event type: {why}"));
    let whole = read_json("--file", given)?;
    // A list would be read as fields in their order.
    if !whole.is_object() {
        return Err(refuse("it must be an object").into());
    }
    serde_json::from_value(whole).map_err(|error| refuse(&error.to_string()).into())
}
