// Real players in a real browser: films over HLS, DASH and as files, played to the end with seeks.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { FilmDetail } from "../../src/api";
import { titlePath } from "../../src/routes";
import { browser, elsewhere, recipes, reelway, screenshot, subtitles, visit, type Reelway } from "./harness";
import { playedWell, playsThrough, playsWithSeeks, Viewer, type Expected } from "./watching";

let server: Reelway;
let chromium: Browser;
let other: Awaited<ReturnType<typeof elsewhere>>;

const films: Record<string, Expected> = {
  demo: { duration: 24, width: 640, height: 360 },
  "series/B-frames & two tongues": { duration: 40, width: 480, height: 270 },
};

// More than players load ahead: the server cannot see a seek to the end of what a player has, and
// would pace the next segment, so that the player stalls (docs/reference/http.md, Pace).
const config = "http.ahead = 60\n";

before(async () => {
  const made = {
    "demo.mp4": recipes.demo,
    "series/B-frames & two tongues.mp4": recipes.bFrames,
    "turned.mp4": recipes.turned,
    "recorded.ts": recipes.recording(40),
    "modern/VP9 and Opus.webm": recipes.webm,
    "modern/FLAC.mkv": recipes.flac,
    "chapters.mp4": recipes.chapters,
    "ladder.set/high.mp4": recipes.rendition(360),
    "ladder.set/low.mp4": recipes.rendition(90),
    "ladder.set/middle.mp4": recipes.rendition(180),
    "told.mp4": recipes.demo,
    "told.en.srt": subtitles("Hello, %s"),
    "told.de.srt": subtitles("Guten Tag, %s"),
  };
  server = await reelway(made, { config });
  chromium = await browser();
  other = await elsewhere();
});

after(async () => {
  await chromium?.close();
  await server?.stop();
  await other?.stop();
});

/** The absolute address of a film, of this kind. */
async function address(title: string, kind: "hls" | "dash" | "file"): Promise<string> {
  const film = await server.json<FilmDetail>(`/api/films/${titlePath(title)}`);
  const path = film.urls[kind];
  assert.ok(path, `${title} has no ${kind} address`);
  return new URL(path, server.http).href;
}

/** Problems, except for one that all pages of another origin have: they send requests to the
 * Reelway server. */
const own = (complaints: string[]) => complaints.filter((said) => !said.startsWith(`asked elsewhere: ${server.http}/`));

/** Films that test codecs: each is played once by each kind of player. */
const codecs: Record<string, Expected> = {
  "modern/VP9 and Opus": { duration: 10, width: 320, height: 180 },
  "modern/FLAC": { duration: 10, width: 320, height: 180 },
};

/** The cues that are shown, if there are any and the film is past this second: the text of each,
 * and its distance from the film's time. */
const shownPast = (second: number) => {
  const video = document.querySelector("video");
  const position = video?.currentTime ?? 0;
  const tracks = Array.from(video?.textTracks ?? []).filter((track) => track.mode === "showing");
  const cues = tracks.flatMap((track) => Array.from(track.activeCues ?? []));
  const shown = cues.map((cue) => ({
    begins: Math.round(cue.startTime * 1000) / 1000,
    says: (cue as VTTCue).text.replace(/<[^>]*>/g, ""),
    off: Math.max(cue.startTime - position, position - cue.endTime, 0),
  }));
  return position > second && shown.length > 0 ? shown : null;
};

/** Checks that one cue is shown at its time, some seconds into the film: between two cues there
 * is none, and browsers update them every 250 ms at least. */
async function showsCues(page: Page) {
  const cues = (await (await page.waitForFunction(shownPast, 2)).jsonValue()) ?? [];
  const details = JSON.stringify(cues);
  assert.deepEqual(cues.map((cue) => cue.says), [`Guten Tag, ${cues[0]?.begins}`], details);
  assert.ok(cues.every((cue) => cue.off < 0.3), details);
}

// Four at a time: playing takes time, but little of the machine.
describe("players", { concurrency: 4 }, () => {
  test("our page shows chapters and leads to them", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/chapters`);
    const chooser = page.getByLabel("Chapter");
    await chooser.waitFor();
    assert.deepEqual(await chooser.getByRole("option").allTextContents(), ["Opening", "Über den Wolken", "Chapter 3"]);
    const at = (second: number) => page.waitForFunction((second) => document.querySelector("video")?.currentTime === second, second);
    const chosen = (number: number) => page.waitForFunction((number) => document.querySelector<HTMLSelectElement>(".choice select")?.value === String(number), number);
    await chooser.selectOption({ label: "Chapter 3" });
    await at(16);
    await chosen(2);
    await page.locator("body").press("p");
    await at(8);
    await chosen(1);
    await page.locator("body").press("n");
    await at(16);
    await page.locator(".seekbar").hover();
    await page.getByText("0:12 Über den Wolken").waitFor();
    assert.equal(await page.locator(".seekbar-chapter").count(), 2);
    await screenshot(page, "chapters");
    assert.deepEqual(complaints, []);
    await close();
  });

  test("hls.js plays slices of a transport stream, from start to end and with seeks", async () => {
    const { urls } = await server.json<FilmDetail>("/api/films/recorded");
    assert.ok(urls.hls_ts, "no address");
    const url = `${other.base}/hlsjs.html?${encodeURIComponent(new URL(urls.hls_ts, server.http).href)}`;
    const expected = { duration: 40, width: 320, height: 180 };
    const { page, complaints, close } = await visit(chromium, url);
    await playsThrough(await Viewer.of(page), expected);
    await page.reload();
    const viewer = await Viewer.of(page);
    await viewer.play(1);
    await viewer.reach(1.5);
    for (const to of [28.4, 5.2, 35.8]) await viewer.seek(to);
    const report = await viewer.end();
    const details = JSON.stringify(report);
    assert.equal(report.error, null, details);
    assert.ok(Math.abs(report.position - report.duration) < 0.1, details);
    // Audio that was cut in two has a gap after a seek: hls.js reports that and plays on after it.
    const isCut = (said: string) => /bufferSeekOverHole|bufferStalledError/.test(said);
    assert.deepEqual(own(complaints).filter((said) => !isCut(said)), []);
    await close();
  });

  test("our page shows the subtitles that are chosen", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/told`);
    await page.getByRole("button", { name: "Play", exact: true }).first().click();
    await page.getByLabel("Subtitles").selectOption({ label: "German" });
    await showsCues(page);
    await screenshot(page, "subtitles");
    await page.getByLabel("Subtitles").selectOption({ label: "No subtitles" });
    await page.waitForFunction(() => Array.from(document.querySelector("video")?.textTracks ?? []).every((track) => track.mode === "disabled"));
    assert.equal(await page.evaluate(shownPast, 0), null);
    assert.deepEqual(complaints, []);
    await close();
  });

  test("our page offers renditions, and changes to the one that is chosen while it plays", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/ladder`);
    await page.getByRole("button", { name: "Play", exact: true }).first().click();
    const viewer = await Viewer.of(page);
    const choice = page.getByLabel("Quality");
    await choice.waitFor();
    const offered = await choice.getByRole("option").allTextContents();
    assert.deepEqual(offered, ["Auto", "90p", "180p", "360p"]);
    assert.equal(await choice.locator("option:checked").textContent(), "Auto");
    for (const label of ["90p", "360p"]) {
      await choice.selectOption({ label });
      await page.waitForFunction((label) => `${document.querySelector("video")?.videoHeight}p` === label, label);
      assert.equal(await choice.locator("option:checked").textContent(), label);
    }
    await screenshot(page, "renditions");
    const report = await viewer.report();
    assert.equal(report.error, null);
    assert.deepEqual(complaints, []);
    await close();
  });

  // Expressions that choose the rendition with this many lines.
  const lines = {
    shaka: (lines: number) =>
      `(player.configure("abr.enabled", false), track => track && (player.selectVariantTrack(track, true), true))(player.getVariantTracks().find((track) => track.height === ${lines}))`,
    dashjs: (lines: number) =>
      `(player.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: false } } } }), one => one && (player.setRepresentationForTypeById("video", one.id, true), true))(player.getRepresentationsByType("video").find((one) => one.height === ${lines}))`,
  };
  for (const [name, file, kind] of [
    ["Shaka Player", "shaka", "hls"],
    ["Shaka Player", "shaka", "dash"],
    ["dash.js", "dashjs", "dash"],
  ] as const) {
    test(`${name} on another's page changes between renditions over ${kind.toUpperCase()}`, async () => {
      const url = `${other.base}/${file}.html?${encodeURIComponent(await address("ladder", kind))}`;
      const { page, complaints, close } = await visit(chromium, url);
      const viewer = await Viewer.of(page);
      await viewer.play(1);
      for (const height of [90, 360, 180]) {
        await page.waitForFunction(lines[file](height));
        await page.waitForFunction((height) => document.querySelector("video")?.videoHeight === height, height);
      }
      const report = await viewer.report();
      assert.equal(report.error, null);
      assert.deepEqual(own(complaints), []);
      await close();
    });
  }

  // Expressions that choose them as soon as the player knows them.
  const german = {
    hlsjs: '(n => n >= 0 && ((hls.subtitleTrack = n), true))(hls.subtitleTracks.findIndex((track) => track.lang === "de"))',
    shaka:
      '(track => track && (player.selectTextTrack(track), player.setTextTrackVisibility?.(true), true))(player.getTextTracks().find((track) => track.language === "de"))',
    dashjs: '(n => n >= 0 && (player.setTextTrack(n), true))(player.getTracksFor("text").findIndex((track) => track.lang === "de"))',
  };
  for (const [name, file, kind] of [
    ["hls.js", "hlsjs", "hls"],
    ["Shaka Player", "shaka", "hls"],
    ["Shaka Player", "shaka", "dash"],
    ["dash.js", "dashjs", "dash"],
  ] as const) {
    test(`${name} on another's page shows subtitles over ${kind.toUpperCase()}`, async () => {
      // Over HLS, Shaka Player shows no cue before it gets a video or audio segment that comes
      // after the cues. So the film must not be loaded completely when the subtitles are chosen.
      const url = `${other.base}/${file}.html?${encodeURIComponent(await address("told", kind))}#8`;
      const { page, complaints, close } = await visit(chromium, url);
      const viewer = await Viewer.of(page);
      await page.waitForFunction(german[file]);
      await viewer.play(1);
      await showsCues(page);
      assert.deepEqual(own(complaints), []);
      await close();
    });
  }

  for (const [title, expected] of Object.entries(codecs)) {
    test(`our page plays “${title}” by hls.js from start to end`, async () => {
      const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/${titlePath(title)}`);
      await page.getByRole("button", { name: "Play", exact: true }).first().click();
      await playsThrough(await Viewer.of(page), expected);
      assert.deepEqual(complaints, []);
      await close();
    });

    test(`dash.js on another's page plays “${title}” from start to end`, async () => {
      const url = `${other.base}/dashjs.html?${encodeURIComponent(await address(title, "dash"))}`;
      const { page, complaints, close } = await visit(chromium, url);
      await playsThrough(await Viewer.of(page), expected);
      assert.deepEqual(own(complaints), []);
      await close();
    });
  }

  for (const [title, expected] of Object.entries(films)) {
    test(`our page plays “${title}” by hls.js from start to end`, async () => {
      const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/${titlePath(title)}`);
      await page.getByRole("button", { name: "Play", exact: true }).first().click();
      const viewer = await Viewer.of(page);
      await playsThrough(viewer, expected);
      assert.deepEqual(complaints, []);
      await close();
    });

    test(`our page plays “${title}” by hls.js with seeks`, async () => {
      const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/${titlePath(title)}`);
      await playsWithSeeks(await Viewer.of(page), expected);
      assert.deepEqual(complaints, []);
      await close();
    });

    const others = [
      ["dash.js", "dashjs", "dash"],
      ["Shaka Player", "shaka", "dash"],
      ["Shaka Player", "shaka", "hls"],
    ] as const;
    for (const [name, file, kind] of others) {
      test(`${name} on another's page plays “${title}” over ${kind.toUpperCase()} from start to end and with seeks`, async () => {
        const url = `${other.base}/${file}.html?${encodeURIComponent(await address(title, kind))}`;
        const { page, complaints, close } = await visit(chromium, url);
        const viewer = await Viewer.of(page);
        await playsThrough(viewer, expected);
        await page.reload();
        await playsWithSeeks(await Viewer.of(page), expected);
        assert.deepEqual(own(complaints), []);
        await close();
      });
    }

    test(`a bare <video> on another's page plays “${title}” as a file with seeks`, async () => {
      const url = `${other.base}/file.html?${encodeURIComponent(await address(title, "file"))}`;
      const { page, complaints, close } = await visit(chromium, url);
      const viewer = await Viewer.of(page);
      await playsWithSeeks(viewer, expected);
      await page.reload();
      const again = await Viewer.of(page);
      await again.play(2);
      playedWell(await again.end(), expected);
      assert.deepEqual(own(complaints), []);
      await close();
    });
  }

  const shapes = [
    ["our page", "hls.js", "hls"],
    ["another's page", "hlsjs", "hls"],
    ["another's page", "dashjs", "dash"],
    ["another's page", "shaka", "dash"],
    ["another's page", "shaka", "hls"],
    ["another's page", "file", "file"],
  ] as const;
  for (const [where, player, kind] of shapes) {
    test(`a rotated film with pixels of 4:3 has its shape on ${where} with ${player} over ${kind}`, async () => {
      const url =
        where === "our page"
          ? `${server.http}/#/film/turned`
          : `${other.base}/${player}.html?${encodeURIComponent(await address("turned", kind))}`;
      const { page, complaints, close } = await visit(chromium, url);
      const viewer = await Viewer.of(page);
      await viewer.play();
      await viewer.reach(1);
      const { width, height, error } = await viewer.report();
      assert.equal(error, null);
      assert.deepEqual([width, height], [180, 427]);
      assert.deepEqual(own(complaints), []);
      await close();
    });
  }

  test("our page plays by the browser's own HLS where there are no media sources", async (t) => {
    const { page, close } = await visit(chromium, `${server.http}/#/live`);
    const knows = await page.evaluate(() => document.createElement("video").canPlayType("application/vnd.apple.mpegurl"));
    if (!knows) return t.skip("this browser has no HLS of its own");
    await page.addInitScript(() => Object.assign(window, { MediaSource: undefined }));
    await page.goto(`${server.http}/#/film/demo`);
    await page.reload();
    const viewer = await Viewer.of(page);
    assert.match(await page.evaluate(() => document.querySelector("video")?.currentSrc ?? ""), /main\.m3u8$/);
    await viewer.play();
    await viewer.reach(2);
    await viewer.seek(15);
    await viewer.seek(20.5);
    const report = await viewer.end();
    assert.equal(report.error, null);
    assert.ok(Math.abs(report.duration - 24) < 0.1);
    await close();
  });

  test("a film of two sound tracks changes its language while it plays, without a stop", async () => {
    const title = "series/B-frames & two tongues";
    const { page, complaints, close } = await visit(chromium, `${server.http}/#/film/${titlePath(title)}`);
    await page.getByRole("button", { name: "Play", exact: true }).first().click();
    const viewer = await Viewer.of(page);
    await viewer.reach(2);
    const choice = page.getByLabel("Sound track");
    assert.deepEqual(await choice.locator("option").allTextContents(), ["English", "German"]);
    await choice.selectOption({ label: "German" });
    await viewer.reach(6);
    assert.equal(await choice.locator("option:checked").textContent(), "German");
    const report = await viewer.report();
    assert.equal(report.error, null);
    assert.deepEqual(complaints, []);
    await close();
  });
});
