import { useRef, useState } from "preact/hooks";
import type { Chapter } from "../api";
import { clock, spoken } from "../format";
import { chapterAt, chapterLabel } from "./chapters";

interface SeekbarProps {
  position: number; // seconds
  duration: number;
  buffered: readonly (readonly [start: number, end: number])[];
  chapters: readonly Chapter[];
  onSeek(seconds: number): void;
}

/** The film's time as a slider, above the loaded ranges and the chapters; shows time and chapter
 * under the pointer. */
export function Seekbar({ position, duration, buffered, chapters, onSeek }: SeekbarProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const track = useRef<HTMLDivElement>(null);
  const named = (seconds: number) => {
    const number = chapterAt(chapters, seconds);
    return number < 0 ? "" : chapterLabel(chapters, number);
  };
  const percent = (seconds: number) => `${Math.min(100, (seconds / duration) * 100)}%`;

  return (
    <div
      class="seekbar"
      ref={track}
      onPointerMove={(event) => {
        const box = track.current?.getBoundingClientRect();
        if (!box || event.pointerType === "touch") return;
        setPointed(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * duration);
      }}
      onPointerLeave={() => setPointed(null)}
    >
      <div class="seekbar-track" aria-hidden="true">
        {buffered.map(([start, end]) => (
          <span key={start} class="seekbar-loaded" style={{ left: percent(start), width: percent(end - start) }} />
        ))}
        <span class="seekbar-played" style={{ width: percent(position) }} />
        {chapters.map(({ start }) => start > 0 && <span key={start} class="seekbar-chapter" style={{ left: percent(start) }} />)}
      </div>
      <input
        type="range"
        aria-label="Position"
        aria-valuetext={[`${spoken(position)} of ${spoken(duration)}`, named(position)].filter(Boolean).join(", ")}
        min={0}
        max={duration}
        step="any"
        value={position}
        onInput={(event) => onSeek(Number(event.currentTarget.value))}
        onKeyDown={(event) => {
          // With step="any" the browser's own arrow keys would move by a fraction of the film.
          const by = { ArrowLeft: -5, ArrowDown: -5, ArrowRight: 5, ArrowUp: 5, PageUp: 60, PageDown: -60 }[event.key];
          if (by === undefined) return;
          event.preventDefault();
          event.stopPropagation();
          onSeek(Math.min(duration, Math.max(0, position + by)));
        }}
      />
      {pointed !== null && (
        <span class="seekbar-time" aria-hidden="true" style={{ left: percent(pointed) }}>
          {clock(pointed)} {named(pointed)}
        </span>
      )}
    </div>
  );
}
