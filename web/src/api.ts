// The server's control API (docs/reference/api.md): its types and the calls the pages make.
import { titlePath } from "./routes";

export type State = "ready" | "indexing" | "not_ready" | "unplayable";
export type Protocol = "rtsp" | "hls" | "dash" | "file";

export interface Video {
  codec: string; // as in RFC 6381: avc1.64001e
  name: string; // for people: H.264 High
  width: number;
  height: number;
  frame_rate: number | null;
}

export interface Audio {
  codec: string;
  name: string;
  channels: number;
  channel_configuration: number | null; // of AAC: the number of its channels' order, 0 where there is none
  rate: number; // samples a second
  language: string | null;
}

export interface Film {
  title: string;
  file: string;
  size: number; // bytes
  modified: string;
  state: State;
  reason: string | null;
  indexed: number | null; // share of its file that was read so far, 0 to 1, while it is being indexed
  duration: number | null; // seconds
  bitrate: number | null; // bits a second
  video: Video | null;
  audio: Audio[];
  protocols: Partial<Record<Protocol, string | null>>; // the reason where it does not play
  growing: boolean; // there may soon be more of it
  viewers: number;
  rendition_of: string | null; // the film whose players may change to this one while they play
}

interface Spread {
  min: number;
  mean: number;
  max: number;
}

export interface Track {
  id: number;
  kind: string;
  codec: string;
  name: string;
  language: string | null;
  samples: number;
  bytes: number;
  bitrate: number;
  duration: number;
  width?: number;
  height?: number;
  rotation?: number;
  frame_rate?: number | null;
  rate?: number;
  channels?: number;
  gops: { count: number; seconds: Spread; bytes: Spread } | null;
}

export interface Subtitles {
  number: number;
  label: string;
  language: string | null;
  forced: boolean;
  default: boolean;
  sdh: boolean;
  file: string | null; // beside the film; null: inside it
  url: string; // WebVTT
}

/** Another rendition of a film. */
export interface Rendition {
  title: string;
  video: Video | null;
  bitrate: number | null; // bits a second
  reason: string | null; // why players are not offered it
}

export interface Chapter {
  start: number; // seconds
  name: string | null;
}

export interface FilmDetail extends Film {
  container: string;
  recorded_at: string | null; // RFC 3339 in UTC
  notes: string[];
  tracks: Track[];
  chapters: Chapter[]; // in their order
  subtitles: Subtitles[];
  renditions: Rendition[]; // but the film itself
  urls: Partial<Record<Protocol, string>> & { hls_ts?: string | null; transport_stream?: string | null };
}

export interface FilmPage {
  total: number;
  page: number;
  per_page: number;
  films: Film[];
}

export interface Session {
  id: string;
  protocol: string;
  peer: string;
  user: string | null;
  user_agent: string | null;
  title: string;
  state: "ready" | "playing" | "paused";
  position: number | null; // seconds
  duration: number | null;
  started: string;
  rate: number | null; // bits a second
  bytes: number;
  packets: number | null;
  lost: number | null;
  jitter_ms: number | null;
  late_p99_ms: number | null;
  late_max_ms: number | null;
}

export interface Node {
  name: string;
  version: string;
  uptime: number;
  state: "starting" | "serving" | "draining";
  problems: { what: string; severity: "failed" | "degraded" | "recovered"; since: string; detail: string; panics: number }[]; // what is wrong, although it still serves
  films: Record<State, number>;
  renditions: number; // how many of the films that are ready are renditions of others
  sessions: { total: number; playing: number; by_protocol: Record<string, number> };
  sending: {
    rate: number;
    packets_per_second: number;
    late_p50_ms: number | null;
    late_p99_ms: number | null;
    late_p999_ms: number | null;
    late_max_ms: number | null;
    backend: string;
    packets_per_send: number | null;
    cpu_ms_per_stream_second: number | null;
    missed: number;
    resent: number;
    dropped_frames: number;
    refused: number;
  };
  pool: { bytes: number; used: number; hits: number; misses: number };
  addresses: { rtsp: string; http: string };
}

/** Something that the machine has only so much of. */
export interface Resource {
  name: "network" | "processor" | "disk" | "origin" | "memory";
  interface: string | null;
  unit: "bit/s" | "byte/s" | "byte";
  limit: number | null;
  share: number; // of the limit that is there at the moment, 0 to 1
  booked: number[]; // the most in each step from now on
}

export interface Admission {
  policy: string;
  viewers: number;
  step: number; // seconds
  resources: Resource[];
  calibrated: boolean; // whether there is a calibration to be shown
  refused_total: number;
  refused: { ago: number; title: string; reason: string; retry_after: number }[]; // the oldest first
}

/** What `reelway serve --calibrate` found. */
export interface Calibration {
  when: string;
  cpu: number | null; // bytes a second that the processor sends
  disk: number | null; // bytes a second that the disks give
  tried: { viewers: number; well: boolean; late_ms: number }[]; // the fewest viewers first
}

/** A disk, or a place afar. */
export interface Device {
  name: string;
  depth: number;
  under_way: number;
  queued: number;
  reads: number;
  bytes: number;
  errors: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

/** A film that somebody watches, as the cache has it. */
export interface CachedFilm {
  title: string;
  held: number; // bytes
  size: number;
  hit_ratio: number | null; // of the last requests for it
  map: number[]; // percent of each part that is in memory
  viewers: number[]; // places, 0 to 1
}

export interface Cache {
  bytes: number;
  used: number;
  hits: number;
  misses: number;
  read: number; // bytes since the start
  sent: number;
  compared: { requests: number; this: number; lru: number; ons: number; belady: number } | null;
  disks: Device[];
  films: CachedFilm[];
  tier: Tier | null;
  servers: OtherServer[];
}

/** The cache of remote films on a disk. */
export interface Tier {
  bytes: number;
  used: number;
  kept: { title: string; lacking: number | null }[];
  prefill: {
    hours: string | null; // 02:00-06:00
    running: boolean;
    asked: boolean; // it runs because somebody has asked for it
    films: { title: string; hours_watched: number; lacking: number | null }[];
  } | null;
}

/** A server that remote films come from. */
export interface OtherServer {
  address: string;
  sibling: boolean;
  up: boolean;
  version: string | null; // of another Reelway
  requests: number;
  bytes: number;
  faults: number;
}

/** What the server answered instead of what was asked for; `status` 0: it did not answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Whether the server refused because it did not like the token. */
export const isRefused = (cause: unknown): cause is ApiError =>
  cause instanceof ApiError && (cause.status === 401 || cause.status === 403);

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer. Is it running, and is this device still connected to it?");
  }
  if (response.ok) return response;
  const said: unknown = await response.json().catch(() => null);
  const message = said && typeof said === "object" && "error" in said ? String(said.error) : response.statusText;
  throw new ApiError(response.status, message || `The server answered ${response.status}.`);
}

const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await ask(path, signal ? { signal } : {})).json() as Promise<T>;

export interface FilmsQuery {
  query: string;
  sort: string;
  page: number;
  perPage: number;
}

export function films({ query, sort, page, perPage }: FilmsQuery, signal?: AbortSignal): Promise<FilmPage> {
  const parameters = new URLSearchParams({ sort, page: String(page), per_page: String(perPage), renditions: "no" });
  if (query) parameters.set("q", query);
  return get(`/api/films?${parameters}`, signal);
}

export const film = (title: string, signal?: AbortSignal): Promise<FilmDetail> =>
  get(`/api/films/${titlePath(title)}`, signal);

export const node = (signal?: AbortSignal): Promise<Node> => get("/api/node", signal);

export const admission = (signal?: AbortSignal): Promise<Admission> => get("/api/admission?ahead=900", signal);

export const calibration = (signal?: AbortSignal): Promise<Calibration> => get("/api/calibration", signal);

export const cache = (signal?: AbortSignal): Promise<Cache> => get("/api/cache", signal);

/** Changes something. The token is the one in the server's state directory. */
const change = async (method: "PUT" | "DELETE", path: string, token: string): Promise<void> => {
  await ask(path, { method, headers: { Authorization: `Bearer ${token}` } });
};

export const endSession = (id: string, token: string) =>
  change("DELETE", `/api/sessions/${encodeURIComponent(id)}`, token);

const cachePath = (title: string) => `/api/cache/${titlePath(title)}`;

/** A remote film is fetched to the tier, and stays there. */
export const keep = (title: string, token: string) => change("PUT", cachePath(title), token);

/** What memory and tier hold of a film goes, and it is kept no longer. */
export const drop = (title: string, token: string) => change("DELETE", cachePath(title), token);

/** Films that were watched most are fetched to the tier now, or no longer. */
export const prefill = (wanted: boolean, token: string) => change(wanted ? "PUT" : "DELETE", "/api/prefill", token);
