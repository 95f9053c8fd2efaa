// A director's edges: their states, the traffic that they save, and what happens if one fails.
import type { Director, Edge, Without } from "../director-api";
import { count, rate, size, titleParts } from "../format";
import { Figures, type FigureText } from "./figures";

/** The totals of all edges. */
export function Totals({ status }: { status: Director }) {
  const reports = status.edges.flatMap(({ report }) => report ?? []);
  const sum = (of: (report: (typeof reports)[number]) => number) => reports.reduce((all, report) => all + of(report), 0);
  const up = status.edges.filter((edge) => !["down", "drained"].includes(edge.state)).length;
  const [sent, came] = [sum((report) => report.sent), sum((report) => report.from_origins)];
  const figures: FigureText[] = [
    ["Edges that get viewers", String(up), `of ${status.edges.length}`],
    ["Sessions", String(sum((report) => report.sessions)), ""],
    ["Sending over RTP", rate(sum((report) => report.rate)), ""],
    [
      "Saved",
      came > 0 && sent > came ? `${Math.floor((1 - came / sent) * 100)} %` : "–",
      came > 0 ? `${size(came)} from origins for ${size(sent)} sent` : "",
    ],
  ];
  return <Figures label="All edges" of={figures} even />;
}

export function Edges({ edges }: { edges: Edge[] }) {
  return (
    <section aria-labelledby="edges">
      <h2 id="edges">Edges</h2>
      <table class="sessions edges">
        <thead>
          <tr>
            <th scope="col">Edge</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Sessions
            </th>
            <th scope="col" class="number">
              Hit ratio
            </th>
            <th scope="col" class="number">
              Saved
            </th>
            <th scope="col">If it fails</th>
          </tr>
        </thead>
        <tbody>
          {edges.map((edge) => (
            <Row key={edge.address} edge={edge} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ edge }: { edge: Edge }) {
  const { report, capacity } = edge;
  const saved = report && report.from_origins > 0 && report.sent > report.from_origins ? 1 - report.from_origins / report.sent : null;
  return (
    <tr>
      <th scope="row" data-label="Edge">
        <a href={edge.url}>{edge.address}</a>
        {report && <span class="under">{report.name}</span>}
      </th>
      <td data-label="State" data-bad={edge.state === "down"}>
        {states[edge.state]}
        {edge.trouble && <span class="under">{edge.trouble}</span>}
        {capacity && edge.state !== "down" && (
          <span class="under">
            {rate(capacity.free * 8)} free of {rate(capacity.total * 8)}
          </span>
        )}
      </td>
      <td data-label="Sessions" class="number">
        {report ? report.sessions : "–"}
        {report && <span class="under">{rate(report.rate)}</span>}
      </td>
      <td data-label="Hit ratio" class="number">
        {report?.hit_ratio != null ? `${Math.round(report.hit_ratio * 100)} %` : "–"}
      </td>
      <td data-label="Saved" class="number">
        {saved !== null ? `${Math.floor(saved * 100)} %` : "–"}
        {report && report.from_siblings > 0 && <span class="under">{size(report.from_siblings)} from siblings</span>}
      </td>
      <td data-label="If it fails" data-bad={edge.without?.fits === false}>
        {edge.without ? <Forecast without={edge.without} /> : "–"}
      </td>
    </tr>
  );
}

const states: Record<Edge["state"], string> = {
  up: "up",
  returning: "back, gets more viewers little by little",
  slow: "slower than the others, gets fewer viewers",
  drained: "drained: gets no new viewers",
  down: "down",
};

/** The most films that are named. */
const named = 3;

function Forecast({ without }: { without: Without }) {
  const { viewers, booked, room, fits, films } = without;
  if (viewers === 0) return <>Nobody is disturbed</>;
  const who = count(viewers, "viewer");
  const rates = booked !== null && room !== null ? `: ${rate(booked * 8)} booked, ${rate(room * 8)} free` : "";
  const names = films.slice(0, named).map((title) => titleParts(title).name);
  if (films.length > named) names.push(`${films.length - named} more`);
  return (
    <>
      {fits === true && `${who} fit on the others${rates}`}
      {fits === false && (room === 0 ? `${who} have nowhere to go` : `${who} do not all fit on the others${rates}`)}
      {fits === null && `${who} go to the others`}
      {films.length > 0 && <span class="under">Fetched anew: {names.join(", ")}</span>}
    </>
  );
}
