// What is asked for again and again as long as it is shown.
import { useEffect, useState } from "preact/hooks";

/** Between two looks, in ms. */
const period = 2000;

/** What `ask` said last; null before it said anything. Nothing is asked while nobody looks. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>): T | null {
  const [said, setSaid] = useState<T | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const look = () => {
      if (!document.hidden) ask(stop.signal).then((now) => setSaid(() => now), () => undefined);
    };
    look();
    const timer = setInterval(look, period);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [ask]);
  return said;
}
