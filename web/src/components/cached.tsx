// The cache: its hits compared with other policies, the performance of the disks, and which parts
// of films being played are in memory.
import * as api from "../api";
import { count, milliseconds, size, titleParts } from "../format";
import { format } from "../routes";

const percent = (share: number) => `${(share * 100).toFixed(share > 0.995 || share < 0.1 ? 1 : 0)} %`;

/** Renders nothing before anything was read. */
export function Cached({ cache }: { cache: api.Cache | null }) {
  if (!cache || cache.hits + cache.misses === 0) return null;
  return (
    <section aria-labelledby="cached">
      <h2 id="cached">Cache</h2>
      <p class="quiet">
        {percent(cache.hits / (cache.hits + cache.misses))} of requests were served from memory. {size(cache.sent)} sent,{" "}
        {size(cache.read)} read from disks.
      </p>
      <div class="cached">
        {cache.compared && <Compared compared={cache.compared} />}
        {cache.disks.length > 0 && <Devices devices={cache.disks} />}
      </div>
      {cache.films.length > 0 && (
        <div class="maps">
          {cache.films.map((film) => (
            <FilmMap key={film.title} film={film} />
          ))}
        </div>
      )}
    </section>
  );
}

function Compared({ compared }: { compared: NonNullable<api.Cache["compared"]> }) {
  const rows: [name: string, share: number, more: string][] = [
    ["This cache", compared.this, ""],
    ["LRU", compared.lru, "replaces the least recently used"],
    ["ONS", compared.ons, "the EXT3NS paper's"],
    ["Belady", compared.belady, "with knowledge of the future"],
  ];
  return (
    <figure class="compared">
      <figcaption>
        <b>Hit ratio with other policies</b> <span>of the last {count(compared.requests, "request")}</span>
      </figcaption>
      <dl>
        {rows.map(([name, share, more]) => (
          <div key={name}>
            <dt>
              {name} {more && <span>{more}</span>}
            </dt>
            <dd>
              <span class="compared-bar" data-this={name === "This cache"} style={{ width: `${share * 100}%` }} />
              <b>{percent(share)}</b>
            </dd>
          </div>
        ))}
      </dl>
    </figure>
  );
}

function Devices({ devices }: { devices: api.Device[] }) {
  return (
    // On a phone it is wider than the page: users without a pointer scroll it with keys.
    <div class="devices" role="region" aria-label="Disks" tabIndex={0}>
      <table>
        <caption>Disks</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">
              Read
            </th>
            <th scope="col" class="number">
              Half within
            </th>
            <th scope="col" class="number">
              99 % within
            </th>
            <th scope="col" class="number">
              At most
            </th>
            <th scope="col" class="number">
              Under way
            </th>
          </tr>
        </thead>
        <tbody>
          {devices.map((device) => (
            <tr key={device.name}>
              <th scope="row">{device.name}</th>
              <td class="number">{size(device.bytes)}</td>
              <td class="number">{milliseconds(device.p50_ms)}</td>
              <td class="number">{milliseconds(device.p99_ms)}</td>
              <td class="number">{milliseconds(device.max_ms)}</td>
              <td class="number" data-bad={device.errors > 0}>
                {device.under_way}
                {device.queued > 0 && `, ${device.queued} waiting`}
                {device.errors > 0 && `; ${count(device.errors, "error")}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Which parts of a film are in memory, from its beginning to its end, and where its viewers
 * are. */
function FilmMap({ film }: { film: api.CachedFilm }) {
  const { name, place } = titleParts(film.title);
  const parts = film.map.length;
  const held = `${size(film.held)} of ${size(film.size)} in memory`;
  const found = film.hit_ratio === null ? "" : `; ${percent(film.hit_ratio)} hit ratio lately`;
  return (
    <figure class="map">
      <figcaption>
        <a href={format({ page: "film", title: film.title })}>{name}</a>
        {place && <span>{place}</span>}
        <span>
          {held}
          {found}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${parts} 10`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${film.title}: ${held}; ${count(film.viewers.length, "viewer")}`}
      >
        {runs(film.map).map(([from, to, share]) => (
          <rect key={from} class="map-held" x={from} y="0" width={to - from} height="10" opacity={share / 100} />
        ))}
        {film.viewers.map((at, i) => (
          <line key={i} class="map-viewer" x1={at * parts} x2={at * parts} y1="0" y2="10" />
        ))}
      </svg>
    </figure>
  );
}

/** Joins adjacent parts with the same percentage. */
function runs(map: number[]): [from: number, to: number, share: number][] {
  const found: [number, number, number][] = [];
  map.forEach((share, at) => {
    const last = found.at(-1);
    if (last && last[1] === at && last[2] === share) last[1] = at + 1;
    else if (share > 0) found.push([at, at + 1, share]);
  });
  return found;
}
