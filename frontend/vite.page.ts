// Build of the explorer: the files that `glassformer serve` sends. `npm run build`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { cssHash } from './styles';

export default defineConfig({
  plugins: [svelte({ configFile: false, compilerOptions: { cssHash } })],
  base: './', // also below a root path
  build: {
    outDir: '../src/glassformer/server/static',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false }, // an inline script, which the content security policy forbids
    copyPublicDir: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // No hashes in the names: the server sends `no-cache`, and the diff of a build shows contents only.
        entryFileNames: 'assets/page.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/page[extname]',
      },
    },
  },
});
