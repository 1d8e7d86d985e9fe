// Stands between a client and a server, passes on what comes as it comes, and notes it.
import { createServer, request } from "node:http";

// Gives { url, exchanges, close() }; an exchange is { method, sent, status, received, ended }.
export async function relay(target) {
  const exchanges = [];
  const server = createServer((incoming, outgoing) => {
    const { method, headers } = incoming;
    const exchange = { method, sent: "", status: undefined, received: "", ended: undefined };
    exchanges.push(exchange);
    const onward = request(target, { method, headers }, (reply) => {
      exchange.status = reply.statusCode;
      outgoing.writeHead(reply.statusCode, reply.headers).flushHeaders();
      reply.setEncoding("utf8").on("data", (text) => {
        exchange.received += text;
        outgoing.write(text);
      });
      reply.on("end", () => outgoing.end(() => (exchange.ended ??= "by the server")));
      reply.on("close", () => {
        if (reply.complete) return;
        exchange.ended ??= "before its end";
        outgoing.destroy();
      });
    });
    onward.on("error", () => outgoing.destroy());
    incoming.setEncoding("utf8").on("data", (text) => {
      exchange.sent += text;
      onward.write(text);
    });
    incoming.on("end", () => onward.end());
    outgoing.on("close", () => {
      exchange.ended ??= "by the client";
      onward.destroy();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(target);
  url.port = server.address().port;
  return { url, exchanges, close: () => server.close() };
}
