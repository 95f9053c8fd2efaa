// Builds the pages into dist/: `node scripts/build.mjs`, or again at every change with --watch (see
// dev.mjs).
//
// dist/index.html and dist/director.html name the files under dist/assets/, whose names contain a
// hash of their contents: the server lets browsers keep those forever, but the pages must be
// revalidated each time.
import { context } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(web, "dist");
const watching = process.argv.includes("--watch");

/** Bundled third-party packages, whose licences are included. */
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

/** The pages, each with its script. */
const pages = { "index.html": "main.tsx", "director.html": "director.tsx" };

/** Writes the pages with this build's names of their scripts and the style sheet. */
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
      await mkdir(dist, { recursive: true });
      for (const [name, script] of Object.entries(pages)) {
        const html = (await readFile(join(web, "src", name), "utf8"))
          .replace(script, named(`src/${script}`))
          .replace("styles/main.css", named("src/styles/main.css"));
        await writeFile(join(dist, name), html);
      }
      await writeFile(join(dist, "favicon.svg"), await readFile(join(web, "src/favicon.svg")));
      await licences();
      if (watching) console.log(`built at ${new Date().toLocaleTimeString()}`);
    });
  },
};

const build = await context({
  absWorkingDir: web,
  entryPoints: [...Object.values(pages).map((script) => `src/${script}`), "src/styles/main.css"],
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
