// The committed figures.js is what the sources build to: built aside, then compared byte for byte.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';

const committed = '../src/glassformer/inspection/figures/figures.js';
const aside = mkdtempSync(join(tmpdir(), 'figures-'));
try {
  await build({ configFile: 'vite.figures.ts', logLevel: 'warn', build: { outDir: aside } });
  const same = readFileSync(join(aside, 'figures.js')).equals(readFileSync(committed));
  if (!same) {
    console.error(`${committed} is not what frontend/src builds to: run \`make frontend\` and commit it.`);
    process.exitCode = 1;
  } else {
    console.log('figures.js is what the sources build to.');
  }
} finally {
  rmSync(aside, { recursive: true });
}
