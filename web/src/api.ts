// The server's control API (docs/reference/api.md): its types, and the calls that the pages make.
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
  channel_configuration: number | null; // for AAC: the number of its channel layout, 0 if it has none
  rate: number; // samples per second
  language: string | null;
}

export interface Film {
  title: string;
  file: string;
  size: number; // bytes
  modified: string;
  state: State;
  reason: string | null;
  indexed: number | null; // fraction of its file read so far, 0 to 1, while it is being indexed
  duration: number | null; // seconds
  bitrate: number | null; // bits per second
  video: Video | null;
  audio: Audio[];
  protocols: Partial<Record<Protocol, string | null>>; // why it cannot be played, or null
  growing: boolean; // it may soon become longer
  viewers: number;
  rendition_of: string | null; // the film whose players may switch to this one
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
  file: string | null; // null if the subtitles are inside the film
  url: string; // WebVTT
}

/** Another rendition of a film. */
export interface Rendition {
  title: string;
  video: Video | null;
  bitrate: number | null; // bits per second
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
  chapters: Chapter[]; // in order
  subtitles: Subtitles[];
  renditions: Rendition[]; // without the film itself
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
  rate: number | null; // bits per second
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
  problems: { what: string; severity: "failed" | "degraded" | "recovered"; since: string; detail: string; panics: number }[]; // faults despite which it still serves
  films: Record<State, number>;
  renditions: number; // the number of ready films that are renditions of others
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

/** A limited resource of the machine. */
export interface Resource {
  name: "network" | "processor" | "disk" | "origin" | "memory";
  interface: string | null;
  unit: "bit/s" | "byte/s" | "byte";
  limit: number | null;
  share: number; // fraction of the limit that is available now, 0 to 1
  booked: number[]; // the largest booking in each step from now on
}

export interface Admission {
  policy: string;
  viewers: number;
  step: number; // seconds
  resources: Resource[];
  calibrated: boolean; // whether there is a calibration to show
  refused_total: number;
  refused: { ago: number; title: string; reason: string; retry_after: number }[]; // oldest first
}

/** The result of `reelway serve --calibrate`. */
export interface Calibration {
  when: string;
  cpu: number | null; // bytes per second that the processor can send
  disk: number | null; // bytes per second that the disks deliver
  tried: { viewers: number; well: boolean; late_ms: number }[]; // fewest viewers first
}

/** A disk, or a remote server. */
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

/** A film with viewers, as the cache reports it. */
export interface CachedFilm {
  title: string;
  held: number; // bytes
  size: number;
  hit_ratio: number | null; // of recent requests for it
  map: number[]; // percentage of each part that is in memory
  viewers: number[]; // positions, 0 to 1
}

export interface Cache {
  bytes: number;
  used: number;
  hits: number;
  misses: number;
  read: number; // bytes since the server started
  sent: number;
  compared: { requests: number; this: number; lru: number; ons: number; belady: number } | null;
  disks: Device[];
  films: CachedFilm[];
  tier: Tier | null;
  servers: OtherServer[];
}

/** The cache of remote films on a local disk. */
export interface Tier {
  bytes: number;
  used: number;
  kept: { title: string; lacking: number | null }[];
  prefill: {
    hours: string | null; // 02:00-06:00
    running: boolean;
    asked: boolean; // it was started by request
    films: { title: string; hours_watched: number; lacking: number | null }[];
  } | null;
}

/** A server from which remote films are fetched. */
export interface OtherServer {
  address: string;
  sibling: boolean;
  up: boolean;
  version: string | null; // if it is a Reelway
  requests: number;
  bytes: number;
  faults: number;
}

/** An error response of the server; a `status` of 0 means that it did not respond. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Whether the server rejected the token. */
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

/** Requests a change. The token is the one in the server's state directory. */
const change = async (method: "PUT" | "DELETE", path: string, token: string): Promise<void> => {
  await ask(path, { method, headers: { Authorization: `Bearer ${token}` } });
};

export const endSession = (id: string, token: string) =>
  change("DELETE", `/api/sessions/${encodeURIComponent(id)}`, token);

const cachePath = (title: string) => `/api/cache/${titlePath(title)}`;

/** Fetches a remote film to the tier and keeps it there. */
export const keep = (title: string, token: string) => change("PUT", cachePath(title), token);

/** Drops what memory and tier hold of a film, and no longer keeps it. */
export const drop = (title: string, token: string) => change("DELETE", cachePath(title), token);

/** Starts fetching the most watched films to the tier, or stops it. */
export const prefill = (wanted: boolean, token: string) => change(wanted ? "PUT" : "DELETE", "/api/prefill", token);
