// A viewer: plays a <video> on a page, and records what a person would complain about.
import assert from "node:assert/strict";
import type { Page } from "playwright-core";

export interface Report {
  duration: number;
  position: number;
  ended: boolean;
  error: string | null;
  buffered: [start: number, end: number][];
  /** Positions where playback stopped for lack of data without a seek. Stops with data loaded
   * are the decoder's, on a busy machine. */
  stalls: number[];
  width: number;
  height: number;
  pictures: number;
  /** Pictures that the decoder could not show. */
  corrupted: number;
  paused: boolean;
  /** HTMLMediaElement.readyState. */
  ready: number;
}

export class Viewer {
  private constructor(private readonly page: Page) {}

  /** Attaches to the page's <video> once its metadata is loaded. */
  static async of(page: Page): Promise<Viewer> {
    await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= HTMLMediaElement.HAVE_METADATA, null, {
      timeout: 20_000,
    });
    await page.evaluate(() => {
      const video = document.querySelector("video");
      if (!video) throw new Error("no video");
      const stalls: number[] = [];
      let settled = false; // true from the first picture after a start or seek
      video.addEventListener("seeking", () => (settled = false));
      video.addEventListener("playing", () => (settled = true));
      video.addEventListener("waiting", () => {
        if (!settled || video.seeking || video.ended) return;
        const { buffered, currentTime } = video;
        const ranges = Array.from({ length: buffered.length }, (_, i) => [buffered.start(i), buffered.end(i)] as const);
        const here = ranges.find(([start, end]) => start <= currentTime && currentTime <= end);
        // In the film's last half second, there is no more to load.
        const isAtHand = here && (here[1] - currentTime >= 0.5 || here[1] >= video.duration - 0.1);
        if (!isAtHand) stalls.push(currentTime);
      });
      Object.assign(window, { stalls });
    });
    return new Viewer(page);
  }

  async report(): Promise<Report> {
    return this.page.evaluate(() => {
      const video = document.querySelector("video");
      if (!video) throw new Error("no video");
      const quality = video.getVideoPlaybackQuality() as VideoPlaybackQuality & { corruptedVideoFrames?: number };
      return {
        duration: video.duration,
        position: video.currentTime,
        ended: video.ended,
        error: video.error ? `${video.error.code} ${video.error.message}` : null,
        buffered: Array.from({ length: video.buffered.length }, (_, i): [number, number] => [
          video.buffered.start(i),
          video.buffered.end(i),
        ]),
        stalls: (window as unknown as { stalls: number[] }).stalls,
        width: video.videoWidth,
        height: video.videoHeight,
        pictures: quality.totalVideoFrames,
        corrupted: quality.corruptedVideoFrames ?? 0,
        paused: video.paused,
        ready: video.readyState,
      };
    });
  }

  /** Plays from the current position. */
  async play(speed = 1): Promise<void> {
    await this.page.evaluate((speed) => {
      const video = document.querySelector("video");
      if (!video) return;
      video.playbackRate = speed;
      return video.play();
    }, speed);
  }

  async pause(): Promise<void> {
    await this.page.evaluate(() => document.querySelector("video")?.pause());
  }

  /** Seeks, and waits until playback has advanced by `seconds` from there. */
  async seek(to: number, seconds = 1.5): Promise<void> {
    await this.page.evaluate((to) => {
      const video = document.querySelector("video");
      if (video) video.currentTime = to;
    }, to);
    await this.reach(to + seconds);
    const { position } = await this.report();
    assert.ok(position < to + seconds + 3, `sought ${to} s, but is at ${position} s`);
  }

  /** Waits until playback has reached this time. */
  async reach(time: number, patience = 30_000): Promise<void> {
    await this.page
      .waitForFunction(
        (time) => {
          const video = document.querySelector("video");
          return video && !video.seeking && (video.currentTime >= time || video.ended);
        },
        time,
        { timeout: patience, polling: 100 },
      )
      .catch(async () => assert.fail(`did not reach ${time} s: ${JSON.stringify(await this.report())}`));
  }

  /** Waits for the film's end. */
  async end(patience = 90_000): Promise<Report> {
    await this.page
      .waitForFunction(() => document.querySelector("video")?.ended, null, { timeout: patience, polling: 100 })
      .catch(async () => assert.fail(`did not come to the end: ${JSON.stringify(await this.report())}`));
    return this.report();
  }
}

export interface Expected {
  duration: number;
  width: number;
  height: number;
}

/** Checks a film that was played to its end: its length, no stalls, and no gaps in what was
 * loaded. */
export function playedWell(report: Report, expected: Expected): void {
  const details = JSON.stringify(report);
  assert.equal(report.error, null, details);
  assert.ok(report.ended, details);
  assert.ok(Math.abs(report.duration - expected.duration) < 0.1, `${expected.duration} s long, but: ${details}`);
  assert.ok(Math.abs(report.position - report.duration) < 0.1, details);
  assert.deepEqual([report.width, report.height], [expected.width, expected.height], details);
  assert.deepEqual(report.stalls, [], `it stalled: ${details}`);
  assert.equal(report.corrupted, 0, details);
  assert.equal(report.buffered.length, 1, `a hole in what was loaded: ${details}`);
  const [start, end] = report.buffered[0] ?? [NaN, NaN];
  assert.ok(end >= report.duration - 0.1 && start <= report.duration, details);
}

/** Plays the film once from start to end at double speed, and checks the report. */
export async function playsThrough(viewer: Viewer, expected: Expected): Promise<void> {
  await viewer.play(2);
  const report = await viewer.end();
  playedWell(report, expected);
  assert.ok((report.buffered[0]?.[0] ?? 1) < 0.1, `loaded from the start on: ${JSON.stringify(report)}`);
}

/** Seeks forward, back, to odd positions and near the end, and plays from there to the end. */
export async function playsWithSeeks(viewer: Viewer, expected: Expected): Promise<void> {
  await viewer.play(1);
  await viewer.reach(1.5);
  for (const share of [0.71, 0.13, 0.5, 0.337]) await viewer.seek(expected.duration * share);
  await viewer.seek(expected.duration - 4.2, 0.5);
  const report = await viewer.end();
  const details = JSON.stringify(report);
  assert.equal(report.error, null, details);
  assert.deepEqual(report.stalls, [], `it stalled: ${details}`);
  assert.ok(Math.abs(report.position - report.duration) < 0.1, details);
  const last = report.buffered.at(-1);
  assert.ok(last && last[0] <= expected.duration - 4.2 && last[1] >= report.duration - 0.1, `a hole before the end: ${details}`);
}
