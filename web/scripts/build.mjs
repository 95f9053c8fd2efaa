// Builds the pages into dist/: `node scripts/build.mjs`, or with --watch again at every change (see dev.mjs).
//
// dist/index.html names the files under dist/assets/, whose names carry a hash of what is in them: the server
// lets browsers keep those for ever, and asks them to check index.html each time.
import { context } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(web, "dist");
const watching = process.argv.includes("--watch");

/** What goes into the pages and is not ours, with the licence it came under. */
const others = ["hls.js", "preact"];

async function licences() {
  const parts = await Promise.all(
    others.map(async (name) => {
      const folder = join(web, "node_modules", name);
      const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      const file = (await readdir(folder)).find((f) => /^licen[cs]e/i.test(f));
      if (!file) throw new Error(`${name} has no licence file; say here which licence it is under`);
      return `${name} ${version}\n\n${await readFile(join(folder, file), "utf8")}`;
    }),
  );
  await writeFile(join(dist, "licences.txt"), parts.join("\n\n--------\n\n"));
}

/** Writes index.html with the names that this build gave to the script and the style sheet. */
const page = {
  name: "page",
  setup(build) {
    build.onStart(() => rm(join(dist, "assets"), { recursive: true, force: true }));
    build.onEnd(async ({ errors, metafile }) => {
      if (errors.length > 0 || !metafile) return;
      const named = (entry) => {
        const found = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === entry);
        if (!found) throw new Error(`no output for ${entry}`);
        return `assets/${basename(found[0])}`;
      };
      const html = (await readFile(join(web, "src/index.html"), "utf8"))
        .replace("main.tsx", named("src/main.tsx"))
        .replace("styles/main.css", named("src/styles/main.css"));
      await mkdir(dist, { recursive: true });
      await writeFile(join(dist, "index.html"), html);
      await writeFile(join(dist, "favicon.svg"), await readFile(join(web, "src/favicon.svg")));
      await licences();
      if (watching) console.log(`built at ${new Date().toLocaleTimeString()}`);
    });
  },
};

const build = await context({
  absWorkingDir: web,
  entryPoints: ["src/main.tsx", "src/styles/main.css"],
  outdir: "dist/assets",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: !watching,
  sourcemap: watching ? "linked" : false,
  legalComments: "none", // all of them are in licences.txt
  metafile: true,
  logLevel: "warning",
  plugins: [page],
});
if (watching) {
  await build.watch();
} else {
  await build.rebuild();
  await build.dispose();
}
