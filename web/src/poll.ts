// Data that is polled while it is shown.
import { useEffect, useState } from "preact/hooks";

/** The interval between requests, in ms. */
const period = 2000;
/** The longest wait for a response, in ms. */
const patience = 10_000;

/** The latest result of `ask`; null before the first. Nothing is requested while the tab is
 * hidden. */
export const usePolled = <T>(ask: (signal: AbortSignal) => Promise<T>): T | null => useAnswered(ask)[0];

/** The same, and whether the latest call of `ask` succeeded. */
export function useAnswered<T>(ask: (signal: AbortSignal) => Promise<T>): [said: T | null, isAnswering: boolean] {
  const [said, setSaid] = useState<T | null>(null);
  const [isAnswering, setAnswering] = useState(true);
  useEffect(() => {
    const stop = new AbortController();
    let isAsking = false;
    const look = async () => {
      if (document.hidden || isAsking) return;
      isAsking = true;
      const late = new AbortController();
      const giveUp = () => late.abort();
      const timer = setTimeout(giveUp, patience);
      stop.signal.addEventListener("abort", giveUp);
      try {
        const now = await ask(late.signal);
        setSaid(() => now);
        setAnswering(true);
      } catch {
        if (!stop.signal.aborted) setAnswering(false);
      } finally {
        clearTimeout(timer);
        stop.signal.removeEventListener("abort", giveUp);
        isAsking = false;
      }
    };
    void look();
    const timer = setInterval(() => void look(), period);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [ask]);
  return [said, isAnswering];
}
