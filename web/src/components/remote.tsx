// Films of other servers: traffic from each server, what is kept on a disk, and what is fetched in
// advance.
import { useState } from "preact/hooks";
import * as api from "../api";
import { count, size, titleParts } from "../format";
import { format } from "../routes";
import { useToken } from "./token-dialog";

/** Renders nothing if all films are on this machine. */
export function Remote({ cache }: { cache: api.Cache | null }) {
  if (!cache || cache.servers.length === 0) return null;
  const origins = cache.servers.filter((server) => !server.sibling);
  const came = origins.reduce((sum, origin) => sum + origin.bytes, 0);
  return (
    <section aria-labelledby="remote">
      <h2 id="remote">Remote films</h2>
      <p class="quiet">
        {size(came)} came from {origins.length === 1 ? "the origin" : "the origins"} for {size(cache.sent)} sent
        {cache.sent > came && <>: {Math.floor((1 - came / cache.sent) * 100)} % saved</>}.
      </p>
      <div class="cached">
        <Servers servers={cache.servers} />
        {cache.tier && <Tier tier={cache.tier} />}
      </div>
    </section>
  );
}

function Servers({ servers }: { servers: api.OtherServer[] }) {
  return (
    <div class="devices" role="region" aria-label="Servers that films come from" tabIndex={0}>
      <table>
        <caption>Servers</caption>
        <thead>
          <tr>
            <th scope="col">Address</th>
            <th scope="col">Is</th>
            <th scope="col" class="number">
              Came
            </th>
            <th scope="col" class="number">
              Requests
            </th>
          </tr>
        </thead>
        <tbody>
          {servers.map((server) => (
            <tr key={server.address + String(server.sibling)}>
              <th scope="row">{server.address}</th>
              <td data-bad={!server.up}>
                {server.sibling ? "sibling" : "origin"}
                {server.version && `, Reelway ${server.version}`}
                {!server.up && ", does not answer"}
              </td>
              <td class="number">{size(server.bytes)}</td>
              <td class="number">
                {server.requests}
                {server.faults > 0 && `; ${count(server.faults, "fault")}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The most prefetched films that are listed. */
const shown = 10;

function Tier({ tier }: { tier: api.Tier }) {
  const [withToken, dialog] = useToken("fetch films now");
  const [said, setSaid] = useState("");
  const { prefill, kept } = tier;
  const ask = (wanted: boolean) =>
    withToken(async (token) => {
      try {
        await api.prefill(wanted, token);
        setSaid("");
      } catch (cause) {
        if (api.isRefused(cause)) throw cause;
        setSaid(`That did not work: ${String(cause)}`);
      }
    });
  return (
    <div class="compared">
      <b>On disk</b> {size(tier.used)} of {size(tier.bytes)}
      {kept.length > 0 && <>; {count(kept.length, "film")} kept</>}
      {prefill && (
        <>
          <p>
            {prefill.running
              ? "The films watched most are being fetched."
              : prefill.hours
                ? `The films watched most are fetched between ${prefill.hours.replace("-", " and ")}.`
                : "The films watched most are fetched on request."}{" "}
            {(prefill.asked || !prefill.running) && (
              <button type="button" class="button button-small" onClick={() => ask(!prefill.asked)}>
                {prefill.asked ? "Stop" : "Fetch now"}
              </button>
            )}
          </p>
          <p role="status">{said}</p>
          <ol class="prefill">
            {prefill.films.slice(0, shown).map((film) => (
              <li key={film.title}>
                <a href={format({ page: "film", title: film.title })}>{titleParts(film.title).name}</a>{" "}
                <span class="quiet">
                  {film.hours_watched.toFixed(1)} h watched; {still(film.lacking)}
                </span>
              </li>
            ))}
          </ol>
          {prefill.films.length > shown && <p class="quiet">and {prefill.films.length - shown} more</p>}
        </>
      )}
      {dialog}
    </div>
  );
}

const still = (lacking: number | null) =>
  lacking === null ? "waiting" : lacking === 0 ? "complete" : `${size(lacking)} to fetch`;
