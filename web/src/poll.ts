// What is asked for again and again as long as it is shown.
import { useEffect, useState } from "preact/hooks";

/** Between two looks, in ms. */
const period = 2000;
/** Longest wait for an answer, in ms. */
const patience = 10_000;

/** What `ask` said last; null before it said anything. Nothing is asked while nobody looks. */
export const usePolled = <T>(ask: (signal: AbortSignal) => Promise<T>): T | null => useAnswered(ask)[0];

/** The same, and whether `ask` succeeded the last time. */
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
