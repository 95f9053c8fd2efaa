// A film's chapters, as the player needs them. Pure.

import type { Chapter } from "../api";

/** Browsers round times: a place this near to a chapter's beginning is its beginning, in seconds. */
const near = 0.01;

/** The number of the chapter at a time, -1 before the first. */
export function chapterAt(chapters: readonly Chapter[], seconds: number): number {
  return chapters.findLastIndex((chapter) => chapter.start <= seconds + near);
}

/** Where the next chapter begins, or the one before; back from some seconds into a chapter is to its beginning. Null: there is none. */
export function chapterFrom(chapters: readonly Chapter[], seconds: number, by: 1 | -1): number | null {
  const wellInto = 2; // seconds
  const from = by < 0 ? seconds - wellInto : seconds;
  const found = by < 0 ? chapters.findLast(({ start }) => start <= from) : chapters.find(({ start }) => start > from + near);
  return found?.start ?? null;
}

/** What it is called. */
export function chapterLabel(chapters: readonly Chapter[], number: number): string {
  return chapters[number]?.name ?? `Chapter ${number + 1}`;
}
