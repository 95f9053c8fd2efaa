// An audio worklet that reports when each beep begins, in its context's time.
class Onset extends AudioWorkletProcessor {
  silent = sampleRate; // samples since the last audible one

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
