// The sessions as the server's events tell them: all of them at first, in parts, and from then on what has changed.
import type { Session } from "./api";

/** A part of all sessions; `from` 0 begins anew. */
export interface SessionsEvent {
  total: number;
  from: number;
  sessions: Session[];
}

/** What is new since the events before. `changed` has all of a session that can change. */
export interface ChangesEvent {
  added: Session[];
  changed: (Partial<Session> & Pick<Session, "id">)[];
  removed: string[];
}

export class SessionList {
  // In the order in which the sessions began, as the server tells them in it.
  #known = new Map<string, Session>();
  #complete = false;

  /** Takes a part of all sessions. */
  take({ total, from, sessions }: SessionsEvent): void {
    if (from === 0) this.#known = new Map();
    for (const session of sessions) this.#known.set(session.id, session);
    this.#complete = from + sessions.length >= total;
  }

  /** Takes what has changed. */
  change({ added, changed, removed }: ChangesEvent): void {
    for (const session of added) this.#known.set(session.id, session);
    for (const news of changed) {
      const session = this.#known.get(news.id);
      if (session) this.#known.set(news.id, { ...session, ...news });
    }
    for (const id of removed) this.#known.delete(id);
  }

  /** All sessions, the oldest first; null until all of them have come. */
  get all(): Session[] | null {
    return this.#complete ? [...this.#known.values()] : null;
  }
}
