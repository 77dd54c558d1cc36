// Builds the figures into the one file that Python runs in QuickJS and that a page may load. `npm run build`.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  build: {
    lib: { entry: 'src/figures/index.ts', name: 'glassformerFigures', formats: ['iife'], fileName: () => 'figures.js' },
    outDir: '../src/glassformer/inspection/figures',
    emptyOutDir: false, // the Python files beside it stay
    target: 'es2020', // what QuickJS speaks
    minify: false, // so that a change of it can be read
    copyPublicDir: false,
    reportCompressedSize: false,
  },
  test: { include: ['tests/**/*.test.ts'], testTimeout: 30_000 }, // machines are shared
});
