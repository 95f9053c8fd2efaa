// For development: `npm run dev` builds the pages at every change and serves them at
// http://127.0.0.1:5173. Everything else (films, API) comes from a Reelway at
// http://127.0.0.1:8080, or at REELWAY.
import { createReadStream, existsSync } from "node:fs";
import { createServer, request } from "node:http";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

process.argv.push("--watch");
await import("./build.mjs");

const dist = join(dirname(dirname(fileURLToPath(import.meta.url))), "dist");
const reelway = new URL(process.env.REELWAY ?? "http://127.0.0.1:8080");
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

createServer((asked, answer) => {
  const path = new URL(asked.url, reelway).pathname;
  const file = join(dist, path === "/" ? "index.html" : path);
  if (/^\/(assets\/[\w.-]+|[\w.-]*)$/.test(path) && existsSync(file)) {
    answer.writeHead(200, { "Content-Type": types[extname(file)] ?? "text/plain", "Cache-Control": "no-store" });
    createReadStream(file).pipe(answer);
    return;
  }
  const onward = request(new URL(asked.url, reelway), { method: asked.method, headers: { ...asked.headers, host: reelway.host } });
  onward.on("response", (said) => {
    answer.writeHead(said.statusCode, said.headers);
    said.pipe(answer);
  });
  onward.on("error", (error) => answer.writeHead(502).end(`Reelway at ${reelway.href}: ${error.message}\n`));
  answer.on("close", () => onward.destroy());
  asked.pipe(onward);
}).listen(5173, "127.0.0.1", () => console.log(`pages at http://127.0.0.1:5173, films from ${reelway.href}`));
