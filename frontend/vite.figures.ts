// Build of the figures: one script, which Python runs in QuickJS. `npm run build`.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  build: {
    lib: { entry: 'src/figures/index.ts', name: 'glassformerFigures', formats: ['iife'], fileName: () => 'figures.js' },
    outDir: '../src/glassformer/inspection/figures',
    emptyOutDir: false, // keep the Python files in this directory
    target: 'es2020', // supported by QuickJS
    minify: false, // so that diffs are readable
    copyPublicDir: false,
    reportCompressedSize: false,
  },
  test: { include: ['tests/**/*.test.ts'], testTimeout: 30_000 }, // for busy machines
});
