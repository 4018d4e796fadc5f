// One question per line in, one answer per line out, both JSON, until the input ends.
//
// Addresses are judged by ipaddr.js: whatever it does not call unicast is refused. URLs are read by Node itself.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import ipaddr from "ipaddr.js";

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
}

function answer(question) {
  switch (question.ask) {
    case "version":
      return { version: version() };
    case "networks":
      return { networks: [...networks(ipaddr.IPv4), ...networks(ipaddr.IPv6)] };
    case "addresses":
      return { refusals: question.addresses.map(refusal) };
    case "urls":
      return { read: question.urls.map(read) };
    default:
      throw new Error(`no such question: ${question.ask}`);
  }
}

function version() {
  const manifest = new URL("./node_modules/ipaddr.js/package.json", import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}

// Some of its ranges are one network, others a list of them.
function networks(family) {
  const ranges = Object.values(family.prototype.SpecialRanges);
  const lists = ranges.map((range) => (Array.isArray(range[0]) ? range : [range]));
  return lists.flat().map(([address, prefix]) => `${address}/${prefix}`);
}

function refusal(text) {
  const range = ipaddr.parse(text).range();
  return range === "unicast" ? null : range;
}

// Not `URL.canParse`, which in Node 20 says no to some URLs that `new URL` reads.
function read(text) {
  try {
    const url = new URL(text);
    const usual = { "https:": 443, "http:": 80 }[url.protocol];
    return usual ? { host: url.hostname, port: Number(url.port || usual) } : { refusal: "not HTTP" };
  } catch {
    return { refusal: "not a URL" };
  }
}
