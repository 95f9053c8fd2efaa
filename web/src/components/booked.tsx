// The booking calendar: the bookings of each limited resource in the coming minutes.
import * as api from "../api";
import { Calibrated } from "./calibrated";
import { usePolled } from "../poll";
import { clock, rate, size } from "../format";

const names: Record<api.Resource["name"], string> = {
  network: "Network",
  processor: "Processor",
  disk: "Disks",
  origin: "Read from other servers",
  memory: "Film memory in use",
};

const amount = (value: number, unit: api.Resource["unit"]) =>
  unit === "bit/s" ? rate(value) : unit === "byte/s" ? `${size(value)}/s` : size(value);

/** Renders nothing if nothing is limited. */
export function Booked() {
  const admission = usePolled(api.admission);
  if (!admission || admission.resources.length === 0) return null;
  const last = admission.refused.slice(-5).reverse();
  return (
    <section aria-labelledby="booked">
      <h2 id="booked">Booked</h2>
      <div class="booked">
        {admission.resources.map((resource) => (
          <Calendar key={`${resource.name} ${resource.interface}`} resource={resource} step={admission.step} />
        ))}
      </div>
      {admission.calibrated && <Calibrated />}
      <p class="quiet">
        {admission.refused_total === 0
          ? "Nobody was refused."
          : `${admission.refused_total.toLocaleString("en")} refused since the start.`}
      </p>
      {last.length > 0 && (
        <ul class="refused">
          {last.map((refused) => (
            <li key={`${refused.ago} ${refused.title}`}>
              {clock(refused.ago)} ago, <b>{refused.title}</b>: {refused.reason}; room in {clock(refused.retry_after)}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const width = 600;
const height = 120;

function Calendar({ resource, step }: { resource: api.Resource; step: number }) {
  const { booked, limit, unit } = resource;
  const most = Math.max(...booked, 0);
  // Leaves some room above the limit, so that it can be seen.
  const top = Math.max((limit ?? 0) * 1.1, most * 1.05, 1);
  const x = (i: number) => (i / Math.max(booked.length - 1, 1)) * width;
  const y = (value: number) => height - (value / top) * height;
  const line = booked.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const seconds = booked.length * step;
  const now = booked[0] ?? 0;
  const share = limit ? `${Math.round((now / limit) * 100)} % of ` : "";
  const said = `${amount(now, unit)} now, ${share}${limit === null ? "no limit" : amount(limit, unit)}`;
  return (
    <figure class="calendar">
      <figcaption>
        <b>
          {names[resource.name]}
          {resource.interface ? ` ${resource.interface}` : ""}
        </b>
        <span>{said}</span>
        {resource.share < 1 && <span class="calendar-less">only {Math.round(resource.share * 100)} % of it is there</span>}
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Booked over the coming ${clock(seconds)}: ${said}, at most ${amount(most, unit)}`}
      >
        <polygon class="calendar-area" points={`0,${height} ${line} ${width},${height}`} />
        <polyline class="calendar-line" points={line} />
        {limit !== null && <line class="calendar-limit" x1="0" x2={width} y1={y(limit)} y2={y(limit)} />}
      </svg>
      <div class="calendar-times" aria-hidden="true">
        <span>now</span>
        <span>in {clock(seconds / 2)}</span>
        <span>in {clock(seconds)}</span>
      </div>
    </figure>
  );
}
