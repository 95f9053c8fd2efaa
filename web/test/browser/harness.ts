// What the browser tests share: a Reelway server with its own films, a Chromium, and a web server
// with another origin for pages that are not Reelway's.
//
// The server is the one at REELWAY_BIN. All traffic stays on loopback. Screenshots and problems are
// saved to artifacts/web in the repository.
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createReadStream, existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createServer as createSocket, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, extname, join } from "node:path";
import { promisify } from "node:util";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

const run = promisify(execFile);

/** The folder web/, where the tests are started. */
export const web = process.cwd();
export const demo = join(web, "../assets/demo.mp4");
export const artifacts = join(web, "../artifacts/web");

// Films

/** Runs ffmpeg quietly; returns its standard output. */
export async function ffmpeg(...args: string[]): Promise<string> {
  const { stdout } = await run("ffmpeg", ["-hide_banner", "-loglevel", "fatal", "-nostdin", "-y", ...args], {
    maxBuffer: 64 << 20,
  });
  return stdout;
}

/** Makes a film; its name below the film directory determines the path. */
export type Recipe = (path: string) => Promise<unknown>;

/** One cue per second; %s is the second. */
export const subtitles =
  (words: string): Recipe =>
  (path: string) => {
    const cue = (second: number) => {
      const time = `00:00:${String(second).padStart(2, "0")}`;
      return `${time},000 --> ${time},900\n${words.replace("%s", `<i>${second}</i>`)}\n`;
    };
    return writeFile(path, Array.from({ length: 24 }, (_, second) => cue(second)).join("\n"));
  };

export const recipes = {
  demo: (path: string) => copyFile(demo, path),

  /** 40 s, 29.97 pictures per second, B-frames used as references, GOPs of different lengths,
   * two audio tracks. */
  bFrames: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=480x270:r=30000/1001:d=40"],
      ...["-f", "lavfi", "-i", "sine=f=440:r=44100:d=40", "-f", "lavfi", "-i", "sine=f=660:r=44100:d=40"],
      ...["-map", "0:v", "-map", "1:a", "-map", "2:a", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "700k"],
      ...["-bf", "3", "-x264-params", "b-pyramid=normal:keyint=90:min-keyint=20:scenecut=0"],
      ...["-force_key_frames", "1.3,4,9.1,17,18.2,31", "-pix_fmt", "yuv420p"],
      ...["-c:a", "aac", "-b:a", "64k", "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu", path],
    ),

  /** This many seconds as a recorder writes them. */
  recording: (seconds: number) => (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", `testsrc2=s=320x180:r=25:d=${seconds}`, "-f", "lavfi", "-i", `sine=f=330:r=48000:d=${seconds}`],
      ...["-c:v", "libx264", "-preset", "veryfast", "-b:v", "500k", "-maxrate", "500k", "-bufsize", "250k", "-g", "25"],
      ...["-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mpegts", path],
    ),

  /** Ten minutes; a player loads at most the first when it starts. */
  long: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=160x90:r=5:d=600", "-c:v", "libx264", "-preset", "ultrafast"],
      ...["-g", "10", "-pix_fmt", "yuv420p", path],
    ),

  webm: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=10", "-f", "lavfi", "-i", "sine=f=330:r=48000:d=10"],
      ...["-c:v", "libvpx-vp9", "-b:v", "300k", "-g", "50", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus", path],
    ),

  flac: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=10", "-f", "lavfi", "-i", "sine=f=330:r=48000:d=10"],
      ...["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-c:a", "flac", path],
    ),

  /** The demo film in three chapters, which begin at 0, 8 and 16 s. */
  chapters: async (path: string) => {
    const list = `${path}.chapters`;
    const chapters = ["Opening", "Über den Wolken", ""].map(
      (name, number) => `[CHAPTER]\nTIMEBASE=1/1\nSTART=${8 * number}\nEND=${8 * number + 8}\n${name && `title=${name}\n`}`,
    );
    await writeFile(list, [";FFMETADATA1\n", ...chapters].join(""));
    await ffmpeg("-i", demo, "-f", "ffmetadata", "-i", list, "-map_chapters", "1", "-c", "copy", path);
    await rm(list);
  },

  /** A rendition of the demo film with this many lines, and a key frame every second. */
  rendition: (lines: number) => (path: string) =>
    ffmpeg(
      ...["-i", demo, "-vf", `scale=-2:${lines}`, "-c:v", "libx264", "-preset", "ultrafast", "-b:v", `${lines * 2}k`],
      ...["-force_key_frames", "expr:gte(t,n_forced)", "-sc_threshold", "0", "-c:a", "copy", path],
    ),

  soundOnly: (path: string) => ffmpeg("-f", "lavfi", "-i", "sine=f=330:d=8", "-c:a", "aac", path),

  h265: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-c:v", "libx265", "-preset", "ultrafast"],
      ...["-x265-params", "log-level=none", "-tag:v", "hvc1", "-pix_fmt", "yuv420p", path],
    ),

  /** AAC with four channels, a layout that has no number in its configuration. */
  quad: (path: string) =>
    ffmpeg(
      ...["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "anoisesrc=d=4:a=0.1"],
      ...["-af", "aformat=channel_layouts=quad", "-c:a", "aac"],
      ...["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", path],
    ),

  upright: (path: string) =>
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=360x640:r=25:d=8", "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", path),

  /** Rotated by 90 degrees, 320 by 180 pixels of 4:3: browsers show a picture of 180 by 427. */
  turned: async (path: string) => {
    const plain = join(await mkdtemp(join(tmpdir(), "reelway-turned-")), "plain.mp4");
    await ffmpeg("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=8", "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", plain);
    await ffmpeg("-i", plain, "-c", "copy", "-metadata:s:v:0", "rotate=90", "-aspect:v", "64:27", path);
    await rm(dirname(plain), { recursive: true });
  },

  noFilm: (path: string) => writeFile(path, "This is no film.\n".repeat(500)),

  halfCopied: async (path: string) => {
    await copyFile(demo, path);
    await truncate(path, 200_000);
  },
};

// The server

export interface Reelway {
  /** `http://127.0.0.1:PORT` */
  http: string;
  /** `rtsp://127.0.0.1:PORT` */
  rtsp: string;
  /** The directory; empty for an edge. */
  films: string;
  token: string;
  json<T>(path: string): Promise<T>;
  stop(): Promise<void>;
  /** Kills the server, as a power cut would; `stop` must still be called. */
  kill(): void;
}

/** A port that is not in use at the moment. */
async function freePort(): Promise<number> {
  const socket = createSocket();
  await new Promise<void>((resolve) => socket.listen(0, "127.0.0.1", resolve));
  const { port } = socket.address() as AddressInfo;
  await new Promise((resolve) => socket.close(resolve));
  return port;
}

/** Starts a server with these films (path below the directory, and how each is made), and waits
 * until it lists them. */
export async function reelway(films: Record<string, Recipe>, { withoutIndexFiles = false, config = "" } = {}): Promise<Reelway> {
  const home = await mkdtemp(join(tmpdir(), "reelway-web-"));
  const directory = join(home, "films");
  await mkdir(directory);
  for (const [name, make] of Object.entries(films)) {
    const path = join(directory, name);
    await mkdir(dirname(path), { recursive: true });
    await make(path);
  }

  if (withoutIndexFiles) {
    // A file in place of the directory for index files.
    await mkdir(join(home, "state"));
    await writeFile(join(home, "state/index"), "");
  }
  const listed = Object.keys(films).filter((name) => !name.endsWith(".srt"));
  await writeFile(join(home, "config.toml"), config);
  const server = await launch(home, ["serve", "--config", join(home, "config.toml"), directory], listed.length);
  return { ...server, films: directory };
}

/** Starts this many edges of an origin, which know each other and redirect viewers to the one
 * that has their film. */
export async function edges(origin: Reelway, count: number): Promise<Reelway[]> {
  const { films } = await origin.json<{ films: unknown[] }>("/api/films?per_page=200");
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const siblings = ports.map((port) => `http://127.0.0.1:${port}/`).join(",");
  const flags = ["--tier", "0B", "--sibling", siblings, "--sibling-token", "a token of siblings", "--redirect"];
  const start = async (port: number) => {
    const home = await mkdtemp(join(tmpdir(), "reelway-web-"));
    return launch(home, ["edge", origin.http, ...flags], films.length, port);
  };
  const all = await Promise.all(ports.map(start));
  await until("each edge has met the others", async () => {
    const known = await Promise.all(all.map((edge) => edge.json<{ servers: { sibling: boolean; up: boolean }[] }>("/api/cache")));
    return known.every(({ servers }) => servers.filter(({ sibling, up }) => sibling && up).length === count - 1);
  });
  return all;
}

/** Starts an edge of another server that keeps films on its disk. */
export async function keepingEdge(origin: Reelway): Promise<Reelway> {
  const { films } = await origin.json<{ films: unknown[] }>("/api/films?per_page=200");
  const home = await mkdtemp(join(tmpdir(), "reelway-web-"));
  return launch(home, ["edge", origin.http, "--tier", "64MiB"], films.length);
}

/** Starts a server with this command and its state below `home`, and waits until it has this
 * many films. */
async function launch(home: string, command: string[], films: number, port?: number): Promise<Reelway> {
  const binary = process.env["REELWAY_BIN"];
  assert.ok(binary && existsSync(binary), "REELWAY_BIN must name the reelway binary that is to be tested");
  const [http, rtsp] = [port ?? (await freePort()), await freePort()];
  const child = spawn(
    binary,
    [
      ...[...command, "--state", join(home, "state"), "--http", `127.0.0.1:${http}`],
      ...["--rtsp", `127.0.0.1:${rtsp}`, "--rtp-ports", "0,0"],
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => (log += piece));

  const base = `http://127.0.0.1:${http}`;
  const json = async <T>(path: string): Promise<T> => {
    const response = await fetch(base + path);
    assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
    return (await response.json()) as T;
  };
  const stop = async () => {
    await ended(child);
    await mkdir(artifacts, { recursive: true });
    await writeFile(join(artifacts, `server-${http}.log`), log);
    await rm(home, { recursive: true, force: true });
  };
  const kill = () => void child.kill("SIGKILL");
  try {
    await until("the server has looked at its films", async () => {
      assert.equal(child.exitCode, null, `the server ended:\n${log}`);
      const ready = await fetch(`${base}/readyz`).catch(() => null);
      if (!ready?.ok) return false;
      const { films: known } = await json<{ films: { state: string }[] }>("/api/films?per_page=200");
      return known.length === films && known.every((film) => film.state !== "indexing");
    });
    const token = (await readFile(join(home, "state/token"), "utf8")).trim();
    return { http: base, rtsp: `rtsp://127.0.0.1:${rtsp}`, films: "", token, json, stop, kill };
  } catch (error) {
    await stop();
    throw new Error(`${String(error)}\nThe server said:\n${log}`);
  }
}

async function ended(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await gone;
  clearTimeout(timer);
}

/** Waits until `condition` holds, for 30 s by default. */
export async function until(what: string, condition: () => Promise<boolean> | boolean, patience = 30_000): Promise<void> {
  const last = Date.now() + patience;
  while (!(await condition())) {
    if (Date.now() > last) throw new Error(`waited ${patience / 1000} s in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// The browser

/** The least time that each response of a server takes, in ms: with REELWAY_TEST_DELAY=1000,
 * tests that depend on fast responses fail on fast machines, too. */
const delay = Number(process.env["REELWAY_TEST_DELAY"] ?? 0);

/** Starts Chromium with an empty profile. */
export function browser(): Promise<Browser> {
  const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  assert.ok(existsSync(executablePath), `${executablePath} is missing: apt-get install chromium`);
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--autoplay-policy=no-user-gesture-required",
    ],
  });
}

export interface Visit {
  page: Page;
  /** The problems of the page so far: errors, console messages, requests to other servers. */
  complaints: string[];
  close(): Promise<void>;
}

/** Opens a page in a fresh profile, and records everything that a good page never reports. */
export async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  const own = new URL(url).origin;
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== "blob:" && protocol !== "data:" && origin !== own) complaints.push(`asked elsewhere: ${request.url()}`);
  });
  if (delay > 0) {
    await context.route("**/*", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, delay));
      // The page may be closed already.
      await route.continue().catch(() => undefined);
    });
  }
  await page.goto(url);
  return { page, complaints, close: () => context.close() };
}

/** Saves a screenshot of the page for people to look at. */
export async function screenshot(page: Page, name: string, fullPage = false): Promise<void> {
  await mkdir(artifacts, { recursive: true });
  await page.screenshot({ path: join(artifacts, `${name}.png`), fullPage });
}

// Pages of another origin

const mediaTypes: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
};

/** Serves test/browser/pages and the players they use from an origin other than the server's. */
export async function elsewhere(): Promise<{ base: string; stop(): Promise<void> }> {
  const folders: Record<string, string> = {
    "/dashjs/": join(web, "node_modules/dashjs/dist/modern/umd"),
    "/hlsjs/": join(web, "node_modules/hls.js/dist"),
    "/shaka/": join(web, "node_modules/shaka-player/dist"),
    "/": join(web, "test/browser/pages"),
  };
  const server: Server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const [prefix, folder] = Object.entries(folders).find(([prefix]) => pathname.startsWith(prefix)) ?? ["/", ""];
    if (pathname === "/favicon.ico") return void response.writeHead(204).end();
    const name = pathname.slice(prefix.length);
    const path = join(folder, name);
    if (!/^[\w.-]+$/.test(name) || !existsSync(path)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": mediaTypes[extname(path)] ?? "application/octet-stream" });
    createReadStream(path).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    base: `http://127.0.0.1:${port}`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
