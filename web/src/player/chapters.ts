// A film's chapters, as the player needs them. Pure.

import type { Chapter } from "../api";

/** Browsers round times: a position this close to a chapter's beginning, in seconds, counts as
 * its beginning. */
const near = 0.01;

/** The index of the chapter at a time, -1 before the first. */
export function chapterAt(chapters: readonly Chapter[], seconds: number): number {
  return chapters.findLastIndex((chapter) => chapter.start <= seconds + near);
}

/** The beginning of the next chapter, or of the previous one; from some seconds into a chapter,
 * back leads to its beginning. Null if there is none. */
export function chapterFrom(chapters: readonly Chapter[], seconds: number, by: 1 | -1): number | null {
  const wellInto = 2; // seconds
  const from = by < 0 ? seconds - wellInto : seconds;
  const found = by < 0 ? chapters.findLast(({ start }) => start <= from) : chapters.find(({ start }) => start > from + near);
  return found?.start ?? null;
}

/** The name to display. */
export function chapterLabel(chapters: readonly Chapter[], number: number): string {
  return chapters[number]?.name ?? `Chapter ${number + 1}`;
}
