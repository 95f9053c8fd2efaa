import assert from "node:assert/strict";
import test from "node:test";
import { points } from "../../src/components/sparkline";
import { action, help, nextSpeed, speeds } from "../../src/player/shortcuts";

test("every key in the help does something", () => {
  const keys: Record<string, string[]> = {
    "Space or K": [" ", "k", "K"],
    "← →": ["ArrowLeft", "ArrowRight"],
    "0 … 9": ["0", "5", "9"],
    "↑ ↓": ["ArrowUp", "ArrowDown"],
  };
  for (const [names] of help) {
    for (const key of keys[names] ?? names.split(" ")) assert.ok(action(key), `${key} of “${names}”`);
  }
});

test("other keys are left to the browser", () => {
  for (const key of ["Tab", "Enter", "Escape", "F5", "a"]) assert.equal(action(key), null);
});

test("speed goes step by step and stops at the ends", () => {
  assert.equal(nextSpeed(1, 1), 1.25);
  assert.equal(nextSpeed(1, -1), 0.75);
  assert.equal(nextSpeed(2, 1), 2);
  assert.equal(nextSpeed(0.5, -1), 0.5);
  assert.equal(nextSpeed(1.1, -1), 1, "a speed between two steps goes to the nearer one");
  assert.deepEqual([...speeds].sort((a, b) => a - b), speeds);
});

test("a sparkline's newest value is at the right, its largest at the top", () => {
  assert.equal(points([0, 10], 11, 100, 42), "90,41 100,1");
  assert.equal(points([0, 0], 11, 100, 42), "90,41 100,41");
});
