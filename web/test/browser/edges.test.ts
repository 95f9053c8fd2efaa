// Edges that redirect viewers to the one that has their film: when that edge ends, players continue
// at another one.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { browser, edges, elsewhere, keepingEdge, recipes, reelway, screenshot, visit, type Reelway } from "./harness";
import { stumbles } from "./stumbles";
import { playedWell, Viewer } from "./watching";

let origin: Reelway;
let all: Reelway[];
let chromium: Browser;
let other: Awaited<ReturnType<typeof elsewhere>>;

before(async () => {
  origin = await reelway({ "hlsjs.mp4": recipes.long, "dashjs.mp4": recipes.long, "demo.mp4": recipes.demo });
  all = await edges(origin, 3);
  chromium = await browser();
  other = await elsewhere();
});

after(async () => {
  await chromium?.close();
  for (const edge of all ?? []) await edge.stop();
  await origin?.stop();
  await other?.stop();
});

/** The number of a film's sessions at an edge. */
async function sessions(edge: Reelway, title: string): Promise<number> {
  const { sessions } = await edge.json<{ sessions: { title: string }[] }>("/api/sessions");
  return sessions.filter((session) => session.title === title).length;
}

/** The edge that serves a film's only viewer. */
async function serving(title: string): Promise<Reelway> {
  const counts = await Promise.all(all.map((edge) => sessions(edge, title)));
  assert.equal(counts.reduce((sum, count) => sum + count), 1, `viewers of ${title} at each edge: ${counts}`);
  const found = all[counts.indexOf(1)];
  assert.ok(found);
  return found;
}

/** The address of the edge to which an edge sends viewers of a film. */
async function home(asked: Reelway, title: string): Promise<string> {
  const answer = await fetch(`${asked.http}/${title}/hls/main.m3u8`, { method: "HEAD", redirect: "manual" });
  return new URL(answer.headers.get("location") ?? asked.http).origin;
}

describe("edges", () => {
  test("the page of a film keeps it on the disk and drops it, for who has the token", async () => {
    const edge = await keepingEdge(origin);
    const kept = async () => (await edge.json<{ tier: { used: number; kept: { lacking: number | null }[] } }>("/api/cache")).tier;
    const { page, complaints, close } = await visit(chromium, `${edge.http}/#/film/demo`);
    try {
      const section = page.getByRole("region", { name: "On disk" });
      await section.getByRole("button", { name: "Keep on disk" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Token").fill(edge.token);
      await dialog.getByRole("button", { name: "Go on" }).click();
      await section.getByText("Kept: all of it is on the server's disk.").waitFor();
      assert.equal((await kept()).kept[0]?.lacking, 0);
      assert.deepEqual(await stumbles(page), []);
      await screenshot(page, "film-kept");
      await section.getByRole("button", { name: "Drop" }).click();
      await section.getByRole("button", { name: "Keep on disk" }).waitFor();
      assert.deepEqual(await kept().then(({ used, kept }) => [used, kept.length]), [0, 0]);
      assert.deepEqual(complaints, []);
    } finally {
      await close();
      await edge.stop();
    }
  });

  test("the page of any edge plays a film from the edge that has it", async () => {
    const at = await home(all[0] as Reelway, "demo");
    const asked = all.find((edge) => edge.http !== at) as Reelway;
    const { page, complaints, close } = await visit(chromium, `${asked.http}/#/film/demo`);
    await page.getByRole("button", { name: "Play", exact: true }).first().click();
    const viewer = await Viewer.of(page);
    await viewer.play(2);
    playedWell(await viewer.end(), { duration: 24, width: 640, height: 360 });
    // The harness records every request to another server: here they are expected.
    assert.ok(complaints.length > 0 && complaints.every((said) => said.startsWith("asked elsewhere: ")), complaints.join("\n"));
    await close();
  });

  const players = [
    ["hls.js", "hlsjs", "hls/main.m3u8"],
    ["dash.js", "dashjs", "dash/main.mpd"],
  ] as const;
  for (const [name, file, path] of players) {
    test(`${name} goes on at another edge when the one it plays from is killed, without a stall`, async () => {
      // It loads 12 s ahead. The film has the same name as the page.
      const url = `${other.base}/${file}.html?${encodeURIComponent(`${all[0]?.http}/${file}/${path}`)}#12`;
      const { page, close } = await visit(chromium, url);
      const viewer = await Viewer.of(page);
      await viewer.play();
      await viewer.reach(4);
      const first = await serving(file);
      const { buffered, position } = await viewer.report();
      first.kill();
      all = all.filter((edge) => edge !== first);
      const loaded = buffered[0]?.[1] ?? 0;
      assert.ok(loaded < position + 20, `little was loaded: ${loaded}`);
      await viewer.reach(loaded + 8, 60_000);
      const report = await viewer.report();
      assert.deepEqual([report.error, report.stalls], [null, []], JSON.stringify(report));
      await serving(file);
      await close();
      await first.stop();
    });
  }
});
