// Runs the tests of one folder below test/ with Node's test runner: `node scripts/test.mjs unit`.
// Runs only some of its files with `node scripts/test.mjs browser pages,edges`; one after the
// other, or two at a time with REELWAY_TEST_FILES=2. With REELWAY_TEST_EVENTS=FILE, a line of JSON
// for each test goes to FILE. The tests are written in TypeScript and bundled first; packages are
// not bundled.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const [kind = "unit", only = "", ...rest] = process.argv.slice(2);
const folder = join(web, "test", kind);
const out = join(web, "node_modules/.cache/reelway-tests", kind);
const isWanted = (name) => only.split(",").some((wanted) => name.startsWith(wanted));
const names = readdirSync(folder).filter((name) => name.endsWith(".test.ts") && isWanted(name));

rmSync(out, { recursive: true, force: true });
await build({
  entryPoints: names.map((name) => join(folder, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  splitting: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = names.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
const atOnce = process.env["REELWAY_TEST_FILES"] ?? "1";
const reporters = ["--test-reporter=spec", "--test-reporter-destination=stdout"];
const events = process.env["REELWAY_TEST_EVENTS"];
if (events) {
  reporters.push(`--test-reporter=${join(web, "scripts/reporter.mjs")}`, `--test-reporter-destination=${events}`);
}
const args = ["--enable-source-maps", "--test", ...reporters, `--test-concurrency=${atOnce}`, ...rest, ...files];
const run = spawnSync(process.execPath, args, { cwd: web, stdio: "inherit" });
process.exit(run.status ?? 1);
