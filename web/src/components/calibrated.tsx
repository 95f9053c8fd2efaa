// The results of `reelway serve --calibrate` for this machine: as text, and its chart.
import { useState } from "preact/hooks";
import * as api from "../api";
import { rate, size } from "../format";

/** Closed at first: the results are requested when it is opened. */
export function Calibrated() {
  const [found, setFound] = useState<api.Calibration | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const look = () => {
    if (!found) api.calibration().then(setFound, (cause) => setTrouble(String(cause)));
  };
  return (
    <details class="calibrated" onToggle={(event) => event.currentTarget.open && look()}>
      <summary>Measured capacity of this machine</summary>
      {trouble && <p class="quiet">{trouble}</p>}
      {found && (
        <>
          <p>
            {said(found)} Measured on {new Date(found.when).toLocaleString("en", { dateStyle: "long", timeStyle: "short" })}.
          </p>
          <img src="/api/calibration.svg" alt={tried(found)} width="720" height="400" />
        </>
      )}
    </details>
  );
}

function said({ cpu, disk }: api.Calibration): string {
  const parts = [];
  if (cpu !== null) parts.push(`The processor can send ${rate(cpu * 8)} over RTSP.`);
  if (disk !== null) parts.push(`The disks deliver ${size(disk)} per second in random reads.`);
  return parts.join(" ") || "It could not be measured.";
}

function tried({ tried }: api.Calibration): string {
  const how = tried.map(({ viewers, well, late_ms }) => `${viewers}: ${well ? "kept up with" : "too many"}, ${late_ms.toFixed(1)} ms late`);
  return `Viewers of 4 Mbit/s on one core, and how late 999 of 1000 frames came: ${how.join("; ")}`;
}
