// One question per line in, one answer per line out, both JSON, until the input ends.
//
// Every SDK has a file that exports `verify` and, where the SDK can do it, `sign`. An SDK that throws refuses.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import * as bolt from "./bolt.mjs";
import * as crypto from "./crypto.mjs";
import * as discord from "./discord.mjs";
import * as octokit from "./octokit.mjs";
import * as sendgrid from "./sendgrid.mjs";
import * as shopify from "./shopify.mjs";
import * as square from "./square.mjs";
import * as standardwebhooks from "./standardwebhooks.mjs";
import * as stripe from "./stripe.mjs";
import * as svix from "./svix.mjs";
import * as twilio from "./twilio.mjs";

const SDKS = {
  "@octokit/webhooks": octokit,
  "@sendgrid/eventwebhook": sendgrid,
  "@shopify/shopify-api": shopify,
  "@slack/bolt": bolt,
  "discord-interactions": discord,
  "node:crypto": crypto,
  square,
  standardwebhooks,
  stripe,
  svix,
  twilio,
};

// Standard output is for answers alone.
console.log = console.info = console.error;

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}

async function answer({ ask, sdk, body, ...request }) {
  if (ask === "version") return { version: version(sdk) };
  request.body = Buffer.from(body, "base64");
  request.text = request.body.toString("utf8");
  try {
    if (ask === "sign") return { signed: await SDKS[sdk].sign(request) };
    return { accepted: (await SDKS[sdk].verify(request)) === true };
  } catch (error) {
    return { accepted: false, why: String(error?.message ?? error) };
  }
}

function version(sdk) {
  if (sdk.startsWith("node:")) return process.versions.node;
  const manifest = new URL(`./node_modules/${sdk}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}
