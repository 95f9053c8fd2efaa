// One film: the player, the addresses for other players, and technical details.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { Address } from "../components/address";
import { Kept } from "../components/kept";
import { Notice } from "../components/notice";
import { feed } from "../feed";
import { channels, clock, frameRate, language, moment, rate, size, soFar, titleParts } from "../format";
import { judge, thisBrowser } from "../playable";
import { Player } from "../player/player";
import { help } from "../player/shortcuts";
import { format } from "../routes";

/** The interval at which a film that is not ready is requested again, in ms. */
const period = 5000;

export function FilmPage({ title }: { title: string }) {
  const [film, setFilm] = useState<api.FilmDetail | null>(null);
  const [error, setError] = useState<api.ApiError | Error | null>(null);
  const [asked, setAsked] = useState(0);
  const { name, place } = titleParts(title);

  useEffect(() => {
    document.title = `${name} · Reelway`;
    return feed.on("films", ({ changed }) => {
      if (!changed || changed.includes(title)) setAsked((n) => n + 1);
    });
  }, [title]);
  useEffect(() => {
    const stop = new AbortController();
    api.film(title, stop.signal).then(
      (loaded) => {
        setFilm(loaded);
        setError(null);
      },
      (cause: Error) => {
        if (!stop.signal.aborted) setError(cause);
      },
    );
    return () => stop.abort();
  }, [title, asked]);

  // The progress of indexing is not in the events, so it is polled.
  const waits = film?.state === "indexing" || film?.state === "not_ready";
  useEffect(() => {
    if (!waits) return;
    const timer = setInterval(() => document.hidden || setAsked((n) => n + 1), period);
    return () => clearInterval(timer);
  }, [waits]);

  const gone = error instanceof api.ApiError && error.status === 404;
  return (
    <div class="page film">
      {film ? <Stage film={film} /> : <div class="player player-placeholder" aria-hidden="true" />}
      <div class="film-head">
        <h1>{name}</h1>
        {place && <p class="film-place">{place}</p>}
        <p class="film-facts">{film ? facts(film) : "\u00a0"}</p>
      </div>
      {error && (
        <Notice kind="problem" title={gone ? "There is no such film" : "The film could not be loaded"}>
          <p>{gone ? "It may have been moved or renamed." : error.message}</p>
          <p>
            {!gone && (
              <button type="button" class="button" onClick={() => setAsked((n) => n + 1)}>
                Try again
              </button>
            )}{" "}
            <a href="#/">To the library</a>
          </p>
        </Notice>
      )}
      {film && (
        <div class="film-columns">
          <Addresses film={film} />
          <Keys />
          <Kept title={film.title} />
          <Tracks film={film} />
        </div>
      )}
    </div>
  );
}

/** The player, or the reason why there is none. */
function Stage({ film }: { film: api.FilmDetail }) {
  if (film.state === "indexing") {
    return <Stand kind="wait" title="This film is being indexed" text={soFar(film.indexed)} />;
  }
  if (film.state === "not_ready") {
    return <Stand kind="wait" title="This film is not ready yet" text={film.reason ?? "It will be available when it is complete."} />;
  }
  if (film.state === "unplayable") {
    return <Stand kind="problem" title="This film cannot be played" text={film.reason ?? ""} />;
  }
  const noHls = film.protocols.hls;
  if (noHls) return <Stand kind="problem" title="This film does not play in browsers" text={noHls} />;
  const verdict = judge(film, thisBrowser());
  if (verdict.way === null) {
    return (
      <Stand
        kind="problem"
        title={verdict.why}
        text="Other players can: give one of the addresses below to VLC, ffplay or GStreamer."
      />
    );
  }
  return (
    <>
      <Player film={film} way={verdict.way} duration={film.duration ?? 0} />
      {verdict.missing.length > 0 && (
        <p class="film-missing">This browser cannot play some of its audio: {verdict.missing.join(", ")}.</p>
      )}
    </>
  );
}

function Stand({ kind, title, text }: { kind: "wait" | "problem"; title: string; text: string }) {
  return (
    <div class="player player-stand">
      <Notice kind={kind} title={title}>
        <p>{text}</p>
      </Notice>
    </div>
  );
}

function facts(film: api.FilmDetail): string {
  const { video } = film;
  return [
    film.duration !== null && clock(film.duration) + (film.growing ? " so far" : ""),
    video && `${video.width}×${video.height}`,
    video?.frame_rate && `${frameRate(video.frame_rate)} fps`,
    film.bitrate !== null && rate(film.bitrate),
    size(film.size),
    film.recorded_at && `recorded ${moment(film.recorded_at)}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function Addresses({ film }: { film: api.FilmDetail }) {
  const ways: [api.Protocol, string, string][] = [
    ["rtsp", "RTSP", "ffplay, GStreamer, most players"],
    ["hls", "HLS", "browsers, phones, television sets"],
    ["dash", "DASH", "dash.js, Shaka Player, VLC"],
    ["file", "File", "any player that supports byte ranges, or to download"],
  ];
  const whole = (address: string | undefined) => (address ? new URL(address, location.href).href : null);
  return (
    <section aria-labelledby="addresses">
      <h2 id="addresses">Addresses</h2>
      <dl class="addresses">
        {ways.map(([protocol, name, hint]) => (
          <Address
            key={protocol}
            name={name}
            hint={hint}
            address={whole(film.urls[protocol])}
            why={film.protocols[protocol] ?? null}
          />
        ))}
        {film.urls.hls_ts && (
          <Address
            name="HLS as a transport stream"
            hint="set-top boxes and players that take no MP4"
            address={whole(film.urls.hls_ts)}
            why={null}
          />
        )}
        {film.urls.transport_stream && (
          <Address
            name="RTSP as a transport stream"
            hint="set-top boxes: the file as it is"
            address={whole(film.urls.transport_stream)}
            why={null}
          />
        )}
      </dl>
    </section>
  );
}

function Tracks({ film }: { film: api.FilmDetail }) {
  if (film.tracks.length === 0 && film.notes.length === 0 && film.subtitles.length === 0) return null;
  return (
    <section class="film-tracks" aria-labelledby="tracks">
      <h2 id="tracks">Tracks</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of tracks">
        <table>
          <thead>
            <tr>
              <th scope="col">Track</th>
              <th scope="col">Codec</th>
              <th scope="col">Details</th>
              <th scope="col" class="number">
                Bit rate
              </th>
              <th scope="col">Groups of pictures</th>
            </tr>
          </thead>
          <tbody>
            {film.tracks.map((track) => (
              <tr key={track.id}>
                <th scope="row">
                  {track.kind === "video" ? "Picture" : track.kind === "audio" ? "Sound" : track.kind} {track.id}
                </th>
                <td>
                  {track.name} <code>{track.codec}</code>
                </td>
                <td>{trackFacts(track)}</td>
                <td class="number">{rate(track.bitrate)}</td>
                <td>{gops(track)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {film.subtitles.length > 0 && (
        <p class="film-subtitles">
          Subtitles:{" "}
          {film.subtitles.map((one, index) => (
            <>
              {index > 0 && ", "}
              <a href={one.url}>{one.file ?? `${one.label} (inside the film)`}</a>
            </>
          ))}
        </p>
      )}
      {film.renditions.length > 0 && (
        <div class="film-renditions">
          <p>Other renditions, for slower connections:</p>
          <ul>
            {film.renditions.map((one) => (
              <li key={one.title}>
                <a href={format({ page: "film", title: one.title })}>{one.title}</a> {renditionFacts(one)}
              </li>
            ))}
          </ul>
        </div>
      )}
      {film.rendition_of && (
        <p class="film-renditions">
          This is a rendition of <a href={format({ page: "film", title: film.rendition_of })}>{film.rendition_of}</a>.
        </p>
      )}
      {film.notes.length > 0 && (
        <ul class="film-notes">
          {film.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

function renditionFacts({ video, bitrate, reason }: api.Rendition): string {
  const facts = [video && `${video.width}×${video.height}`, bitrate && rate(bitrate), reason && `not offered: ${reason}`];
  const said = facts.filter(Boolean).join(", ");
  return said && `(${said})`;
}

function trackFacts(track: api.Track): string {
  return [
    track.width && `${track.width}×${track.height}`,
    track.rotation ? `turned by ${track.rotation}°` : null,
    track.frame_rate && `${frameRate(track.frame_rate)} fps`,
    track.channels && channels(track.channels),
    track.rate && `${track.rate / 1000} kHz`,
    language(track.language),
  ]
    .filter(Boolean)
    .join(", ");
}

function gops({ gops }: api.Track): string {
  if (!gops) return "–";
  const { min, mean, max } = gops.seconds;
  const seconds = max - min < 0.01 ? `${Number(mean.toFixed(2))} s each` : `${Number(min.toFixed(2))} to ${Number(max.toFixed(2))} s`;
  return `${gops.count} of ${seconds}, ${size(gops.bytes.mean)}`;
}

function Keys() {
  return (
    <section class="keys" aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      <dl>
        {help.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
