// Somebody outside: counts what it was asked to do, and can keep those who ask waiting.

import { once } from "node:events";
import { createServer } from "node:http";

export async function startReceiver(t, answer = () => ({ status: 200, body: {} })) {
  const seen = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const one = {
      path: request.url,
      headers: request.headers,
      body: text === "" ? null : JSON.parse(text),
    };
    seen.push(one);
    const said = await answer(one);
    if (said === undefined) return;
    response.writeHead(said.status, { "content-type": "application/json", ...said.headers });
    response.end(JSON.stringify(said.body ?? {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    seen,
    at: (path) => seen.filter((one) => one.path === path),
  };
}
