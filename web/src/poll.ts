// What is asked for again and again as long as it is shown.
import { useEffect, useState } from "preact/hooks";

/** Between two looks, in ms. */
const period = 2000;

/** What `ask` said last; null before it said anything. Nothing is asked while nobody looks. */
export const usePolled = <T>(ask: (signal: AbortSignal) => Promise<T>): T | null => useAnswered(ask)[0];

/** The same, and whether `ask` succeeded the last time. */
export function useAnswered<T>(ask: (signal: AbortSignal) => Promise<T>): [said: T | null, isAnswering: boolean] {
  const [said, setSaid] = useState<T | null>(null);
  const [isAnswering, setAnswering] = useState(true);
  useEffect(() => {
    const stop = new AbortController();
    const look = () => {
      if (document.hidden) return;
      ask(stop.signal).then(
        (now) => {
          setSaid(() => now);
          setAnswering(true);
        },
        () => setAnswering(stop.signal.aborted),
      );
    };
    look();
    const timer = setInterval(look, period);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [ask]);
  return [said, isAnswering];
}
