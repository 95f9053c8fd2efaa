// The sessions from the server's events: first all of them, in parts, and from then on the changes.
import type { Session } from "./api";

/** A part of all sessions; a `from` of 0 starts a new list. */
export interface SessionsEvent {
  total: number;
  from: number;
  sessions: Session[];
}

/** The changes since the previous events. `changed` has all fields of a session that can change. */
export interface ChangesEvent {
  added: Session[];
  changed: (Partial<Session> & Pick<Session, "id">)[];
  removed: string[];
}

export class SessionList {
  // In the order in which the sessions began, which is the order of the events.
  #known = new Map<string, Session>();
  #complete = false;

  /** Adds a part of all sessions. */
  take({ total, from, sessions }: SessionsEvent): void {
    if (from === 0) this.#known = new Map();
    for (const session of sessions) this.#known.set(session.id, session);
    this.#complete = from + sessions.length >= total;
  }

  /** Applies changes. */
  change({ added, changed, removed }: ChangesEvent): void {
    for (const session of added) this.#known.set(session.id, session);
    for (const news of changed) {
      const session = this.#known.get(news.id);
      if (session) this.#known.set(news.id, { ...session, ...news });
    }
    for (const id of removed) this.#known.delete(id);
  }

  /** All sessions, oldest first; null until all of them have arrived. */
  get all(): Session[] | null {
    return this.#complete ? [...this.#known.values()] : null;
  }
}
