// Formats numbers for people. All functions are pure.

const pad = (n: number) => String(n).padStart(2, "0");

/** Seconds as a clock: `0:07`, `1:02:03`. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

/** A moment in UTC (RFC 3339), to the minute: `2026-11-21 08:42 UTC`. */
export const moment = (utc: string) => `${utc.slice(0, 10)} ${utc.slice(11, 16)} UTC`;

/** How much of a film that is being indexed has been read, 0 to 1: `43 % of its file has been
 * read.` */
export const soFar = (share: number | null) =>
  share === null ? "It will be ready in a moment." : `${Math.floor(share * 100)} % of its file has been read.`;

/** Seconds in words, for screen readers: `1 hour 2 minutes 3 seconds`. */
export function spoken(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 3600), "hour"],
    [Math.floor(whole / 60) % 60, "minute"],
    [whole % 60, "second"],
  ] as const;
  const said = parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}${n === 1 ? "" : "s"}`);
  return said.length > 0 ? said.join(" ") : "0 seconds";
}

function scaled(value: number, units: readonly string[]): string {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}

/** Bytes: `512 B`, `416 kB`, `4.2 GB`. */
export const size = (bytes: number) => scaled(bytes, ["B", "kB", "MB", "GB", "TB"]);

/** Bits per second: `331 kbit/s`, `4.2 Mbit/s`. */
export const rate = (bits: number) => scaled(bits, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);

/** Milliseconds: `0.2 ms`, `35 ms`. */
export function milliseconds(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

/** A duration so far: `12 s`, `3 min`, `5 h 02 min`, `4 d 3 h`. */
export function lasting(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor(whole / 3600) % 24} h`;
}

/** Frames per second in the usual notation: `25`, `29.97`. */
export const frameRate = (rate: number) => `${Number(rate.toFixed(2))}`;

/** The common name of an audio track's number of channels. */
export function channels(count: number): string {
  const names: Record<number, string> = { 1: "mono", 2: "stereo", 6: "5.1", 8: "7.1" };
  return names[count] ?? `${count} channels`;
}

/** The English name of a language code from the film (`eng`); null if the film has none. */
export function language(code: string | null): string | null {
  if (!code || code === "und") return null;
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code) ?? code;
  } catch {
    return code; // not a well-formed code: show it unchanged
  }
}

/** `1 film`, `2 films`. */
export const count = (n: number, noun: string) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

/** A title in two parts: its last part is the name, the folders above it are the place. */
export function titleParts(title: string): { name: string; place: string } {
  const cut = title.lastIndexOf("/");
  return { name: title.slice(cut + 1), place: cut < 0 ? "" : title.slice(0, cut).replaceAll("/", " / ") };
}
