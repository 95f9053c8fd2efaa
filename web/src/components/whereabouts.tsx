// Which edges have which films in memory, and how many viewers watch them there.
import type { Edge } from "../director-api";
import { count, titleParts } from "../format";

/** The number of films shown, those with the most viewers. */
const shown = 20;

export function Whereabouts({ edges }: { edges: Edge[] }) {
  const asked = edges.filter((edge) => edge.report);
  const viewers = new Map<string, number>();
  for (const { report } of asked) {
    for (const film of report?.films ?? []) viewers.set(film.title, (viewers.get(film.title) ?? 0) + film.viewers);
  }
  const titles = [...viewers.keys()].sort((a, b) => (viewers.get(b) ?? 0) - (viewers.get(a) ?? 0) || a.localeCompare(b));
  return (
    <section aria-labelledby="films">
      <h2 id="films">Where films are</h2>
      {titles.length === 0 && <p class="quiet">Nobody is watching.</p>}
      {titles.length > 0 && (
        <div class="devices" role="region" aria-label="Films at each edge" tabIndex={0}>
          <table class="whereabouts">
            <thead>
              <tr>
                <th scope="col">Film</th>
                {asked.map((edge) => (
                  <th key={edge.address} scope="col">
                    {edge.address}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {titles.slice(0, shown).map((title) => (
                <tr key={title}>
                  <th scope="row">{titleParts(title).name}</th>
                  {asked.map((edge) => (
                    <Held key={edge.address} edge={edge} title={title} />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {titles.length > shown && <p class="quiet">And {count(titles.length - shown, "film")} more.</p>}
        </div>
      )}
    </section>
  );
}

function Held({ edge, title }: { edge: Edge; title: string }) {
  const film = edge.report?.films.find((film) => film.title === title);
  if (!film) return <td class="quiet">–</td>;
  const part = film.size > 0 ? film.held / film.size : 0;
  return (
    <td>
      <meter aria-label={`Part of ${title} in the memory of ${edge.address}`} value={part} />{" "}
      {Math.round(part * 100)} %, {count(film.viewers, "viewer")}
    </td>
  );
}
