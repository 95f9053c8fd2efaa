// The server's events (/api/events), one connection for all pages, closed while nobody looks: browsers allow
// six connections to a server, and a forgotten tab must not hold one that a film needs.
import { useEffect, useState } from "preact/hooks";
import type { Node, Session } from "./api";
import { type ChangesEvent, SessionList, type SessionsEvent } from "./sessions";

interface Events {
  sessions: Session[];
  node: Node;
  /** The films that changed; null: any may have, as nobody listened for a while. */
  films: { changed: string[] | null };
}

type Listener = (data: never) => void;

/** Longest wait between two tries to connect, in ms. */
const longestWait = 10_000;
/** After so long without an event the connection is taken for dead, in ms: the server tells of itself every 10 s. */
const patience = 30_000;

class Feed {
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #watchers = new Set<(connected: boolean) => void>();
  /** The last of each kind, for those who come later. */
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
    // A browser's own retry gives up for good on some answers; ours does not.
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

/** What the server said last of the node; null before it said anything. */
export function useNode(): Node | null {
  const [node, setNode] = useState<Node | null>(null);
  useEffect(() => feed.on("node", setNode), []);
  return node;
}

/** The sessions as the server said last; null before it said anything. */
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
