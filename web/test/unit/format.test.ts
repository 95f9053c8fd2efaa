import assert from "node:assert/strict";
import test from "node:test";
import * as format from "../../src/format";

test("a clock drops hours it does not need and never shows 60 seconds", () => {
  assert.equal(format.clock(0), "0:00");
  assert.equal(format.clock(59.999), "0:59");
  assert.equal(format.clock(3599), "59:59");
  assert.equal(format.clock(3723.4), "1:02:03");
  assert.equal(format.clock(-1), "0:00");
});

test("a time is spoken in words, with one of each in the singular", () => {
  assert.equal(format.spoken(0.4), "0 seconds");
  assert.equal(format.spoken(61), "1 minute 1 second");
  assert.equal(format.spoken(7322), "2 hours 2 minutes 2 seconds");
});

test("sizes and rates keep three digits that tell and change units in time", () => {
  assert.equal(format.size(0), "0 B");
  assert.equal(format.size(999), "999 B");
  assert.equal(format.size(415_965), "416 kB");
  assert.equal(format.size(999_700), "1 MB");
  assert.equal(format.size(4_200_000_000), "4.2 GB");
  assert.equal(format.size(9_876_000_000_000_000), "9880 TB");
  assert.equal(format.rate(331_000), "331 kbit/s");
  assert.equal(format.rate(98_760_000), "98.8 Mbit/s");
});

test("milliseconds show a tenth where it matters", () => {
  assert.equal(format.milliseconds(0.24), "0.2 ms");
  assert.equal(format.milliseconds(34.6), "35 ms");
});

test("how long something lasts is said in two units at most", () => {
  assert.equal(format.lasting(12.9), "12 s");
  assert.equal(format.lasting(200), "3 min");
  assert.equal(format.lasting(18_120), "5 h 02 min");
  assert.equal(format.lasting(356_400), "4 d 3 h");
});

test("frame rates, channels and languages are named as people know them", () => {
  assert.equal(format.frameRate(30_000 / 1001), "29.97");
  assert.equal(format.frameRate(25), "25");
  assert.equal(format.channels(6), "5.1");
  assert.equal(format.channels(3), "3 channels");
  assert.equal(format.language("eng"), "English");
  assert.equal(format.language("und"), null);
  assert.equal(format.language(null), null);
  assert.equal(format.language("not a code"), "not a code");
});

test("a title's last part is its name, the rest its place", () => {
  assert.deepEqual(format.titleParts("bunny"), { name: "bunny", place: "" });
  assert.deepEqual(format.titleParts("a/b/50% “x”"), { name: "50% “x”", place: "a / b" });
});

test("moments are to the minute, and how far a film was read in whole percent", () => {
  assert.equal(format.moment("2026-11-21T08:42:57Z"), "2026-11-21 08:42 UTC");
  assert.equal(format.soFar(null), "It will be ready in a moment.");
  assert.equal(format.soFar(0.999), "99 % of its file has been read.");
});
