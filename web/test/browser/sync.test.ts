// Audio and video: the demo film's flash and beep, which start together at each full second, leave
// the decoders together. Measured in Chromium during playback, and by ffmpeg to the millisecond.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { browser, elsewhere, ffmpeg, recipes, reelway, visit, type Reelway } from "./harness";
import { Viewer } from "./watching";

let server: Reelway;
let chromium: Browser;
let other: Awaited<ReturnType<typeof elsewhere>>;

before(async () => {
  server = await reelway({ "demo.mp4": recipes.demo });
  chromium = await browser();
  other = await elsewhere();
});

after(async () => {
  await chromium?.close();
  await server?.stop();
  await other?.stop();
});

/** The film times, in seconds, at which flashes and beeps begin in the browser. */
interface Beats {
  flashes: number[];
  beeps: number[];
}

/** Watches and listens to the page's video during playback. */
async function beats(page: Page, seconds: number): Promise<Beats> {
  return page.evaluate(async (seconds) => {
    const video = document.querySelector("video");
    if (!video) throw new Error("no video");
    const sound = new AudioContext();
    await sound.audioWorklet.addModule("/onset.js");
    const onset = new AudioWorkletNode(sound, "onset");
    sound.createMediaElementSource(video).connect(onset).connect(sound.destination);
    const beeps: number[] = [];
    // The film's time follows the audio that has been handed over. So a beep that began at `began`
    // in the audio context's time began in the film as long ago as that time has advanced since.
    onset.port.onmessage = ({ data: began }: MessageEvent<number>) => beeps.push(video.currentTime - (sound.currentTime - began));

    const flashes: number[] = [];
    const canvas = new OffscreenCanvas(1, 1);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    let white = false;
    const look: VideoFrameRequestCallback = (_, frame) => {
      // The disc of the dial, clear of the digits (assets/make-demo.sh).
      context?.drawImage(video, 375, 137, 38, 38, 0, 0, 1, 1);
      const lit = (context?.getImageData(0, 0, 1, 1).data[1] ?? 0) > 160;
      if (lit && !white) flashes.push(frame.mediaTime);
      white = lit;
      video.requestVideoFrameCallback(look);
    };
    video.requestVideoFrameCallback(look);
    await video.play();
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    return { flashes, beeps };
  }, seconds);
}

/** Opens a film in a player on another origin's page, seeks to `start`, and watches for some
 * seconds. */
async function watched(player: string, path: string, start: number): Promise<Beats> {
  const { page, close } = await visit(chromium, `${other.base}/${player}.html?${encodeURIComponent(`${server.http}/${path}`)}`);
  await Viewer.of(page);
  await page.evaluate((start) => {
    const video = document.querySelector("video");
    if (video && start > 0) video.currentTime = start;
  }, start);
  const found = await beats(page, 6.5);
  await close();
  return found;
}

describe("in Chromium flash and beep come together", () => {
  const ways = [
    ["hls.js", "hlsjs", "demo/hls/main.m3u8"],
    ["dash.js", "dashjs", "demo/dash/main.mpd"],
    ["Shaka Player", "shaka", "demo/dash/main.mpd"],
    ["the file itself", "file", "demo/file"],
  ] as const;
  for (const [name, player, path] of ways) {
    for (const start of [0, 13.3]) {
      test(`by ${name}, ${start === 0 ? "from the start" : `after a seek to ${start} s`}`, async (t) => {
        const { flashes, beeps } = await watched(player, path, start);
        const milliseconds = (times: number[]) => times.map((time) => `${((time - Math.round(time)) * 1000).toFixed(0)}`).join(", ");
        t.diagnostic(`past the second, in ms: flashes ${milliseconds(flashes)}; beeps ${milliseconds(beeps)}`);

        // While playback starts, audio is not yet handed over evenly: the first beat does not
        // count.
        const heard = beeps.filter((time) => time > start + 0.5);
        assert.ok(heard.length >= 4, `heard ${heard.length} beeps in 6.5 s`);
        for (const time of heard) assert.ok(Math.abs(time - Math.round(time)) < 0.02, `a beep at ${time} s`);

        // A flash begins with the picture at a full second; if this machine had no time to show
        // that one, it was first seen in the next, which is the flash's second and last.
        assert.ok(flashes.length >= 4, `saw ${flashes.length} flashes in 6.5 s`);
        for (const time of flashes) {
          const past = Math.min(...[0, 0.04].map((picture) => Math.abs(time - picture - Math.round(time - picture))));
          assert.ok(past < 0.002, `a flash at ${time} s`);
        }
      });
    }
  }
});

describe("decoded by ffmpeg, flash and beep start on the full seconds, to 5 ms", () => {
  for (const path of ["demo/hls/main.m3u8", "demo/dash/main.mpd", "demo/file"]) {
    // ffmpeg 5.1 reads garbage after a seek in HLS with fMP4, even in its own.
    for (const start of path.includes("hls") ? [0] : [0, 9.5]) {
      test(`${path}${start ? ` from ${start} s on` : ""}`, async () => {
        const seconds = Array.from({ length: 24 }, (_, second) => second).filter((second) => second >= start);
        const near = (times: number[]) => times.map((time) => (Math.abs(time - Math.round(time)) < 0.005 ? Math.round(time) : time));
        assert.deepEqual(near(await flashes(`${server.http}/${path}`, start)), seconds);
        assert.deepEqual(near(await beeps(`${server.http}/${path}`, start)), seconds);
      });
    }
  }
});

/** The times at which flashes begin, in seconds, from `start` on. */
async function flashes(url: string, start: number): Promise<number[]> {
  const brightness = "crop=48:48:370:132,signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-";
  const bright = await measured(url, start, ["-map", "0:v:0", "-vf", brightness], (luma) => luma > 160);
  return beginnings(bright, 0.1);
}

/** The times at which beeps begin, in seconds, from `start` on. */
async function beeps(url: string, start: number): Promise<number[]> {
  const loudness =
    "aformat=channel_layouts=mono,asetnsamples=48,astats=metadata=1:reset=1:length=0.01," +
    "ametadata=print:key=lavfi.astats.Overall.Peak_level:file=-";
  const loud = await measured(url, start, ["-map", "0:a:0", "-af", loudness], (peak) => peak > -26);
  return beginnings(loud, 0.3);
}

/** The film times at which a filter's value satisfies `counts`. */
async function measured(url: string, start: number, filter: string[], counts: (value: number) => boolean): Promise<number[]> {
  const seek = start > 0 ? ["-ss", String(start)] : [];
  const lines = (await ffmpeg(...seek, "-copyts", "-i", url, ...filter, "-f", "null", "-")).split("\n");
  let time = NaN;
  const times: number[] = [];
  for (const line of lines) {
    const [, at] = /pts_time:(-?[\d.]+)/.exec(line) ?? [];
    const [, value] = /^lavfi[\w.]+=(-?[\d.]+)$/.exec(line) ?? [];
    if (at) time = Number(at);
    else if (value && time >= start && counts(Number(value))) times.push(time);
  }
  return times;
}

/** The times that follow a pause of at least `pause` seconds. */
const beginnings = (times: number[], pause: number) => times.filter((time, i) => time - (times[i - 1] ?? -Infinity) > pause);
