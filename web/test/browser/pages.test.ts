// Reelway's pages in a real browser with the real server: what people do there, and that the pages
// are clean: no console messages, no requests to others, no accessibility faults, no layout shifts.
import assert from "node:assert/strict";
import { copyFile, rm } from "node:fs/promises";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import type { Session } from "../../src/api";
import { titlePath } from "../../src/routes";
import { browser, demo, recipes, reelway, screenshot, until, visit, type Reelway } from "./harness";
import { stumbles } from "./stumbles";
import { Viewer } from "./watching";

const odd = "🎬 “Films” & 'more'/50% #1? <b>yes";

let server: Reelway;
let empty: Reelway;
let chromium: Browser;

before(async () => {
  server = await reelway({
    "demo.mp4": recipes.demo,
    "series/B-frames & two tongues.mp4": recipes.bFrames,
    [`${odd}.mp4`]: recipes.demo,
    "music/A tone of eight seconds.mp4": recipes.soundOnly,
    "phone/upright.mp4": recipes.upright,
    "modern/Only H.265.mp4": recipes.h265,
    "modern/Four corners.ts": recipes.quad,
    "broken/No film at all.mp4": recipes.noFilm,
    "broken/Half a film.mp4": recipes.halfCopied,
  });
  empty = await reelway({});
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await server?.stop();
  await empty?.stop();
});

/** The layout shift of a page since it was opened (Cumulative Layout Shift; 0.1 is considered
 * good), and its causes. */
const jumps = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<{ sum: number; what: string[] }>((resolve) => {
        type Shift = PerformanceEntry & { value: number; sources: { node: Element | null; previousRect: DOMRect; currentRect: DOMRect }[] };
        const place = ({ x, y, width, height }: DOMRect) => `${x},${y} ${width}x${height}`;
        const name = (node: Element | null) => `${node?.nodeName ?? "gone"}.${node?.className ?? ""}`;
        let sum = 0;
        const what: string[] = [];
        new PerformanceObserver((list) => {
          for (const { value, startTime, sources } of list.getEntries() as Shift[]) {
            sum += value;
            const moved = sources.map(({ node, previousRect, currentRect }) => `${name(node)} ${place(previousRect)} to ${place(currentRect)}`);
            what.push(`${value} at ${startTime} ms: ${moved.join("; ")}`);
          }
        }).observe({ type: "layout-shift", buffered: true });
        setTimeout(() => resolve({ sum, what }), 200);
      }),
  );

/** Checks that the page's layout shifts by less than this. */
async function still(page: Page, most: number): Promise<void> {
  const { sum, what } = await jumps(page);
  assert.ok(sum < most, `the page jumps by ${sum}: ${what.join("\n")}`);
}

/** The films that the library shows; the placeholders while the list loads are not links. */
const tiles = (page: Page) => page.locator("a.tile");
const tile = (page: Page, name: string) => page.locator("a.tile", { has: page.locator(".tile-name", { hasText: name }) });

describe("the library", () => {
  test("shows every film with its picture, length, size and codecs, and says why one does not play", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/`);
    await tiles(page).first().waitFor();
    assert.equal(await tiles(page).count(), 9);
    assert.equal(await page.locator(".library-count").textContent(), "9 films");

    const demoTile = tile(page, "demo");
    await demoTile.locator("img").waitFor();
    const facts = await demoTile.textContent();
    for (const fact of ["0:24", "640×360", "H.264", "AAC"]) assert.ok(facts?.includes(fact), `${fact} in: ${facts}`);

    assert.match((await tile(page, "No film at all").textContent()) ?? "", /(Cannot be played|Not ready): .{10}/);
    assert.match((await tile(page, "Half a film").textContent()) ?? "", /(Cannot be played|Not ready): .{10}/);
    assert.match((await tile(page, "Only H.265").textContent()) ?? "", /This browser cannot play HEVC/);
    assert.match((await tile(page, "A tone").textContent()) ?? "", /0:08/);
    assert.ok(await tile(page, "50% #1? <b>yes").isVisible());

    await until("four posters are there", async () => (await page.locator(".poster img").count()) >= 4);
    assert.deepEqual(await stumbles(page), []);
    await still(page, 0.02);
    assert.deepEqual(complaints, []);
    await close();
  });

  test("takes posters out of the films without beginning to watch them, and keeps them", async () => {
    const { page, close } = await visit(chromium, `${server.http}/`);
    await tile(page, "demo").locator("img").waitFor();
    const { sessions } = await server.json<{ sessions: Session[] }>("/api/sessions");
    assert.deepEqual(sessions.filter((session) => session.title === "demo" && session.protocol !== "file"), []);
    const colours = await tile(page, "demo")
      .locator("img")
      .evaluate(async (image: HTMLImageElement) => {
        await image.decode();
        const canvas = document.createElement("canvas");
        canvas.width = 16;
        canvas.height = 9;
        const context = canvas.getContext("2d");
        context?.drawImage(image, 0, 0, 16, 9);
        return new Set(context?.getImageData(0, 0, 16, 9).data).size;
      });
    assert.ok(colours > 20, `a picture of ${colours} colours`);

    let segments = 0;
    page.on("request", (request) => (segments += request.url().includes("/demo/seg/") ? 1 : 0));
    await page.reload();
    await tile(page, "demo").locator("img").waitFor();
    assert.equal(segments, 0, "the second time it comes from the browser");
    await close();
  });

  test("searches while one types, sorts, and keeps both in its address", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/`);
    const search = page.getByRole("searchbox");
    await search.fill("BROKEN");
    await until("two films are left", async () => (await tiles(page).count()) === 2);
    await search.fill("no such thing");
    await page.getByText("No film has “no such thing”").waitFor();
    await page.getByRole("link", { name: "Show all films" }).click();
    await until("all are back", async () => (await tiles(page).count()) === 9);

    await page.getByLabel("Sort by").selectOption({ label: "Longest" });
    await until("the longest is first", async () => (await page.locator(".tile-name").first().textContent())?.startsWith("B-frames") ?? false);
    await search.fill("o");
    await until("the address has both", async () => new URL(page.url()).hash === "#/?q=o&sort=-duration");
    await page.reload();
    await tiles(page).first().waitFor();
    assert.equal(await search.inputValue(), "o");
    assert.equal(await page.getByLabel("Sort by").inputValue(), "-duration");
    assert.deepEqual(complaints, []);
    await close();
  });

  test("that is empty says what to do, and shows a film as soon as there is one", async () => {
    const { page, complaints, close } = await visit(chromium, `${empty.http}/`);
    await page.getByRole("heading", { name: "No films yet" }).waitFor();
    await screenshot(page, "library-empty");
    assert.deepEqual(await stumbles(page), []);
    const path = join(empty.films, "new.mp4");
    await copyFile(demo, path);
    await tile(page, "new").locator("img").waitFor();
    await rm(path);
    await page.getByRole("heading", { name: "No films yet" }).waitFor();
    assert.deepEqual(complaints, []);
    await close();
  });
});

describe("the library of a tab that nobody looked at", () => {
  test("shows what has changed meanwhile", async () => {
    const { page, complaints, close } = await visit(chromium, `${empty.http}/`);
    const hide = (hidden: boolean) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.getByRole("heading", { name: "No films yet" }).waitFor();
    await hide(true);
    const path = join(empty.films, "meanwhile.mp4");
    await copyFile(demo, path);
    type List = { films: { state: string }[] };
    await until("the film is ready", async () => ((await (await fetch(`${empty.http}/api/films`)).json()) as List).films[0]?.state === "ready");
    assert.equal(await tiles(page).count(), 0, "a hidden page asks for nothing");
    await hide(false);
    await tile(page, "meanwhile").waitFor();
    await rm(path);
    assert.deepEqual(complaints, []);
    await close();
  });
});

describe("the player", () => {
  const open = async (title: string, options?: BrowserContextOptions) => visit(chromium, `${server.http}/#/film/${titlePath(title)}`, options);
  const start = (page: Page) => page.getByRole("button", { name: "Play", exact: true }).first().click();

  test("opens a film of the library whose title has quotes, a percent sign, a slash and markup, and plays it", async () => {
    const { page, complaints, close } = await visit(chromium, `${server.http}/`);
    await tile(page, "50% #1? <b>yes").click();
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "50% #1? <b>yes");
    await start(page);
    const viewer = await Viewer.of(page);
    await viewer.seek(10);
    for (const name of ["HLS", "DASH", "File"]) {
      const address = await page.locator(".address", { hasText: name }).locator("code").first().textContent();
      assert.equal((await fetch(address ?? "")).status, 200, `${name}: ${address}`);
    }
    assert.deepEqual(complaints, []);
    await close();
  });

  test("obeys the keys that its help names", async () => {
    const { page, complaints, close } = await open("demo");
    const viewer = await Viewer.of(page);
    const video = page.locator("video");
    const state = () => video.evaluate((video: HTMLVideoElement) => ({ at: video.currentTime, paused: video.paused, muted: video.muted, speed: video.playbackRate, volume: video.volume }));
    await page.keyboard.press("k");
    await viewer.reach(0.5);
    await page.keyboard.press("Space");
    assert.equal((await state()).paused, true);
    await page.keyboard.press("5");
    assert.equal((await state()).at, 12);
    await page.keyboard.press("ArrowRight");
    assert.equal((await state()).at, 17);
    await page.keyboard.press("j");
    assert.equal((await state()).at, 7);
    await page.keyboard.press(".");
    assert.ok(Math.abs((await state()).at - 7.04) < 0.001);
    await page.keyboard.press(">");
    assert.equal((await state()).speed, 1.25);
    await page.keyboard.press("m");
    assert.equal((await state()).muted, true);
    await page.keyboard.press("ArrowDown");
    assert.deepEqual([(await state()).muted, (await state()).volume], [false, 0.9]);
    await page.keyboard.press("f");
    await page.waitForFunction(() => document.fullscreenElement?.classList.contains("player"));
    await page.keyboard.press("f");
    await page.waitForFunction(() => !document.fullscreenElement);

    // On the seek bar itself, an arrow key works once, not twice.
    await page.getByRole("slider", { name: "Position" }).focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(Math.abs((await state()).at - 12.04) < 0.001, `at ${(await state()).at}`);
    assert.match((await page.getByRole("slider", { name: "Position" }).getAttribute("aria-valuetext")) ?? "", /12 seconds of 24 seconds/);
    assert.deepEqual(complaints, []);
    await close();
  });

  test("copies addresses", async () => {
    const { page, close } = await open("demo", { permissions: ["clipboard-read", "clipboard-write"] });
    await page.getByRole("button", { name: "Copy the RTSP address" }).click();
    await page.getByText("Copied").waitFor({ state: "attached" });
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${server.rtsp}/demo`);
    await close();
  });

  test("plays a film of sound alone", async () => {
    const { page, complaints, close } = await open("music/A tone of eight seconds");
    await start(page);
    const viewer = await Viewer.of(page);
    await viewer.reach(1);
    await viewer.seek(6, 0.5);
    assert.ok((await viewer.end()).ended);
    assert.deepEqual(complaints, []);
    await close();
  });

  test("says plainly what this browser cannot play, and what can", async () => {
    const { page, complaints, close } = await open("modern/Only H.265");
    await page.getByText(/This browser cannot play HEVC.*video \(hvc1/).waitFor();
    assert.match((await page.locator(".player-stand").textContent()) ?? "", /VLC, ffplay or GStreamer/);
    assert.deepEqual(await stumbles(page), []);
    await screenshot(page, "film-other-players");
    assert.deepEqual(complaints, []);
    await close();
  });

  test("says that a browser cannot play AAC whose channels have no number, though it says it can", async () => {
    const { page, complaints, close } = await open("modern/Four corners");
    await page.getByText("This browser cannot play AAC-LC (4 channels in an order of their own) audio.").waitFor();
    assert.deepEqual(complaints, []);
    await close();
  });

  test("says why a broken film does not play, and that a film does not exist", async () => {
    const { page, close } = await open("broken/No film at all");
    await page.getByText(/cannot be played|not ready yet/).first().waitFor();
    await page.goto(`${server.http}/#/film/nowhere`);
    await page.getByText("There is no such film").waitFor();
    await close();
  });

  test("plays when Play is pressed in the very moment in which the film begins to load", async () => {
    const { page, close } = await visit(chromium, `${server.http}/favicon.svg`);
    await page.addInitScript(() => {
      const own = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "src");
      Object.defineProperty(HTMLMediaElement.prototype, "src", {
        ...own,
        set(this: HTMLMediaElement, value: string) {
          const play = document.querySelector<HTMLElement>(".player button[aria-label=Play]");
          if (this.matches(".player video")) play?.click();
          own?.set?.call(this, value);
        },
      });
    });
    await page.goto(`${server.http}/#/film/demo`);
    await (await Viewer.of(page)).reach(1);
    await close();
  });

  test("goes on where it stood, and as it did, when it is tried again", async () => {
    const { page, close } = await visit(chromium, `${server.http}/favicon.svg`);
    const behind = /\/seg\/\d+\/[3-9]\.m4s/;
    await page.route(behind, (route) => route.fulfill({ status: 404 }));
    await page.goto(`${server.http}/#/film/demo`);
    await page.getByRole("alert").filter({ hasText: "no longer has this film" }).waitFor();
    const viewer = await Viewer.of(page);
    await page.keyboard.press("k");
    await page.keyboard.press(">");
    await page.keyboard.press("ArrowRight");
    await viewer.reach(6);
    const video = page.locator("video");
    const resumed = video.evaluate(
      (video: HTMLVideoElement) =>
        new Promise<{ at: number; before: number; speed: number }>((resolve) => {
          let before = video.currentTime;
          const note = () => (before = Math.max(before, video.currentTime));
          video.addEventListener("timeupdate", note);
          video.addEventListener("emptied", () => {
            video.removeEventListener("timeupdate", note);
            video.addEventListener("playing", () => resolve({ at: video.currentTime, before, speed: video.playbackRate }), { once: true });
          });
        }),
    );
    // The first attempt fails, as all requests do.
    const again = page.getByRole("button", { name: "Try again" });
    await page.route(/\/hls\//, (route) => route.fulfill({ status: 404 }));
    const refused = page.waitForResponse(/\/hls\//);
    await again.click();
    await refused;
    await again.waitFor();
    await page.unrouteAll();
    await again.click();
    const { at, before, speed } = await resumed;
    assert.ok(before >= 6 && at >= before - 0.5 && at < before + 3, `it stood at ${before}, and goes on at ${at}`);
    assert.equal(speed, 1.25);
    await viewer.reach(14);
    await close();
  });

  test("is clean and does not jump", async () => {
    const { page, complaints, close } = await open("series/B-frames & two tongues");
    await start(page);
    const viewer = await Viewer.of(page);
    await viewer.reach(1);
    await viewer.pause();
    assert.deepEqual(await stumbles(page), []);
    await still(page, 0.1);
    assert.deepEqual(complaints, []);
    await close();
  });
});

describe("the live page", () => {
  test("shows who watches what over which protocol, and ends a session for who has the token", async () => {
    const server = await reelway({ "Ten minutes.mp4": recipes.long });
    const ffmpeg = ["-v", "error", "-nostdin", "-re", "-rtsp_transport", "udp", "-i", `${server.rtsp}/Ten%20minutes`, "-f", "null", "-"];
    const watching = spawn("ffmpeg", ffmpeg, { stdio: "ignore" });
    const film = await visit(chromium, `${server.http}/#/film/${titlePath("Ten minutes")}`);
    await film.page.getByRole("button", { name: "Play", exact: true }).first().click();
    await (await Viewer.of(film.page)).reach(1);
    const { page, complaints, close } = await visit(chromium, `${server.http}/#/live`);
    try {
      const rows = page.locator(".sessions tbody tr");
      const rtsp = rows.filter({ hasText: "RTSP/UDP" });
      const hls = rows.filter({ hasText: "HLS" });
      await rtsp.waitFor();
      await hls.waitFor();
      const position = () => rtsp.locator(".clock", { hasText: "/ 10:00" }).textContent();
      const first = await position();
      await until("positions go on", async () => (await position()) !== first);
      assert.match((await rtsp.textContent()) ?? "", /Ten minutes.*127\.0\.0\.1.*Lavf/);
      await rtsp.filter({ hasText: "kbit/s" }).waitFor(); // measured every few seconds
      assert.deepEqual(await stumbles(page), []);

      await rtsp.getByRole("button", { name: /^End the session of/ }).click();
      const dialog = page.getByRole("dialog");
      assert.deepEqual(await stumbles(page), []);
      await screenshot(page, "live-token");
      await dialog.getByLabel("Token").fill("wrong");
      await dialog.getByRole("button", { name: "Go on" }).click();
      await until("the wrong one is refused", async () => ((await dialog.getByRole("alert").textContent()) ?? "") !== "");
      complaints.length = 0; // the browser logs the rejection to its console
      await dialog.getByLabel("Token").fill(server.token);
      await dialog.getByRole("button", { name: "Go on" }).click();
      await rtsp.waitFor({ state: "detached" });

      // The token is asked for only once.
      await hls.getByRole("button", { name: /^End the session of/ }).click();
      await hls.waitFor({ state: "detached" });
      assert.equal(await dialog.count(), 0);
      await film.page.keyboard.press("9"); // to a position that is not loaded yet
      await film.page.getByText("The server has ended this session.").waitFor();
      assert.deepEqual(complaints, []);
    } finally {
      watching.kill();
      await film.close();
      await close();
      await server.stop();
    }
  });

  test("shows what is wrong with the server", async () => {
    const unwell = await reelway({ "demo.mp4": recipes.demo }, { withoutIndexFiles: true });
    try {
      const { page, complaints, close } = await visit(chromium, `${unwell.http}/#/live`);
      const problem = page.getByRole("alert").filter({ hasText: "Problem: state directory" });
      await problem.waitFor();
      assert.match((await problem.textContent()) ?? "", /index files cannot be written to .*kept in memory, at most 64 MiB/);
      assert.deepEqual(await stumbles(page), []);
      assert.deepEqual(complaints, []);
      await screenshot(page, "live-problem");
      await close();
    } finally {
      await unwell.stop();
    }
  });

  test("tells when the server has gone, and goes on by itself when it is back", async () => {
    const { page, close } = await visit(chromium, `${server.http}/#/live`);
    await page.getByText("Nobody is watching").or(page.locator(".sessions")).first().waitFor();
    await page.context().setOffline(true);
    await page.route("**/api/events", (route) => route.abort());
    await page.reload().catch(() => undefined);
    await page.context().setOffline(false);
    await page.reload();
    await page.getByText("Server does not answer").waitFor();
    await page.unroute("**/api/events");
    await page.getByText("Server does not answer").waitFor({ state: "detached" });
    await close();
  });
});

describe("screenshots for people to look at", () => {
  const looks: [name: string, options: BrowserContextOptions][] = [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark" }],
    ["phone", { colorScheme: "light", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }],
    ["phone-dark", { colorScheme: "dark", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }],
  ];
  for (const [name, options] of looks) {
    test(`of library, player and live page, ${name}; nothing sticks out at the side, and contrast is good`, async () => {
      const { page, complaints, close } = await visit(chromium, `${server.http}/`, options);
      const fits = async () => {
        const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(content !== undefined && window !== undefined && content <= window, `${content} px in a window of ${window}`);
      };
      await tile(page, "demo").locator("img").waitFor();
      await page.waitForTimeout(1500);
      await fits();
      assert.deepEqual(await stumbles(page), []);
      await screenshot(page, `library-${name}`, true);

      await page.goto(`${server.http}/#/film/${titlePath("series/B-frames & two tongues")}`);
      await page.getByRole("button", { name: "Play", exact: true }).first().click();
      const viewer = await Viewer.of(page);
      await viewer.seek(9.5);
      await viewer.pause();
      await fits();
      const last = await page.getByRole("button", { name: "Whole screen" }).boundingBox();
      const width = page.viewportSize()?.width ?? 0;
      assert.ok(last && last.x + last.width <= width, `the last control ends at ${last && last.x + last.width} of ${width} px`);
      assert.deepEqual(await stumbles(page), []);
      await screenshot(page, `film-${name}`, true);

      await page.goto(`${server.http}/#/live`);
      await page.locator(".sessions tbody tr").first().waitFor();
      await page.waitForTimeout(1500);
      await fits();
      assert.deepEqual(await stumbles(page), []);
      await screenshot(page, `live-${name}`, true);
      assert.deepEqual(complaints, []);
      await close();
    });
  }
});
