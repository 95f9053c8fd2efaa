// The live page: who watches what and how well, and the state of the server.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { Booked } from "../components/booked";
import { Cached } from "../components/cached";
import { Figures as Cards, type FigureText } from "../components/figures";
import { Notice } from "../components/notice";
import { Remote } from "../components/remote";
import { Sparkline } from "../components/sparkline";
import { useToken } from "../components/token-dialog";
import { feed, useNode, useSessions } from "../feed";
import { clock, count, lasting, milliseconds, rate, size, spoken, titleParts } from "../format";
import { usePolled } from "../poll";
import { format } from "../routes";

/** The seconds that the sparkline of the sending rate covers. */
const historySeconds = 120;

/** The sending rate second by second, also recorded while other pages are shown. */
const history: number[] = [];
let sending = 0;
feed.on("node", (node) => (sending = node.sending.rate));
setInterval(() => {
  if (document.hidden) return;
  history.push(feed.connected ? sending : 0);
  if (history.length > historySeconds) history.shift();
}, 1000);

export function Live() {
  const node = useNode();
  const sessions = useSessions();
  const cache = usePolled(api.cache);
  const [withToken, dialog] = useToken("end this session");
  const [said, setSaid] = useState("");

  useEffect(() => {
    document.title = "Live · Reelway";
  }, []);

  const end = (session: api.Session) =>
    withToken(async (token) => {
      try {
        await api.endSession(session.id, token);
        setSaid(`Ended the session of ${session.peer}`);
      } catch (cause) {
        if (api.isRefused(cause)) throw cause;
        const isGone = cause instanceof api.ApiError && cause.status === 404;
        setSaid(isGone ? "That session has ended already" : `Could not end it: ${String(cause)}`);
      }
    });

  return (
    <div class="page">
      <h1>Live</h1>
      {node && node.state !== "serving" && (
        <Notice
          kind="wait"
          title={node.state === "draining" ? "The server is shutting down" : "The server is starting"}
        >
          <p>{node.state === "draining" ? "It admits no new viewers, and ends current sessions." : "Films are being indexed."}</p>
        </Notice>
      )}
      {node?.problems.map(({ what, severity, since, detail }) => (
        <Notice key={what} kind={severity === "recovered" ? "wait" : "problem"} title={`Problem: ${what}`}>
          <p>{severity === "recovered" ? `A fault of the server, which goes on: ${detail}` : detail}</p>
          <p class="quiet">Since {new Date(since).toLocaleString()}</p>
        </Notice>
      ))}
      <Figures node={node} />
      <Booked />
      <Cached cache={cache} />
      <Remote cache={cache} />
      <section aria-labelledby="sessions">
        <h2 id="sessions">Sessions</h2>
        <p class="live-said" role="status">
          {said || "\u00a0"}
        </p>
        {sessions && sessions.length === 0 && (
          <p class="quiet">Nobody is watching. Open a film from the library, or its address in a player.</p>
        )}
        {sessions && sessions.length > 0 && (
          <Sessions sessions={sessions} onEnd={end} />
        )}
      </section>
      {dialog}
    </div>
  );
}

/** Redraws every second, for the sparkline. */
function useSeconds(): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return seconds;
}

function Figures({ node }: { node: api.Node | null }) {
  useSeconds();
  const asked = node ? node.pool.hits + node.pool.misses : 0;
  const figures: FigureText[] = [
    [
      "Playing",
      node ? String(node.sessions.playing) : "–",
      node ? sessionsByProtocol(node) : "",
    ],
    [
      "Lateness",
      node?.sending.late_p99_ms != null ? milliseconds(node.sending.late_p99_ms) : "–",
      node ? latenesses(node) : "of 99 % of packets",
    ],
    ["CPU a stream", node?.sending.cpu_ms_per_stream_second != null ? `${node.sending.cpu_ms_per_stream_second.toFixed(2)} ms` : "–", node ? sends(node) : ""],
    ["Retransmitted", node ? String(node.sending.resent) : "–", node ? losses(node) : ""],
    [
      "Memory for films",
      node ? size(node.pool.used) : "–",
      node ? `of ${size(node.pool.bytes)}${asked > 0 ? `; ${Math.round((node.pool.hits / asked) * 100)} % hit ratio` : ""}` : "",
    ],
    ["Up", node ? lasting(node.uptime) : "–", ""],
  ];
  return (
    <Cards label="Server" of={figures}>
      <div class="figure figure-wide">
        <h2>Sending</h2>
        <p class="figure-value">{node ? rate(node.sending.rate) : "–"}</p>
        <p class="figure-more">{node ? `${count(Math.round(node.sending.packets_per_second), "packet")} a second` : "\u00a0"}</p>
        <Sparkline values={history} room={historySeconds} label={`Sending rate over the last ${historySeconds} seconds`} />
      </div>
    </Cards>
  );
}

/** The lateness of packets beyond the 99th percentile. */
function latenesses({ sending }: api.Node): string {
  if (sending.late_p999_ms == null || sending.late_max_ms == null) return "of 99 % of packets";
  return `of 99 % of packets; of 99.9 %: ${milliseconds(sending.late_p999_ms)}, at most ${milliseconds(sending.late_max_ms)}`;
}

/** The cost of a stream, and how it is sent. */
function sends({ sending }: api.Node): string {
  const packets = sending.packets_per_send;
  return `a second; sends by ${sending.backend}${packets != null ? `, ${packets.toFixed(1)} packets a send` : ""}`;
}

/** Packets that did not arrive as first sent. */
function losses({ sending }: api.Node): string {
  const parts = [`of ${count(sending.missed, "packet")} missed`];
  if (sending.dropped_frames > 0) parts.push(`${count(sending.dropped_frames, "frame")} left out`);
  if (sending.refused > 0) parts.push(`${sending.refused} refused by the kernel`);
  return parts.join("; ");
}

const protocolNames: Record<string, string> = {
  "rtsp/udp": "RTSP/UDP",
  "rtsp/tcp": "RTSP/TCP",
  hls: "HLS",
  dash: "DASH",
  file: "File",
};
const protocolName = (protocol: string) => protocolNames[protocol] ?? protocol;

function sessionsByProtocol({ sessions }: api.Node): string {
  if (sessions.total === 0) return "nobody is connected";
  const parts = Object.entries(sessions.by_protocol)
    .filter(([, n]) => n > 0)
    .map(([protocol, n]) => `${n} ${protocolName(protocol)}`);
  return `of ${count(sessions.total, "session")}: ${parts.join(", ")}`;
}

/** The rows shown until the user asks for more: nobody can use a table of thousands that changes
 * every second. */
const firstRows = 100;

function Sessions({ sessions, onEnd }: { sessions: api.Session[]; onEnd(session: api.Session): void }) {
  const [rows, setRows] = useState(firstRows);
  const more = sessions.length - rows;
  return (
    <>
      <SessionTable sessions={sessions.slice(0, rows)} onEnd={onEnd} />
      {more > 0 && (
        <p class="more">
          <button type="button" class="button" onClick={() => setRows((rows) => rows * 4)}>
            Show more
          </button>
          <span>{rows} of {sessions.length}</span>
        </p>
      )}
    </>
  );
}

function SessionTable({ sessions, onEnd }: { sessions: api.Session[]; onEnd(session: api.Session): void }) {
  return (
    <table class="sessions">
      <thead>
        <tr>
          <th scope="col">Film</th>
          <th scope="col">Viewer</th>
          <th scope="col">By</th>
          <th scope="col">Position</th>
          <th scope="col" class="number">
            Rate
          </th>
          <th scope="col" class="number">
            Lost
          </th>
          <th scope="col" class="number">
            Late
          </th>
          <th scope="col">
            <span class="visually-hidden">End</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {sessions.map((session) => {
          const { name, place } = titleParts(session.title);
          return (
            <tr key={session.id}>
              <th scope="row" data-label="Film">
                <a href={format({ page: "film", title: session.title })}>{name}</a>
                {place && <span class="under">{place}</span>}
              </th>
              <td data-label="Viewer">
                {session.user ? `${session.user}, ${session.peer}` : session.peer}
                {session.user_agent && (
                  <span class="under agent" title={session.user_agent}>
                    {session.user_agent}
                  </span>
                )}
              </td>
              <td data-label="By">{protocolName(session.protocol)}</td>
              <td data-label="Position">
                <Position session={session} />
              </td>
              <td data-label="Rate" class="number">
                {session.rate === null ? "–" : rate(session.rate)}
                <span class="under">{size(session.bytes)}</span>
              </td>
              <td data-label="Lost" class="number" data-bad={(session.lost ?? 0) > 0}>
                {lost(session)}
                {session.jitter_ms !== null && <span class="under">jitter {milliseconds(session.jitter_ms)}</span>}
              </td>
              <td data-label="Late" class="number">
                {session.late_p99_ms === null ? "–" : milliseconds(session.late_p99_ms)}
                {session.late_max_ms !== null && <span class="under">at most {milliseconds(session.late_max_ms)}</span>}
              </td>
              <td class="sessions-end">
                <button
                  type="button"
                  class="button button-small"
                  aria-label={`End the session of ${session.peer}, ${name}`}
                  onClick={() => onEnd(session)}
                >
                  End
                </button>
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function lost({ lost, packets }: api.Session): string {
  if (lost === null) return "–";
  if (lost === 0 || !packets) return String(lost);
  return `${lost} (${((lost / packets) * 100).toFixed(1)} %)`;
}

function Position({ session }: { session: api.Session }) {
  const { position, duration, state } = session;
  if (position === null || !duration) return <>{state}</>;
  return (
    <>
      <span class="clock" aria-hidden="true">
        {clock(position)} <span class="quiet">/ {clock(duration)}</span>
      </span>
      <span class="visually-hidden">{spoken(position)}</span>
      {state !== "playing" && <span class="state">{state}</span>}
      <progress aria-hidden="true" max={duration} value={Math.min(position, duration)} />
    </>
  );
}
