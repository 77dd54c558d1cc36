// What is committed is what the sources build to: built aside, then compared byte for byte.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const LARGEST = 350_000; // bytes of the page's script and style, and of them compressed
const LARGEST_PACKED = 110_000;
const BUILDS = [
  { config: 'vite.figures.ts', committed: '../src/glassformer/inspection/figures', files: () => ['figures.js'] },
  { config: 'vite.page.ts', committed: '../src/glassformer/server/static', files: everyFile },
  { config: 'vite.embedded.ts', committed: '../src/glassformer/inspection/explorer', files: () => ['explorer.js'] },
];

function everyFile(folder) {
  const found = readdirSync(folder, { recursive: true }).map(String);
  return found.filter((name) => statSync(join(folder, name)).isFile()).sort();
}

function complain(sentence) {
  console.error(sentence);
  process.exitCode = 1;
}

for (const { config, committed, files } of BUILDS) {
  const aside = mkdtempSync(join(tmpdir(), 'built-'));
  try {
    await build({ configFile: config, logLevel: 'error', build: { outDir: aside } });
    const [own, built] = [files(committed), files(aside)];
    const same =
      String(own) === String(built) &&
      built.every((name) => readFileSync(join(aside, name)).equals(readFileSync(join(committed, name))));
    if (same) console.log(`${committed}: ${built.join(', ')} are what the sources build to.`);
    else complain(`${committed} is not what frontend/src builds to: run \`make frontend\` and commit it.`);
  } finally {
    rmSync(aside, { recursive: true });
  }
}

const PAGES = {
  'The page': ['page.js', 'page.css'].map((name) => `../src/glassformer/server/static/assets/${name}`),
  'The explorer outside its server': ['../src/glassformer/inspection/explorer/explorer.js'],
};
for (const [name, files] of Object.entries(PAGES)) {
  const content = Buffer.concat(files.map((file) => readFileSync(file)));
  const packed = gzipSync(content).length;
  console.log(`${name} has ${content.length} bytes, ${packed} packed.`);
  if (content.length > LARGEST || packed > LARGEST_PACKED)
    complain(`That is more than ${LARGEST} or ${LARGEST_PACKED} packed.`);
}
