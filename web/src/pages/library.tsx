// The library: all films, searched and sorted by the server, a screenful at a time.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { SearchIcon, ViewersIcon } from "../components/icons";
import { Notice } from "../components/notice";
import { Poster } from "../components/poster";
import { feed, useNode } from "../feed";
import { clock, count, size, soFar, spoken, titleParts } from "../format";
import { judge, thisBrowser } from "../playable";
import { format, type Sort } from "../routes";

const perPage = 48;

const sortNames: Record<Sort, string> = {
  name: "Name",
  "-modified": "Newest",
  "-duration": "Longest",
  "-size": "Largest",
  "-bitrate": "Highest bit rate",
};

interface LibraryProps {
  query: string;
  sort: Sort;
}

interface Shown {
  films: api.Film[];
  total: number;
}

export function Library({ query, sort }: LibraryProps) {
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [pages, setPages] = useState(1);
  const [asked, setAsked] = useState(0);

  useEffect(() => {
    document.title = "Library · Reelway";
    return feed.on("films", () => setAsked((n) => n + 1));
  }, []);
  useEffect(() => setPages(1), [query, sort]);
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      const loaded: api.Film[] = [];
      let total = 0;
      for (let page = 1; page <= pages; page += 1) {
        const part = await api.films({ query, sort, page, perPage }, stop.signal);
        loaded.push(...part.films);
        total = part.total;
      }
      setShown({ films: loaded, total });
      setError(null);
    };
    load().catch((cause: unknown) => {
      if (!stop.signal.aborted) setError(cause instanceof Error ? cause.message : String(cause));
    });
    return () => stop.abort();
  }, [query, sort, pages, asked]);

  return (
    <div class="page">
      <div class="library-head">
        <h1>Library</h1>
        <Search query={query} sort={sort} />
        <label class="sort">
          <span>Sort by</span>
          <select
            value={sort}
            onChange={(event) => {
              location.hash = format({ page: "library", query, sort: event.currentTarget.value as Sort });
            }}
          >
            {Object.entries(sortNames).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="library-count" role="status">
        {shown && (shown.total > 0 || query) ? `${count(shown.total, "film")}${query ? ` with “${query}”` : ""}` : "\u00a0"}
      </p>
      {error && (
        <Notice kind="problem" title="The library could not be loaded">
          <p>{error}</p>
          <button type="button" class="button" onClick={() => setAsked((n) => n + 1)}>
            Try again
          </button>
        </Notice>
      )}
      {!shown && !error && <Placeholders />}
      {shown && shown.total === 0 && (query ? <NothingFound query={query} sort={sort} /> : <Empty />)}
      {shown && shown.total > 0 && (
        <ul class="tiles">
          {shown.films.map((film) => (
            <Tile key={film.file} film={film} />
          ))}
        </ul>
      )}
      {shown && shown.films.length < shown.total && (
        <p class="more">
          <button type="button" class="button" onClick={() => setPages((n) => n + 1)}>
            Show more
          </button>
          <span>
            {shown.films.length} of {shown.total}
          </span>
        </p>
      )}
    </div>
  );
}

function Search({ query, sort }: LibraryProps) {
  const [text, setText] = useState(query);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText((now) => (now.trim() === query ? now : query)), [query]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const search = (wanted: string) => {
    clearTimeout(timer.current);
    // Typing is a single step in the browser's history.
    history.replaceState(null, "", format({ page: "library", query: wanted.trim(), sort }));
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        search(text);
      }}
    >
      <SearchIcon />
      <input
        type="search"
        aria-label="Search by name or folder"
        placeholder="Search"
        autocomplete="off"
        value={text}
        onInput={(event) => {
          const wanted = event.currentTarget.value;
          setText(wanted);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => search(wanted), 150);
        }}
      />
    </form>
  );
}

const browser = thisBrowser();

function Tile({ film }: { film: api.Film }) {
  const { name, place } = titleParts(film.title);
  const playable = film.state === "ready";
  const verdict = playable ? judge(film, browser) : null;
  const trouble = playable
    ? (film.protocols.hls ?? (verdict?.way === null ? verdict.why : null))
    : film.state === "indexing"
      ? `Being indexed. ${soFar(film.indexed)}`
      : film.reason;
  return (
    <li>
      <a class="tile" href={format({ page: "film", title: film.title })} data-state={film.state}>
        <span class="tile-picture">
          <Poster film={film} />
          {film.duration !== null && (
            <span class="tile-length">
              <span aria-hidden="true">{clock(film.duration)}</span>
              <span class="visually-hidden">{spoken(film.duration)}</span>
            </span>
          )}
          {film.viewers > 0 && (
            <span class="tile-viewers">
              <ViewersIcon />
              {film.viewers}
              <span class="visually-hidden"> watching</span>
            </span>
          )}
        </span>
        <span class="tile-name" title={film.title}>
          {name}
        </span>
        {place && <span class="tile-place">{place}</span>}
        <span class="tile-facts">{facts(film)}</span>
        {trouble && (
          <span class="tile-trouble">
            {film.state === "unplayable" && "Cannot be played: "}
            {film.state === "not_ready" && "Not ready: "}
            {trouble}
          </span>
        )}
      </a>
    </li>
  );
}

function facts(film: api.Film): string {
  const { video } = film;
  const sound = [...new Set(film.audio.map((track) => track.name))].join(", ");
  return [
    video && `${video.width}×${video.height}`,
    video?.name,
    sound || (video && "no sound"),
    size(film.size),
  ]
    .filter(Boolean)
    .join(" · ");
}

function Placeholders() {
  return (
    <ul class="tiles" aria-hidden="true">
      {Array.from({ length: 8 }, (_, i) => (
        <li key={i} class="tile tile-placeholder">
          <span class="tile-picture">
            <span class="poster" />
          </span>
          <span class="tile-name" />
          <span class="tile-facts" />
        </li>
      ))}
    </ul>
  );
}

function NothingFound({ query, sort }: LibraryProps) {
  return (
    <Notice kind="quiet" title={`No film has “${query}” in its name or folder`}>
      <p>
        <a href={format({ page: "library", query: "", sort })}>Show all films</a>
      </p>
    </Notice>
  );
}

function Empty() {
  const node = useNode();
  return (
    <div class="empty">
      <h2>No films yet</h2>
      <p>Put films (MP4, Matroska, MPEG) into the directory that this server watches. They will appear here.</p>
      <p>To serve another directory, start the server with it:</p>
      <pre>
        <code>reelway serve /path/to/films</code>
      </pre>
      {node && node.films.indexing > 0 && <p role="status">{count(node.films.indexing, "film")} being indexed…</p>}
    </div>
  );
}
