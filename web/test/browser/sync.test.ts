// Sound and picture: the demo film's flash and beep, which start together at each full second, come out of the
// decoders together. Seen by Chromium as it plays, and by ffmpeg to the millisecond.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
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

const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;

interface Beats {
  /** How much later the flash is shown than its beep is heard, in ms, beat by beat. */
  lags: number[];
  /** Times of the film at which pictures with a new flash belong, in seconds, as the browser has them. */
  flashes: number[];
}

/** Watches and listens to the page's video as it plays. */
async function beats(page: Parameters<typeof Viewer.of>[0], seconds: number): Promise<Beats> {
  return page.evaluate(async (seconds) => {
    const video = document.querySelector("video");
    if (!video) throw new Error("no video");
    const sound = new AudioContext();
    await sound.audioWorklet.addModule("/onset.js");
    const onset = new AudioWorkletNode(sound, "onset");
    sound.createMediaElementSource(video).connect(onset).connect(sound.destination);
    const beeps: number[] = []; // ms of performance.now()
    onset.port.onmessage = ({ data }: MessageEvent<number>) => {
      const { contextTime = 0, performanceTime = 0 } = sound.getOutputTimestamp();
      beeps.push(performanceTime + (data - contextTime) * 1000);
    };
    const flashes: { shown: number; time: number }[] = [];
    const canvas = new OffscreenCanvas(1, 1);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    let white = false;
    const look: VideoFrameRequestCallback = (_, frame) => {
      // The disc of the dial, clear of the digits (assets/make-demo.sh).
      context?.drawImage(video, 375, 137, 38, 38, 0, 0, 1, 1);
      const lit = (context?.getImageData(0, 0, 1, 1).data[1] ?? 0) > 160;
      if (lit && !white) flashes.push({ shown: frame.expectedDisplayTime, time: frame.mediaTime });
      white = lit;
      video.requestVideoFrameCallback(look);
    };
    video.requestVideoFrameCallback(look);
    await video.play();
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const lags = flashes.flatMap(({ shown }) => {
      const beep = beeps.reduce((near, beep) => (Math.abs(beep - shown) < Math.abs(near - shown) ? beep : near), -Infinity);
      return Math.abs(beep - shown) < 400 ? [shown - beep] : [];
    });
    return { lags, flashes: flashes.map(({ time }) => time) };
  }, seconds);
}

/** Opens a film in a player of another's page, seeks to `start` and watches for some seconds. */
async function watched(player: string, path: string, start: number): Promise<Beats> {
  const { page, close } = await visit(chromium, `${other.base}/${player}.html?${encodeURIComponent(`${server.http}/${path}`)}`);
  await Viewer.of(page);
  await page.evaluate((start) => {
    const video = document.querySelector("video");
    if (video && start > 0) video.currentTime = start;
  }, start);
  const found = await beats(page, 8);
  await close();
  assert.ok(found.lags.length >= 5, `saw and heard ${found.lags.length} beats in 8 s`);
  return found;
}

describe("in Chromium flash and beep come together", () => {
  const ways = [
    ["the file itself", "file", "demo/file"],
    ["hls.js", "hlsjs", "demo/hls/main.m3u8"],
    ["dash.js", "dashjs", "demo/dash/main.mpd"],
    ["Shaka Player", "shaka", "demo/dash/main.mpd"],
  ] as const;
  // What lies between a browser's decoders and our ear and eye differs by some ten milliseconds for sound and picture
  // alike in all players. The film's own file, played by the browser alone, shows how much that is here.
  let here = 0;
  for (const [name, player, path] of ways) {
    for (const start of [0, 13.3]) {
      test(`by ${name}, ${start === 0 ? "from the start" : `after a seek to ${start} s`}`, async (t) => {
        const { lags, flashes } = await watched(player, path, start);
        const lag = median(lags);
        t.diagnostic(`flash after beep: ${lags.map((lag) => lag.toFixed(0)).join(", ")} ms; median ${lag.toFixed(0)}`);
        if (player === "file" && start === 0) here = lag;
        assert.ok(Math.abs(lag) < 80, `far from together: ${lag} ms`);
        assert.ok(Math.abs(lag - here) < 40, `${lag} ms, and ${here} ms in the film's own file`);

        // The picture that begins a flash belongs to a full second, or the first that this machine had time to show
        // is the second and last of the flash.
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
    // ffmpeg 5.1 reads rubbish after a seek in HLS of fMP4, in what itself wrote too.
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

/** Times at which flashes begin, in seconds, from `start` on. */
async function flashes(url: string, start: number): Promise<number[]> {
  const brightness = "crop=48:48:370:132,signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-";
  const bright = await measured(url, start, ["-map", "0:v:0", "-vf", brightness], (luma) => luma > 160);
  return beginnings(bright, 0.1);
}

/** Times at which beeps begin, in seconds, from `start` on. */
async function beeps(url: string, start: number): Promise<number[]> {
  const loudness =
    "aformat=channel_layouts=mono,asetnsamples=48,astats=metadata=1:reset=1:length=0.01," +
    "ametadata=print:key=lavfi.astats.Overall.Peak_level:file=-";
  const loud = await measured(url, start, ["-map", "0:a:0", "-af", loudness], (peak) => peak > -26);
  return beginnings(loud, 0.3);
}

/** Times of the film at which a filter measured what `counts`. */
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

/** The times that come after a pause of `pause` seconds or more. */
const beginnings = (times: number[], pause: number) => times.filter((time, i) => time - (times[i - 1] ?? -Infinity) > pause);
