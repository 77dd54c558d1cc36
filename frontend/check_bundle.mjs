// Check of the committed bundles: builds the sources in a temporary directory and compares byte by byte; limits the size.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const MAX_BYTES = 350_000; // script and style of the explorer
const MAX_GZIPPED_BYTES = 110_000;
const BUILDS = [
  { config: 'vite.figures.ts', committed: '../src/glassformer/inspection/figures', files: () => ['figures.js'] },
  { config: 'vite.page.ts', committed: '../src/glassformer/server/static', files: allFiles },
  { config: 'vite.embedded.ts', committed: '../src/glassformer/inspection/explorer', files: () => ['explorer.js'] },
];

function allFiles(folder) {
  const names = readdirSync(folder, { recursive: true }).map(String);
  return names.filter((name) => statSync(join(folder, name)).isFile()).sort();
}

function fail(message) {
  console.error(message);
  process.exitCode = 1;
}

for (const { config, committed, files } of BUILDS) {
  const directory = mkdtempSync(join(tmpdir(), 'built-'));
  try {
    await build({ configFile: config, logLevel: 'error', build: { outDir: directory } });
    const [expected, built] = [files(committed), files(directory)];
    const same =
      String(expected) === String(built) &&
      built.every((name) => readFileSync(join(directory, name)).equals(readFileSync(join(committed, name))));
    if (same) console.log(`${committed}: ${built.join(', ')} match the sources.`);
    else fail(`${committed} does not match frontend/src: run \`make frontend\` and commit the result.`);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const EXPLORERS = {
  'The explorer of the server': ['page.js', 'page.css'].map(
    (name) => `../src/glassformer/server/static/assets/${name}`,
  ),
  'The embedded explorer': ['../src/glassformer/inspection/explorer/explorer.js'],
};
for (const [name, files] of Object.entries(EXPLORERS)) {
  const content = Buffer.concat(files.map((file) => readFileSync(file)));
  const gzipped = gzipSync(content).length;
  console.log(`${name} has ${content.length} bytes, ${gzipped} gzipped.`);
  if (content.length > MAX_BYTES || gzipped > MAX_GZIPPED_BYTES)
    fail(`That exceeds ${MAX_BYTES} bytes, or ${MAX_GZIPPED_BYTES} gzipped.`);
}
