// The frame of all pages: header, the current page, footer.
import { useEffect, useRef, useState } from "preact/hooks";
import { Mark } from "./components/icons";
import { useConnected, useNode } from "./feed";
import { count } from "./format";
import { FilmPage } from "./pages/film";
import { Library } from "./pages/library";
import { Live } from "./pages/live";
import { format, parse, type Route } from "./routes";

function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parse(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}

export function App() {
  const route = useRoute();
  const node = useNode();
  const main = useRef<HTMLElement>(null);
  const place = route.page === "film" ? format(route) : route.page;
  const first = useRef(true);

  // A change of page is announced to screen readers by moving the focus to it, but not when the app
  // is first opened.
  useEffect(() => {
    if (!first.current) {
      main.current?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    first.current = false;
  }, [place]);

  const playing = node?.sessions.playing ?? 0;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the part after # is the route
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="#/" aria-label="Reelway, library">
          <Mark />
          <span>Reelway</span>
        </a>
        <nav aria-label="Pages">
          <a href="#/" aria-current={route.page === "library" ? "page" : undefined}>
            Library
          </a>
          <a href="#/live" aria-current={route.page === "live" ? "page" : undefined}>
            Live
            {playing > 0 && (
              <span class="badge">
                {playing}
                <span class="visually-hidden"> playing</span>
              </span>
            )}
          </a>
        </nav>
        <Connection />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {route.page === "library" && <Library query={route.query} sort={route.sort} />}
        {route.page === "film" && <FilmPage key={route.title} title={route.title} />}
        {route.page === "live" && <Live />}
        {route.page === "unknown" && <Unknown />}
      </main>
      <footer class="bottom">
        <span>
          {node ? `Reelway ${node.version} on ${node.name}` : "Reelway"}
          {node && `, ${count(node.films.ready - node.renditions, "film")}`}
        </span>
        <a href="/licences.txt">Licences</a>
      </footer>
    </>
  );
}

/** Reports when the connection to the server is lost; otherwise empty. */
function Connection() {
  const connected = useConnected();
  const [late, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (connected) return;
    const timer = setTimeout(() => setLate(true), 3000); // short interruptions are not shown
    return () => clearTimeout(timer);
  }, [connected]);
  return (
    <p class="connection" role="status">
      {!connected && late && "Server does not answer, trying again…"}
    </p>
  );
}

function Unknown() {
  useEffect(() => {
    document.title = "Not found · Reelway";
  }, []);
  return (
    <div class="page">
      <h1>There is no such page</h1>
      <p>
        <a href="#/">To the library</a>
      </p>
    </div>
  );
}
