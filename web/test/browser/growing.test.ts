// A recording that grows while players in a real browser follow it to its end.
import assert from "node:assert/strict";
import { mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import type { FilmDetail } from "../../src/api";
import { browser, elsewhere, recipes, reelway, screenshot, until, visit, type Reelway } from "./harness";
import { Viewer } from "./watching";

/** The recording's length in seconds, and how many of them are written when players begin. */
const [whole, early] = [50, 14];

let server: Reelway;
let chromium: Browser;
let other: Awaited<ReturnType<typeof elsewhere>>;
let folder: string;
/** Resolves when everything is recorded. */
let recording: Promise<void>;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "reelway-recording-"));
  await recipes.recording(whole)(join(folder, "whole.ts"));
  const bytes = await readFile(join(folder, "whole.ts"));
  const at = (second: number) => Math.floor((bytes.length * second) / whole);
  server = await reelway(
    { "recording.ts": (path) => writeFile(path, bytes.subarray(0, at(early / 2))) },
    { config: "[http]\nsegment = 2\n" },
  );
  // It stays open while it is written, as recorders keep it.
  const file = await open(join(server.films, "recording.ts"), "a");
  await file.appendFile(bytes.subarray(at(early / 2), at(early)));
  const manifest = async () => (await fetch(`${server.http}/recording/dash/main.mpd`)).text();
  await until("the server has seen it grow", async () => (await manifest()).includes('type="dynamic"'));
  chromium = await browser();
  other = await elsewhere();
  recording = (async () => {
    const began = Date.now();
    for (let from = early; from < whole; ) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      const to = Math.min(whole, early + (Date.now() - began) / 1000);
      await file.appendFile(bytes.subarray(at(from), at(to)));
      from = to;
    }
    await file.close();
  })();
});

after(async () => {
  await recording;
  await chromium?.close();
  await server?.stop();
  await other?.stop();
  await rm(folder, { recursive: true, force: true });
});

let turn: Promise<unknown> = Promise.resolve();

/** Begins after all earlier ones have begun. A player needs seconds of a small machine's time to
 * begin; other players that have little data loaded would stall meanwhile. */
function inTurn<T>(begin: () => Promise<T>): Promise<T> {
  const begun = turn.then(begin);
  turn = begun.catch(() => {});
  return begun;
}

describe("a recording that grows", { concurrency: 5 }, () => {
  for (const [name, file, kind] of [
    ["hls.js", "hlsjs", "hls"],
    ["Shaka Player", "shaka", "hls"],
    ["Shaka Player", "shaka", "dash"],
    ["dash.js", "dashjs", "dash"],
    ["our page", "", "hls"],
  ] as const) {
    test(`${name} follows it over ${kind.toUpperCase()} to its end`, async () => {
      const { urls } = await server.json<FilmDetail>("/api/films/recording");
      const address = new URL(urls[kind] ?? "", server.http).href;
      const url = file ? `${other.base}/${file}.html?${encodeURIComponent(address)}` : `${server.http}/#/film/recording`;
      const { page, complaints, close, viewer } = await inTurn(async () => {
        const visited = await visit(chromium, url);
        if (!file) await visited.page.getByRole("button", { name: "Play", exact: true }).first().click();
        const viewer = await Viewer.of(visited.page);
        await viewer.play(1);
        await viewer.reach(1);
        const { position } = await viewer.report();
        await viewer.reach(position + 2);
        return { ...visited, viewer };
      });
      const report = await viewer.end();
      if (!file) await screenshot(page, "recording");
      assert.equal(report.error, null, JSON.stringify(report));
      assert.ok(Math.abs(report.position - whole) < 0.5, `at the end of ${whole} s: ${JSON.stringify(report)}`);
      assert.deepEqual(
        complaints.filter((said) => !said.startsWith(`asked elsewhere: ${server.http}/`)),
        [],
      );
      await close();
    });
  }
});
