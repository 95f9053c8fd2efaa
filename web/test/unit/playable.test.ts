import assert from "node:assert/strict";
import test from "node:test";
import type { Audio, Video } from "../../src/api";
import { judge, type Browser } from "../../src/playable";

const h264: Video = { codec: "avc1.64001e", name: "H.264 High", width: 640, height: 360, frame_rate: 25 };
const h265: Video = { ...h264, codec: "hvc1.1.6.L93.B0", name: "H.265 Main" };
const aac: Audio = { codec: "mp4a.40.2", name: "AAC-LC", channels: 2, channel_configuration: 2, rate: 48000, language: "eng" };
const ac3: Audio = { ...aac, codec: "ac-3", name: "AC-3", channel_configuration: null };

const browser = (known: string[]): Browser => ({
  isTypeSupported: (type) => known.some((codec) => type.includes(`"${codec}"`)),
  nativeHls: false,
  canPlayType: () => "",
  needsChannelNumber: true,
});
const usual = browser([h264.codec, aac.codec]);

test("a film with known picture and sound plays by media sources", () => {
  assert.deepEqual(judge({ video: h264, audio: [aac] }, usual), { way: "mse", missing: [] });
});

test("a picture that the browser lacks is named", () => {
  assert.deepEqual(judge({ video: h265, audio: [aac] }, usual), {
    way: null,
    why: "This browser cannot play H.265 Main video (hvc1.1.6.L93.B0).",
  });
});

test("sound that the browser lacks is named, and a film that has only such does not play", () => {
  assert.deepEqual(judge({ video: h264, audio: [ac3, ac3] }, usual), {
    way: null,
    why: "This browser cannot play AC-3 (ac-3) audio.",
  });
});

test("one playable sound track of several is enough; the others are named", () => {
  assert.deepEqual(judge({ video: h264, audio: [ac3, aac] }, usual), { way: "mse", missing: ["AC-3 (ac-3)"] });
});

test("AAC whose channels have no number does not play in Chromium, whatever it says of the codec", () => {
  const quad: Audio = { ...aac, channels: 4, channel_configuration: 0 };
  assert.deepEqual(judge({ video: h264, audio: [quad] }, usual), {
    way: null,
    why: "This browser cannot play AAC-LC (4 channels in an order of their own) audio.",
  });
  const missing = ["AAC-LC (4 channels in an order of their own)"];
  assert.deepEqual(judge({ video: h264, audio: [quad, aac] }, usual), { way: "mse", missing });
  const other = { ...usual, needsChannelNumber: false };
  assert.deepEqual(judge({ video: h264, audio: [quad] }, other), { way: "mse", missing: [] });
});

test("films of only sound or only picture play", () => {
  assert.deepEqual(judge({ video: null, audio: [aac] }, usual), { way: "mse", missing: [] });
  assert.deepEqual(judge({ video: h264, audio: [] }, usual), { way: "mse", missing: [] });
});

test("a browser without media sources plays by its own HLS, or says that it has neither", () => {
  const iphone: Browser = {
    isTypeSupported: null,
    nativeHls: true,
    canPlayType: (type) => (type.includes("avc1") ? "probably" : ""),
    needsChannelNumber: false,
  };
  assert.deepEqual(judge({ video: h264, audio: [] }, iphone), { way: "native", missing: [] });
  assert.equal(judge({ video: h265, audio: [] }, iphone).way, null);
  assert.equal(judge({ video: h264, audio: [] }, { ...iphone, nativeHls: false }).way, null);
});
