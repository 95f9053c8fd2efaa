// What this browser can play, determined by asking it about the film's codecs. Pure: the browser is
// a parameter.
import type { Audio, Film, Video } from "./api";

/** The properties of a browser that decide whether a film can be played. */
export interface Browser {
  /** `MediaSource.isTypeSupported`, or null if there is no MediaSource. */
  isTypeSupported: ((type: string) => boolean) | null;
  /** Whether a plain `<video>` plays HLS. */
  nativeHls: boolean;
  /** `canPlayType` of a `<video>`, for native HLS. */
  canPlayType: (type: string) => string;
  /** Whether it plays AAC only if the channel layout has a number: it claims to support the
   * codec, but then rejects the film. */
  needsChannelNumber: boolean;
}

export type Way = "mse" | "native";

/** How the film is played here, or in plain words why it cannot be. */
export type Verdict = { way: Way; missing: string[] } | { way: null; why: string };

export const videoType = (video: Pick<Video, "codec">) => `video/mp4; codecs="${video.codec}"`;
export const audioType = (audio: Pick<Audio, "codec">) => `audio/mp4; codecs="${audio.codec}"`;

const lacksNumber = (audio: Audio) => audio.channel_configuration === 0;

const audioName = (audio: Audio) =>
  lacksNumber(audio) ? `${audio.name} (${audio.channels} channels in an order of their own)` : `${audio.name} (${audio.codec})`;

const listed = (names: string[]) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/**
 * Judges a film for a browser. The picture must play; of the sound tracks one must. Tracks that this browser
 * lacks are named in `missing`.
 */
export function judge(film: Pick<Film, "video" | "audio">, browser: Browser): Verdict {
  const way: Way | null = browser.isTypeSupported ? "mse" : browser.nativeHls ? "native" : null;
  if (!way) return { way: null, why: "This browser plays neither HLS nor media sources." };
  const plays = (type: string) => (browser.isTypeSupported ? browser.isTypeSupported(type) : browser.canPlayType(type) !== "");

  if (film.video && !plays(videoType(film.video))) {
    return { way: null, why: `This browser cannot play ${film.video.name} video (${film.video.codec}).` };
  }
  const lacking = film.audio.filter((track) => (browser.needsChannelNumber && lacksNumber(track)) || !plays(audioType(track)));
  const names = [...new Set(lacking.map(audioName))];
  if (film.audio.length > 0 && lacking.length === film.audio.length) {
    return { way: null, why: `This browser cannot play ${listed(names)} audio.` };
  }
  return { way, missing: names };
}

/** The browser that shows these pages. */
export function thisBrowser(): Browser {
  const video = document.createElement("video");
  // Safari on iPhones has a MediaSource with another name, which hls.js knows as well.
  const source = window.MediaSource ?? (window as { ManagedMediaSource?: typeof MediaSource }).ManagedMediaSource;
  return {
    isTypeSupported: source ? (type) => source.isTypeSupported(type) : null,
    nativeHls: video.canPlayType("application/vnd.apple.mpegurl") !== "",
    canPlayType: (type) => video.canPlayType(type),
    needsChannelNumber: /Chrom(e|ium)\//.test(navigator.userAgent),
  };
}
