// A reporter for Node's test runner, used by scripts/testing: prints a line of JSON for each
// completed test.
import { basename } from "node:path";

export default async function* report(events) {
  // The names of the enclosing suites, by file.
  const above = new Map();
  for await (const { type, data } of events) {
    const file = data.file ?? "";
    if (type === "test:start") {
      const names = above.get(file) ?? [];
      names.length = data.nesting;
      names[data.nesting] = data.name;
      above.set(file, names);
    }
    if (type !== "test:pass" && type !== "test:fail") continue;
    const names = (above.get(file) ?? []).slice(0, data.nesting);
    // A suite fails with its tests; it fails by itself only if none of them ran (a hook failed).
    const suite = data.details?.type === "suite" || basename(data.name) === basename(file);
    const error = data.details?.error;
    if (suite && (type === "test:pass" || error?.failureType === "subtestsFailed")) continue;
    const skip = data.skip ? String(data.skip === true ? "skipped" : data.skip) : "";
    const said = String(error?.cause?.message ?? error?.message ?? error ?? "");
    const message = said.replace(/\s+/g, " ").slice(0, 400);
    yield JSON.stringify({ file, name: [...names, data.name].join(" > "), ok: type === "test:pass", skip, message }) + "\n";
  }
}
