// The server's events (/api/events): one connection for all pages, closed while the tab is hidden.
// Browsers allow six connections to a server, and a forgotten tab must not hold one that a film
// needs.
import { useEffect, useState } from "preact/hooks";
import type { Node, Session } from "./api";
import { type ChangesEvent, SessionList, type SessionsEvent } from "./sessions";

interface Events {
  sessions: Session[];
  node: Node;
  /** The films that changed; null if any may have changed, as there was no connection for a
   * while. */
  films: { changed: string[] | null };
}

type Listener = (data: never) => void;

/** The longest delay between attempts to connect, in ms. */
const longestWait = 10_000;
/** The time without events after which the connection is considered dead, in ms; the server
 * sends an event every 10 s. */
const patience = 30_000;

class Feed {
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #watchers = new Set<(connected: boolean) => void>();
  /** The last event of each kind, for later listeners. */
  readonly #last = new Map<string, unknown>();
  #source: EventSource | null = null;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #wait = 500;
  #silence: ReturnType<typeof setTimeout> | undefined;
  connected = false;

  constructor() {
    document.addEventListener("visibilitychange", () => this.#follow());
    this.#follow();
  }

  on<K extends keyof Events>(kind: K, listener: (data: Events[K]) => void): () => void {
    const listeners = this.#listeners.get(kind) ?? new Set();
    this.#listeners.set(kind, listeners.add(listener as Listener));
    const last = this.#last.get(kind);
    if (last !== undefined && kind !== "films") listener(last as Events[K]);
    return () => listeners.delete(listener as Listener);
  }

  onConnection(watcher: (connected: boolean) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  #follow() {
    if (document.hidden) this.#close();
    else if (!this.#source) this.#open();
  }

  #open() {
    clearTimeout(this.#retry);
    const source = new EventSource("/api/events");
    this.#source = source;
    const lost = () => {
      this.#close();
      this.#tell(false);
      this.#retry = setTimeout(() => this.#follow(), this.#wait);
      this.#wait = Math.min(this.#wait * 2, longestWait);
    };
    const heard = () => {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(lost, patience);
    };
    source.onopen = () => {
      this.#wait = 500;
      this.#tell(true);
      heard();
      this.#said("films", { changed: null });
    };
    // After some responses, a browser's own retry gives up permanently; this one does not.
    source.onerror = lost;
    const sessions = new SessionList();
    const news: Record<string, (data: unknown) => void> = {
      node: (data) => this.#said("node", data),
      films: (data) => this.#said("films", data),
      sessions: (data) => sessions.take(data as SessionsEvent),
      changes: (data) => sessions.change(data as ChangesEvent),
    };
    for (const [kind, take] of Object.entries(news)) {
      source.addEventListener(kind, (event: MessageEvent<string>) => {
        heard();
        take(JSON.parse(event.data));
        const isOfSessions = kind === "sessions" || kind === "changes";
        if (isOfSessions && sessions.all) this.#said("sessions", sessions.all);
      });
    }
  }

  #said(kind: keyof Events, data: unknown) {
    this.#last.set(kind, data);
    for (const listener of this.#listeners.get(kind) ?? []) listener(data as never);
  }

  #close() {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = null;
  }

  #tell(connected: boolean) {
    if (this.connected === connected) return;
    this.connected = connected;
    for (const watcher of this.#watchers) watcher(connected);
  }
}

export const feed = new Feed();

/** The latest state of the node; null before the server has sent it. */
export function useNode(): Node | null {
  const [node, setNode] = useState<Node | null>(null);
  useEffect(() => feed.on("node", setNode), []);
  return node;
}

/** The current sessions; null before the server has sent them. */
export function useSessions(): Session[] | null {
  const [sessions, setSessions] = useState<Session[] | null>(null);
  useEffect(() => feed.on("sessions", setSessions), []);
  return sessions;
}

/** Whether the server's events arrive. */
export function useConnected(): boolean {
  const [connected, setConnected] = useState(feed.connected);
  useEffect(() => feed.onConnection(setConnected), []);
  return connected;
}
