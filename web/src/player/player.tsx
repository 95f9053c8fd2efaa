// The player: a <video> with custom controls, so that they look and behave the same everywhere.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { FilmDetail, Subtitles } from "../api";
import {
  FullscreenIcon,
  LeaveFullscreenIcon,
  MutedIcon,
  PauseIcon,
  PlayIcon,
  ReplayIcon,
  SoundIcon,
} from "../components/icons";
import { clock, language } from "../format";
import type { Way } from "../playable";
import { chapterAt, chapterFrom, chapterLabel } from "./chapters";
import { automatic, play, type Choice, type Playback } from "./playback";
import { Seekbar } from "./seekbar";
import { action, isOwnKey, nextSpeed, speeds, type Action } from "./shortcuts";

interface PlayerProps {
  film: FilmDetail;
  way: Way;
  duration: number; // seconds
}

/** How long the controls remain visible over a playing film after the last movement, in ms. */
const controlsStay = 2500;

interface Shown {
  position: number;
  buffered: [number, number][];
  paused: boolean;
  ended: boolean;
  waiting: boolean;
  muted: boolean;
  volume: number;
  speed: number;
}

function observe(video: HTMLVideoElement): Shown {
  return {
    position: video.currentTime,
    buffered: Array.from({ length: video.buffered.length }, (_, i) => [video.buffered.start(i), video.buffered.end(i)]),
    paused: video.paused,
    ended: video.ended,
    waiting: !video.paused && video.readyState < HTMLMediaElement.HAVE_FUTURE_DATA && !video.ended,
    muted: video.muted || video.volume === 0,
    volume: video.volume,
    speed: video.playbackRate,
  };
}

/** The state in which a film continues when it is loaded again. */
interface Resumed {
  address: string | undefined;
  position: number; // seconds
  speed: number;
  plays: boolean;
}

const fromTheStart = { position: 0, speed: 1, plays: false };

const watched = [
  "timeupdate",
  "seeking",
  "seeked",
  "progress",
  "play",
  "playing",
  "pause",
  "ended",
  "waiting",
  "canplay",
  "volumechange",
  "ratechange",
];

/** Starts playing. If loading begins only now, it cancels the request to play; then playback
 * starts as soon as there is data, if still wanted. */
async function start(element: HTMLVideoElement, isWanted: () => boolean): Promise<void> {
  try {
    await element.play();
  } catch (cause) {
    if (!(cause instanceof DOMException && cause.name === "AbortError" && isWanted())) return; // the page shows that it is paused
    const again = () => {
      if (isWanted() && element.paused) void element.play().catch(() => undefined);
    };
    element.addEventListener("canplay", again, { once: true });
  }
}

export function Player({ film, way, duration }: PlayerProps) {
  const frame = useRef<HTMLElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const playback = useRef<Playback | null>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const [sounds, setSounds] = useState<{ tracks: Choice[]; current: number }>({ tracks: [], current: 0 });
  const [qualities, setQualities] = useState<{ all: Choice[]; chosen: number }>({ all: [], chosen: automatic });
  const [subtitles, setSubtitles] = useState(() => film.subtitles.findIndex((one) => one.default));
  const [failure, setFailure] = useState<string | null>(null);
  const [attempt, setAttempt] = useState(0);
  const [whole, setWhole] = useState(false);
  const [said, setSaid] = useState("");
  const asked = useRef(0);
  const resumed = useRef<Resumed | null>(null);

  useEffect(() => {
    const element = video.current;
    if (!element) return;
    let stopped = false;
    if (resumed.current?.address !== film.urls.hls) resumed.current = null;
    const { position, speed, plays } = resumed.current ?? fromTheStart;
    setFailure(null);
    const listener = {
      soundTracks: (tracks: Choice[], current: number) => setSounds({ tracks, current }),
      qualities: (all: Choice[], chosen: number) => setQualities({ all, chosen }),
      failed: setFailure,
    };
    element.defaultPlaybackRate = speed; // loading resets the speed to this
    play(element, film, way, position, listener).then(
      (started) => {
        if (stopped) return started.stop();
        playback.current = started;
        if (!plays) return;
        const now = (asked.current += 1);
        void start(element, () => asked.current === now);
      },
      (cause: unknown) => setFailure(cause instanceof Error ? cause.message : String(cause)),
    );
    return () => {
      stopped = true;
      playback.current?.stop();
      playback.current = null;
    };
  }, [film.urls.hls, way, attempt]);

  useEffect(() => {
    const element = video.current;
    if (!element) return;
    const update = () => setShown(observe(element));
    for (const name of watched) element.addEventListener(name, update);
    update();
    return () => {
      for (const name of watched) element.removeEventListener(name, update);
    };
  }, []);

  // For the browser's own HLS, which has them in the playlist, and for our <track>s: both are in
  // the same order.
  useEffect(() => {
    const tracks = video.current?.textTracks;
    if (!tracks) return;
    const show = () => {
      Array.from(tracks).forEach((track, index) => (track.mode = index === subtitles ? "showing" : "disabled"));
    };
    show();
    tracks.addEventListener("addtrack", show);
    return () => tracks.removeEventListener("addtrack", show);
  }, [film.urls.hls, subtitles]);

  useEffect(() => {
    const follow = () => setWhole(document.fullscreenElement === frame.current);
    document.addEventListener("fullscreenchange", follow);
    return () => document.removeEventListener("fullscreenchange", follow);
  }, []);

  const tryAgain = () => {
    const element = video.current;
    if (!element) return;
    // An attempt that did not get as far as playing leaves the state unchanged.
    if (element.currentTime > 0) {
      const { currentTime: position, playbackRate: speed, paused } = element;
      resumed.current = { address: film.urls.hls, position, speed, plays: !paused };
    }
    setAttempt((n) => n + 1);
  };

  const seek = useCallback((seconds: number) => {
    const element = video.current;
    if (!element) return;
    element.currentTime = Math.min(duration, Math.max(0, seconds));
    setShown(observe(element));
  }, [duration]);

  const perform = useCallback(
    (wanted: Action) => {
      const element = video.current;
      if (!element) return;
      switch (wanted.do) {
        case "toggle": {
          const now = (asked.current += 1);
          if (element.paused) void start(element, () => asked.current === now);
          else element.pause();
          break;
        }
        case "skip":
          seek(element.currentTime + wanted.seconds);
          setSaid(clock(element.currentTime));
          break;
        case "jump":
          seek(duration * wanted.share);
          setSaid(clock(element.currentTime));
          break;
        case "chapter": {
          const start = chapterFrom(film.chapters, element.currentTime, wanted.by);
          if (start === null) break;
          seek(start);
          setSaid(chapterLabel(film.chapters, chapterAt(film.chapters, start)));
          break;
        }
        case "step": {
          const rate = film.video?.frame_rate || 25;
          if (element.paused) seek(element.currentTime + wanted.pictures / rate);
          break;
        }
        case "volume":
          element.muted = false;
          element.volume = Math.min(1, Math.max(0, Math.round((element.volume + wanted.by) * 10) / 10));
          setSaid(`Volume ${Math.round(element.volume * 100)} %`);
          break;
        case "mute":
          element.muted = !element.muted;
          setSaid(element.muted ? "Sound off" : "Sound on");
          break;
        case "faster":
        case "slower":
          element.playbackRate = nextSpeed(element.playbackRate, wanted.do === "faster" ? 1 : -1);
          setSaid(`Speed ${element.playbackRate}×`);
          break;
        case "subtitles": {
          const next = subtitles + 1 < film.subtitles.length ? subtitles + 1 : -1;
          setSubtitles(next);
          setSaid(film.subtitles[next] ? `Subtitles: ${subtitleLabel(film.subtitles[next])}` : "Subtitles off");
          break;
        }
        case "fullscreen":
          toggleFullscreen(frame.current, element);
          break;
      }
    },
    [duration, film.video?.frame_rate, film.chapters, film.subtitles, seek, subtitles],
  );

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.altKey || event.metaKey || isOwnKey(event.target, event.key)) return;
      const wanted = action(event.key);
      if (!wanted) return;
      event.preventDefault();
      perform(wanted);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [perform]);

  const idle = useIdle(frame, shown?.paused === false, controlsStay);
  const size = film.video ? { "--picture": `${film.video.width} / ${film.video.height}` } : {};
  return (
    <section class="player" ref={frame} aria-label="Player" data-idle={idle} data-sound-only={!film.video} style={size}>
      <video
        ref={video}
        playsInline
        preload="auto"
        onClick={() => perform({ do: "toggle" })}
        onDblClick={() => perform({ do: "fullscreen" })}
      >
        {way === "mse" &&
          film.subtitles.map((one) => (
            <track
              key={one.number}
              kind={one.sdh ? "captions" : "subtitles"}
              src={one.url}
              srcLang={one.language ?? "und"}
              label={subtitleLabel(one)}
            />
          ))}
      </video>
      {shown?.waiting && !failure && <div class="player-wait" role="status" aria-label="Loading" />}
      {shown?.paused && shown.position === 0 && !failure && (
        <button type="button" class="player-start" aria-label="Play" onClick={() => perform({ do: "toggle" })}>
          <PlayIcon />
        </button>
      )}
      {failure && (
        <div class="player-failure" role="alert">
          <p>{failure}</p>
          <button type="button" class="button" onClick={tryAgain}>
            Try again
          </button>
        </div>
      )}
      {shown && (
        <div class="controls">
          <Seekbar
            position={shown.position}
            duration={duration}
            buffered={shown.buffered}
            chapters={film.chapters}
            onSeek={seek}
          />
          <div class="controls-row">
            <button
              type="button"
              class="control"
              aria-label={shown.ended ? "Play again" : shown.paused ? "Play" : "Pause"}
              onClick={() => perform({ do: "toggle" })}
            >
              {shown.ended ? <ReplayIcon /> : shown.paused ? <PlayIcon /> : <PauseIcon />}
            </button>
            <div class="volume">
              <button type="button" class="control" aria-label="Sound off" aria-pressed={shown.muted} onClick={() => perform({ do: "mute" })}>
                {shown.muted ? <MutedIcon /> : <SoundIcon />}
              </button>
              <input
                type="range"
                aria-label="Volume"
                aria-valuetext={`${Math.round(shown.volume * 100)} %`}
                min={0}
                max={1}
                step={0.05}
                value={shown.muted ? 0 : shown.volume}
                onInput={(event) => {
                  if (!video.current) return;
                  video.current.volume = Number(event.currentTarget.value);
                  video.current.muted = false;
                }}
              />
            </div>
            <span class="time">
              {clock(shown.position)} <span class="time-whole">/ {clock(duration)}</span>
            </span>
            <span class="controls-gap" />
            {film.chapters.length > 1 && (
              <label class="choice">
                <span class="visually-hidden">Chapter</span>
                <select
                  value={chapterAt(film.chapters, shown.position)}
                  onChange={(event) => {
                    const chosen = film.chapters[Number(event.currentTarget.value)];
                    if (chosen) seek(chosen.start);
                  }}
                >
                  {film.chapters[0]!.start > 0 && (
                    <option value={-1} disabled>
                      Before chapter 1
                    </option>
                  )}
                  {film.chapters.map((chapter, number) => (
                    <option key={chapter.start} value={number}>
                      {chapterLabel(film.chapters, number)}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {sounds.tracks.length > 1 && (
              <label class="choice">
                <span class="visually-hidden">Sound track</span>
                <select
                  value={sounds.current}
                  onChange={(event) => playback.current?.chooseSound(Number(event.currentTarget.value))}
                >
                  {sounds.tracks.map((track) => (
                    <option key={track.index} value={track.index}>
                      {track.label}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {film.subtitles.length > 0 && (
              <label class="choice">
                <span class="visually-hidden">Subtitles</span>
                <select value={subtitles} onChange={(event) => setSubtitles(Number(event.currentTarget.value))}>
                  <option value={-1}>No subtitles</option>
                  {film.subtitles.map((one, index) => (
                    <option key={one.number} value={index}>
                      {subtitleLabel(one)}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {qualities.all.length > 1 && (
              <label class="choice">
                <span class="visually-hidden">Quality</span>
                <select
                  value={qualities.chosen}
                  onChange={(event) => playback.current?.chooseQuality(Number(event.currentTarget.value))}
                >
                  <option value={automatic}>Auto</option>
                  {qualities.all.map((quality) => (
                    <option key={quality.index} value={quality.index}>
                      {quality.label}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <label class="choice">
              <span class="visually-hidden">Speed</span>
              <select
                value={shown.speed}
                onChange={(event) => {
                  if (video.current) video.current.playbackRate = Number(event.currentTarget.value);
                }}
              >
                {speeds.map((speed) => (
                  <option key={speed} value={speed}>
                    {speed}×
                  </option>
                ))}
              </select>
            </label>
            <button
              type="button"
              class="control"
              aria-label="Whole screen"
              aria-pressed={whole}
              onClick={() => perform({ do: "fullscreen" })}
            >
              {whole ? <LeaveFullscreenIcon /> : <FullscreenIcon />}
            </button>
          </div>
        </div>
      )}
      <p class="visually-hidden" role="status">
        {said}
      </p>
    </section>
  );
}

/** The language in words, and everything else in the file's name. */
function subtitleLabel({ label, language: code }: Subtitles): string {
  const words = language(code);
  return words && code ? label.replace(code, words) : label;
}

function toggleFullscreen(frame: HTMLElement | null, video: HTMLVideoElement) {
  if (document.fullscreenElement) void document.exitFullscreen();
  else if (frame?.requestFullscreen) void frame.requestFullscreen().catch(() => undefined);
  // iPhones make only the video itself fullscreen.
  else (video as { webkitEnterFullscreen?: () => void }).webkitEnterFullscreen?.();
}

/** Whether `active` is set, and neither the pointer nor the focus has moved in the element for
 * `stay` ms. */
function useIdle(element: { current: HTMLElement | null }, active: boolean, stay: number): boolean {
  const [idle, setIdle] = useState(false);
  useEffect(() => {
    const watched = element.current;
    setIdle(false);
    if (!watched || !active) return;
    let timer: ReturnType<typeof setTimeout>;
    const stir = () => {
      setIdle(false);
      clearTimeout(timer);
      timer = setTimeout(() => setIdle(true), stay);
    };
    const events = ["pointermove", "pointerdown", "keydown", "focusin"] as const;
    for (const name of events) watched.addEventListener(name, stir);
    stir();
    return () => {
      clearTimeout(timer);
      for (const name of events) watched.removeEventListener(name, stir);
    };
  }, [active, stay]);
  return idle;
}
