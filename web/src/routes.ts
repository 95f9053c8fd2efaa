// Addresses of the pages. They come after the `#`, so that no film's title can clash with a page,
// and the server has only one page to serve.

/** Sort orders of the library, as the control API names them; a leading `-` reverses the order. */
export const sorts = ["name", "-modified", "-duration", "-size", "-bitrate"] as const;
export type Sort = (typeof sorts)[number];

export type Route =
  | { page: "library"; query: string; sort: Sort }
  | { page: "film"; title: string }
  | { page: "live" }
  | { page: "unknown" };

/** A title in an address: each part is percent-encoded, the slashes are kept. */
export const titlePath = (title: string) => title.split("/").map(encodeURIComponent).join("/");

/** The route of a `location.hash`. */
export function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  if (path === "" || path === "/") {
    const parameters = new URLSearchParams(search);
    const sort = sorts.find((known) => known === parameters.get("sort")) ?? "name";
    return { page: "library", query: parameters.get("q") ?? "", sort };
  }
  if (path === "/live") return { page: "live" };
  if (path.startsWith("/film/")) {
    try {
      const title = path.slice("/film/".length).split("/").map(decodeURIComponent).join("/");
      if (title !== "") return { page: "film", title };
    } catch {
      // a stray % in a hand-written address
    }
  }
  return { page: "unknown" };
}

/** The `location.hash` of a route. */
export function format(route: Route): string {
  switch (route.page) {
    case "library": {
      const parameters = new URLSearchParams();
      if (route.query) parameters.set("q", route.query);
      if (route.sort !== "name") parameters.set("sort", route.sort);
      const search = parameters.toString();
      return search ? `#/?${search}` : "#/";
    }
    case "film":
      return `#/film/${titlePath(route.title)}`;
    case "live":
      return "#/live";
    case "unknown":
      return "#/";
  }
}
