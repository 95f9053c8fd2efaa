import { useEffect, useRef, useState } from "preact/hooks";
import type { Film } from "../api";
import { poster, posterKey } from "../poster";
import { FilmIcon, WaitIcon, WarningIcon } from "./icons";

/** A film's poster, taken when the tile scrolls into view; until then, or if there is none, an
 * icon. */
export function Poster({ film }: { film: Film }) {
  const box = useRef<HTMLDivElement>(null);
  const [address, setAddress] = useState<string | null>(null);
  const takes = film.state === "ready" && film.video !== null;

  useEffect(() => {
    const element = box.current;
    if (!element || !takes) return;
    let visible = false;
    let gone = false;
    let made: string | null = null;
    const observer = new IntersectionObserver(
      async (entries) => {
        visible = entries.at(-1)?.isIntersecting ?? false;
        if (!visible || made) return;
        const blob = await poster(film, () => visible && !gone);
        if (!blob || gone || made) return;
        made = URL.createObjectURL(blob);
        setAddress(made);
        observer.disconnect();
      },
      { rootMargin: "200px" },
    );
    observer.observe(element);
    return () => {
      gone = true;
      observer.disconnect();
      if (made) URL.revokeObjectURL(made);
    };
  }, [posterKey(film), takes]);

  return (
    <div class="poster" ref={box}>
      {film.state === "indexing" || film.state === "not_ready" ? (
        <WaitIcon />
      ) : film.state === "unplayable" ? (
        <WarningIcon />
      ) : (
        <FilmIcon />
      )}
      {address && <img src={address} alt="" />}
    </div>
  );
}
