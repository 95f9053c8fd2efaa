import assert from "node:assert/strict";
import test from "node:test";
import { points } from "../../src/components/sparkline";
import { chapterAt, chapterFrom, chapterLabel } from "../../src/player/chapters";
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

test("chapters are found by time, and a key leads from one to another", () => {
  const chapters = [
    { start: 1, name: "Opening" },
    { start: 10, name: null },
    { start: 20, name: "End" },
  ];
  assert.deepEqual([0, 1, 9.9, 10, 99].map((at) => chapterAt(chapters, at)), [-1, 0, 0, 1, 2]);
  assert.deepEqual([0, 1].map((number) => chapterLabel(chapters, number)), ["Opening", "Chapter 2"]);
  assert.deepEqual([0, 1, 15, 20].map((at) => chapterFrom(chapters, at, 1)), [1, 10, 20, null]);
  assert.deepEqual([2, 11, 15, 99].map((at) => chapterFrom(chapters, at, -1)), [null, 1, 10, 20]);
  assert.equal(chapterAt([], 5), -1);
});
