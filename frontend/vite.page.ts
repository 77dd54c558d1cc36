// Builds the explorer's page into the files that `glassformer serve` sends. `npm run build`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { cssHash } from './styles';

export default defineConfig({
  plugins: [svelte({ configFile: false, compilerOptions: { cssHash } })],
  build: {
    outDir: '../src/glassformer/server/static',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false }, // it would be an inline script, which the page's policy refuses
    copyPublicDir: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // No hashes in the names: the server says `no-cache`, and a build's diff stays one of contents.
        entryFileNames: 'assets/page.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/page[extname]',
      },
    },
  },
});
