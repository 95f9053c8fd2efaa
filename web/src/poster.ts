// A film's poster: a picture that this browser takes from one segment, as the server keeps no
// pictures.
//
// The segment is read only until the picture is decoded. Posters are kept in IndexedDB under the
// film's identity (the Cache API would require https, which a server in the living room rarely
// has).
import { film as askFilm, type Film } from "./api";
import { thisBrowser, videoType } from "./playable";
import { titlePath } from "./routes";

/** The largest width of a poster in pixels: a tile on a phone with three device pixels per
 * pixel, or on a large screen. */
const posterWidth = 640;
/** The position from which a poster is taken: past titles and black, as a fraction of the film's
 * length. */
const into = 0.3;
/** How far after a segment's start the picture is taken, in seconds: cuts and fades begin at
 * sync samples. */
const pastCut = 0.6;
/** The number of posters that are kept; the oldest are deleted first. */
const kept = 400;
const segmentSeconds = 6;
const patience = 15_000;

/** Posters that are being taken, and those taken most recently, oldest first. */
const takenNow = new Map<string, Promise<Blob | null>>();
let line: Promise<unknown> = Promise.resolve();

/** The poster of a film, or null if none can be taken. Posters are taken one after the other. */
export function poster(film: Film, wanted: () => boolean): Promise<Blob | null> {
  const key = posterKey(film);
  let poster = takenNow.get(key);
  if (!poster) {
    // The shelf persists between visits: its poster for a title may be from the previous recording.
    const before = film.growing ? Promise.resolve(null) : shelf.find(key);
    poster = before.then((found) => found ?? queued(() => make(film, key, wanted)));
    takenNow.set(key, poster);
    // A poster that was abandoned may be requested again.
    void poster.then((blob) => blob ?? takenNow.delete(key));
    for (const old of takenNow.keys()) {
      if (takenNow.size <= kept) break;
      takenNow.delete(old);
    }
  }
  return poster;
}

/** The key under which a film's poster is kept: a growing recording has one for the whole visit. */
export function posterKey({ title, size, modified, growing }: Film): string {
  return growing ? title : `${title}\n${size}\n${modified}`;
}

function queued<T>(job: () => Promise<T>): Promise<T> {
  const turn = line.then(job);
  line = turn.catch(() => null);
  return turn;
}

async function make(film: Film, key: string, wanted: () => boolean): Promise<Blob | null> {
  if (!wanted()) return null;
  try {
    const blob = await take(film);
    if (blob && !film.growing) void shelf.keep(key, blob);
    return blob;
  } catch {
    return null; // a poster is an ornament: the tile shows everything else
  }
}

async function take(film: Film): Promise<Blob | null> {
  const browser = thisBrowser();
  if (!film.video || !film.duration || !browser.isTypeSupported?.(videoType(film.video)) || !window.MediaSource) return null;
  const track = (await askFilm(film.title)).tracks.find((track) => track.kind === "video");
  if (!track) return null;

  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), patience);
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true;
  const media = new MediaSource();
  const address = URL.createObjectURL(media);
  video.src = address;
  try {
    await once(media, "sourceopen", stop.signal);
    const buffer = media.addSourceBuffer(videoType(film.video));
    const append = async (bytes: BufferSource) => {
      buffer.appendBuffer(bytes);
      await once(buffer, "updateend", stop.signal);
    };
    const base = `/${titlePath(film.title)}/seg/${track.id}`;
    const read = async (name: string) => {
      for (;;) {
        const response = await fetch(`${base}/${name}?poster`, { signal: stop.signal });
        if (response.status !== 503) return response.ok ? response : null;
        await new Promise((resolve) => setTimeout(resolve, 1000)); // other posters are being made
      }
    };
    const init = await read("init.mp4");
    const wish = 1 + Math.floor((film.duration * into) / segmentSeconds);
    // Segment lengths depend on the film's GOPs: there may be fewer segments than the length
    // suggests.
    const segment = (await read(`${wish}.m4s`)) ?? (await read("1.m4s"));
    if (!init || !segment?.body) return null;
    await append(await init.arrayBuffer());

    const shown = new Promise<null>((resolve) => video.addEventListener("seeked", () => resolve(null), { once: true }));
    const reader = segment.body.getReader();
    for (;;) {
      const piece = await Promise.race([reader.read(), shown]);
      if (!piece) break; // the picture is decoded: the rest of the segment is not needed
      if (!piece.done) await append(piece.value);
      else media.endOfStream();
      if (buffer.buffered.length > 0 && video.currentTime === 0) {
        const start = buffer.buffered.start(0);
        const end = buffer.buffered.end(buffer.buffered.length - 1);
        if (end >= start + pastCut) video.currentTime = start + pastCut;
        else if (piece.done) video.currentTime = (start + end) / 2;
      }
      if (piece.done) {
        await Promise.race([shown, aborted(stop.signal)]);
        break;
      }
    }
    await presented(video, stop.signal);
    return await draw(video, film.video);
  } finally {
    clearTimeout(timer);
    stop.abort();
    video.removeAttribute("src");
    video.load();
    URL.revokeObjectURL(address);
  }
}

/** Resolves when the picture sought can be drawn, which may be a moment after `seeked`. */
async function presented(video: HTMLVideoElement, signal: AbortSignal): Promise<void> {
  while (video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA) await once(video, "loadeddata", signal);
  if (!("requestVideoFrameCallback" in video)) return;
  const frame = new Promise<void>((resolve) => video.requestVideoFrameCallback(() => resolve()));
  const moment = new Promise<void>((resolve) => setTimeout(resolve, 500)); // it may have been presented before
  await Promise.race([frame, moment]);
}

async function draw(video: HTMLVideoElement, expected: { width: number; height: number }): Promise<Blob | null> {
  // The element's size includes pixel aspect ratio and rotation, unlike the film's size.
  const width = video.videoWidth || expected.width;
  const height = video.videoHeight || expected.height;
  const scale = Math.min(1, posterWidth / width);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext("2d")?.drawImage(video, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/webp", 0.85));
}

function once(target: EventTarget, name: string, signal: AbortSignal): Promise<void> {
  return Promise.race([
    new Promise<void>((resolve) => target.addEventListener(name, () => resolve(), { once: true })),
    aborted(signal),
  ]);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = () => reject(new Error("gave up on this poster"));
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail, { once: true });
  });
}

/** Posters that persist between visits. If the browser stores nothing (private windows), they
 * are taken each time. */
const shelf = {
  async find(key: string): Promise<Blob | null> {
    const row = await this.run<{ blob: Blob } | undefined>("readonly", (store) => store.get(key));
    return row?.blob ?? null;
  },

  async keep(key: string, blob: Blob): Promise<void> {
    await this.run("readwrite", (store) => store.put({ key, blob, taken: Date.now() }));
    const keys = (await this.run<IDBValidKey[]>("readonly", (store) => store.index("taken").getAllKeys())) ?? [];
    for (const old of keys.slice(0, Math.max(0, keys.length - kept))) {
      await this.run("readwrite", (store) => store.delete(old));
    }
  },

  async run<T>(mode: IDBTransactionMode, job: (store: IDBObjectStore) => IDBRequest): Promise<T | null> {
    const database = await openShelf();
    if (!database) return null;
    return new Promise((resolve) => {
      const request = job(database.transaction("posters", mode).objectStore("posters"));
      request.onsuccess = () => resolve(request.result as T);
      request.onerror = () => resolve(null);
    });
  },
};

let opened: Promise<IDBDatabase | null> | undefined;

function openShelf(): Promise<IDBDatabase | null> {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open("reelway", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("posters", { keyPath: "key" }).createIndex("taken", "taken");
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
  return opened;
}
