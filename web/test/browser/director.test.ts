// A director's page in a real browser. The director needs a kernel with IPVS, so here the page's
// files are served with a response that a director gave in the lab (director.json; `lab/run
// director-films` writes such responses).
import assert from "node:assert/strict";
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { Director } from "../../src/director-api";
import { browser, screenshot, until, visit, web } from "./harness";
import { stumbles } from "./stumbles";

const recorded = readFileSync(join(web, "test/browser/director.json"), "utf8");

/** The director's response; null: it does not respond. */
let status: Director | null;
let server: Server;
let base: string;
let chromium: Browser;

const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

before(async () => {
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    if (pathname === "/api/director") {
      response.writeHead(status ? 200 : 503, { "Content-Type": "application/json" }).end(JSON.stringify(status));
      return;
    }
    const path = join(web, "dist", pathname === "/" ? "director.html" : pathname);
    if (pathname.includes("..") || !existsSync(path)) return void response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types[extname(path)] ?? "text/plain" });
    createReadStream(path).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  server?.closeAllConnections();
  server?.close();
});

/** The row of a table that contains this text. */
const row = (page: Page, text: string) => page.getByRole("row").filter({ hasText: text });

describe("the director's page", () => {
  test("shows edges, films and the kernel's table, on wide and narrow windows", async () => {
    status = JSON.parse(recorded) as Director;
    for (const width of [1280, 390]) {
      const { page, complaints, close } = await visit(chromium, base, { viewport: { width, height: 900 } });
      await page.getByRole("heading", { name: `Director of ${status.address}` }).waitFor();
      for (const edge of status.edges) {
        const text = await row(page, edge.address).first().innerText();
        assert.match(text, /viewers? fit on the others|viewers? go to the others|viewers? do not all fit/);
      }
      const film = status.edges[0]?.report?.films[0];
      assert.ok(film, "the recorded answer has films");
      const where = page.getByRole("region", { name: "Films at each edge" });
      const place = where.getByRole("row").filter({ has: page.getByRole("rowheader", { name: film.title, exact: true }) });
      assert.match(await place.innerText(), /%, \d+ viewers?/);
      for (const service of status.services) {
        await page.getByRole("region", { name: `${service.of}: ${service.scheduler}` }).waitFor();
      }
      assert.deepEqual(await stumbles(page), []);
      assert.deepEqual(complaints, []);
      const tooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.equal(tooWide, false, `at ${width} pixels the page is wider than the window`);
      await screenshot(page, `director-${width}`, true);
      await close();
    }
  });

  test("says that an edge is down, that viewers do not fit, and that the director does not answer", async () => {
    status = JSON.parse(recorded) as Director;
    const [first, second] = status.edges;
    assert.ok(first && second);
    Object.assign(first, { state: "down", trouble: "RTSP: no answer within 0.7 s", report: null, without: null });
    second.without = { viewers: 40, booked: 20e6, room: 1e6, fits: false, films: ["a/one", "two", "three", "four"] };
    status.failover = "standby";
    const { page, close } = await visit(chromium, base);
    await row(page, "no answer within 0.7 s").waitFor();
    const text = await row(page, "40 viewers do not all fit on the others: 160 Mbit/s booked, 8 Mbit/s free").innerText();
    assert.match(text, /Fetched anew: one, two, three, 1 more/);
    await page.getByText("Another director has the address").waitFor();
    await screenshot(page, "director-down", true);
    status = null;
    await page.getByText("Director does not answer").waitFor();
    // The last known state remains visible.
    await row(page, "40 viewers").waitFor();
    status = JSON.parse(recorded) as Director;
    await until("the director answers", async () => (await page.getByText("Director does not answer").count()) === 0);
    await close();
  });
});
