// Whether a remote film is kept on the server's disk.
import { useState } from "preact/hooks";
import * as api from "../api";
import { size } from "../format";
import { usePolled } from "../poll";
import { useToken } from "./token-dialog";

/** Renders nothing if the server keeps no remote films. */
export function Kept({ title }: { title: string }) {
  const cache = usePolled(api.cache);
  const [withToken, dialog] = useToken("keep or drop films");
  const [said, setSaid] = useState("");
  if (!cache?.tier || cache.servers.length === 0) return null;
  const kept = cache.tier.kept.find((film) => film.title === title);
  const ask = (change: (title: string, token: string) => Promise<void>, done: string) =>
    withToken(async (token) => {
      try {
        await change(title, token);
        setSaid(done);
      } catch (cause) {
        if (api.isRefused(cause)) throw cause;
        setSaid(`That did not work: ${(cause as Error).message}`);
      }
    });
  return (
    <section class="film-kept" aria-labelledby="kept">
      <h2 id="kept">On disk</h2>
      <p class="quiet">{kept ? state(kept.lacking) : "What viewers watch stays on the server's disk as long as there is room."}</p>
      <p class="film-kept-buttons">
        {!kept && (
          <button type="button" class="button" onClick={() => ask(api.keep, "")}>
            Keep on disk
          </button>
        )}
        <button type="button" class="button" onClick={() => ask(api.drop, "Disk and memory hold nothing of it any more.")}>
          Drop
        </button>
      </p>
      <p role="status">{said}</p>
      {dialog}
    </section>
  );
}

function state(lacking: number | null): string {
  if (lacking === null) return "Kept: it will be fetched.";
  return lacking === 0 ? "Kept: all of it is on the server's disk." : `Kept: ${size(lacking)} to fetch.`;
}
