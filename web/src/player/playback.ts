// Plays a film in a <video>: with hls.js, or with the browser's own HLS if that is all there is.
import type Hls from "hls.js";
import type { FilmDetail } from "../api";
import { language, rate } from "../format";
import type { Way } from "../playable";

/** One of several options that a viewer may choose. */
export interface Choice {
  index: number;
  label: string;
}

/** The index that means: the quality is chosen automatically, by download speed. */
export const automatic = -1;

/** What playback reports to the page. */
export interface Listener {
  soundTracks(tracks: Choice[], current: number): void;
  /** The renditions of the video, and which one was chosen. */
  qualities(qualities: Choice[], chosen: number): void;
  /** Playback has ended early; `why` is the reason in plain words. */
  failed(why: string): void;
}

export interface Playback {
  chooseSound(index: number): void;
  chooseQuality(index: number): void;
  stop(): void;
}

/** Starts loading `film` into `video`, from `position` on, in seconds. */
export async function play(
  video: HTMLVideoElement,
  film: FilmDetail,
  way: Way,
  position: number,
  listener: Listener,
): Promise<Playback> {
  const address = film.urls.hls;
  if (!address) throw new Error("the server gave no HLS address for this film");
  return way === "mse" ? byHlsJs(video, address, position, listener) : natively(video, address, position, listener);
}

async function byHlsJs(video: HTMLVideoElement, address: string, position: number, listener: Listener): Promise<Playback> {
  const { default: Hls } = await import("hls.js");
  const hls = new Hls({
    startPosition: position || -1, // -1: as the playlist says
    enableWorker: false, // segments are fMP4 already; a worker from a blob would need a wider security policy
    maxBufferLength: 30,
    backBufferLength: 30,
    renderTextTracksNatively: false, // subtitles are <track>s of the player
    // Films do not change: a failed request is repeated for a while, then reported.
    fragLoadPolicy: {
      default: {
        maxTimeToFirstByteMs: 8_000,
        maxLoadTimeMs: 60_000,
        timeoutRetry: { maxNumRetry: 3, retryDelayMs: 0, maxRetryDelayMs: 0 },
        errorRetry: { maxNumRetry: 4, retryDelayMs: 500, maxRetryDelayMs: 4_000 },
      },
    },
  });
  let recovered = false;
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (!data.fatal) return;
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR && !recovered) {
      recovered = true; // once: a decoder may fail; a film that breaks it twice is broken
      hls.recoverMediaError();
      return;
    }
    listener.failed(failure(Hls, data));
    hls.stopLoad();
  });
  const tellSound = () =>
    listener.soundTracks(
      hls.audioTracks.map((track, index) => ({ index, label: soundLabel(track.name, track.lang ?? null, index) })),
      hls.audioTrack,
    );
  hls.on(Hls.Events.AUDIO_TRACKS_UPDATED, tellSound);
  hls.on(Hls.Events.AUDIO_TRACK_SWITCHED, tellSound);
  let quality = automatic;
  const tellQualities = () =>
    listener.qualities(
      hls.levels.map((level, index) => ({ index, label: qualityLabel(level, hls.levels) })),
      quality,
    );
  hls.on(Hls.Events.MANIFEST_PARSED, tellQualities);
  hls.loadSource(new URL(address, location.href).href);
  hls.attachMedia(video);
  return {
    chooseSound: (index) => (hls.audioTrack = index),
    chooseQuality(index) {
      quality = index;
      hls.nextLevel = index; // the current rendition plays on until the other is loaded
      tellQualities();
    },
    stop: () => hls.destroy(),
  };
}

function failure(hls: typeof Hls, data: { type: string; details: string; response?: { code?: number } }): string {
  const status = data.response?.code ?? 0;
  if (data.type === hls.ErrorTypes.NETWORK_ERROR) {
    if (status === 503) return "The server is full at the moment. Try again in a little while.";
    if (status === 403 || status === 410) return "The server has ended this session.";
    if (status === 404) return "The server no longer has this film.";
    if (status >= 400) return `The server refused the film (${status}).`;
    return "The server no longer answers.";
  }
  if (data.type === hls.ErrorTypes.MEDIA_ERROR) return `This browser could not decode the film (${data.details}).`;
  return `Playback failed (${data.details}).`;
}

function soundLabel(name: string, code: string | null, index: number): string {
  return language(code) ?? (name || `Track ${index + 1}`);
}

interface Level {
  width: number;
  height: number;
  bitrate: number;
}

/** "720p", with the bit rate if there are several of that height. */
function qualityLabel(level: Level, all: readonly Level[]): string {
  const lines = level.height ? `${level.height}p` : "";
  const isOnly = all.filter((other) => other.height === level.height).length === 1;
  return isOnly && lines ? lines : `${lines} ${rate(level.bitrate)}`.trim();
}

/** Safari's list of audio tracks, which is missing in TypeScript's DOM types. */
interface NativeTracks extends EventTarget {
  length: number;
  [index: number]: { enabled: boolean; label: string; language: string };
}

function natively(video: HTMLVideoElement, address: string, position: number, listener: Listener): Playback {
  const tracks = (video as { audioTracks?: NativeTracks }).audioTracks;
  const tellSound = () => {
    if (!tracks) return;
    const list = Array.from({ length: tracks.length }, (_, index) => tracks[index]).filter((track) => track !== undefined);
    listener.soundTracks(
      list.map((track, index) => ({ index, label: soundLabel(track.label, track.language, index) })),
      list.findIndex((track) => track.enabled),
    );
  };
  const failed = () => listener.failed(video.error?.message || "The film could not be played.");
  tracks?.addEventListener("addtrack", tellSound);
  video.addEventListener("error", failed);
  const resume = () => (video.currentTime = position);
  if (position > 0) video.addEventListener("loadedmetadata", resume, { once: true });
  video.src = address;
  return {
    chooseSound(index) {
      for (let i = 0; tracks && i < tracks.length; i += 1) {
        const track = tracks[i];
        if (track) track.enabled = i === index;
      }
      tellSound();
    },
    chooseQuality() {}, // the browser chooses
    stop() {
      tracks?.removeEventListener("addtrack", tellSound);
      video.removeEventListener("error", failed);
      video.removeEventListener("loadedmetadata", resume);
      video.removeAttribute("src");
      video.load();
    },
  };
}
