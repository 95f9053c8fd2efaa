import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../src/api";
import { SessionList } from "../../src/sessions";

const session = (id: string, bytes = 0): Session => ({
  id,
  protocol: "hls",
  peer: "127.0.0.1:1",
  user: null,
  user_agent: null,
  title: "demo",
  state: "playing",
  position: 1,
  duration: 10,
  started: "2026-11-21T08:42:00Z",
  rate: 0,
  bytes,
  packets: 0,
  lost: null,
  jitter_ms: null,
  late_p99_ms: null,
  late_max_ms: null,
});
const shown = (list: SessionList) => list.all?.map(({ id, bytes }) => `${id} ${bytes}`);

test("sessions that come in parts are shown when all of them are there", () => {
  const list = new SessionList();
  assert.equal(list.all, null);
  list.take({ total: 3, from: 0, sessions: [session("a"), session("b")] });
  assert.equal(list.all, null);
  list.take({ total: 3, from: 2, sessions: [session("c")] });
  assert.deepEqual(shown(list), ["a 0", "b 0", "c 0"]);
});

test("changes are made to what is known, and sessions keep their order", () => {
  const list = new SessionList();
  list.take({ total: 2, from: 0, sessions: [session("a"), session("b")] });
  list.change({ added: [session("c")], changed: [{ id: "a", bytes: 7 }, { id: "unknown", bytes: 1 }], removed: ["b"] });
  assert.deepEqual(shown(list), ["a 7", "c 0"]);
  assert.equal(list.all?.[0]?.title, "demo");
});

test("a new beginning replaces everything", () => {
  const list = new SessionList();
  list.take({ total: 1, from: 0, sessions: [session("a")] });
  list.take({ total: 0, from: 0, sessions: [] });
  assert.deepEqual(list.all, []);
});
