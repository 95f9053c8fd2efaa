// An audio worklet: says at what time of its context each beep begins.
class Onset extends AudioWorkletProcessor {
  silent = sampleRate; // samples since the last sound

  process([input]) {
    const samples = input[0] ?? [];
    for (let i = 0; i < samples.length; i += 1) {
      if (Math.abs(samples[i]) < 0.05) {
        this.silent += 1;
        continue;
      }
      if (this.silent > 0.3 * sampleRate) this.port.postMessage(currentTime + i / sampleRate);
      this.silent = 0;
    }
    return true;
  }
}
registerProcessor("onset", Onset);
