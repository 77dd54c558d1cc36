// Builds the explorer into the one file that saved pages and notebooks carry, styles and all. `npm run build`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { cssHash } from './styles';

// There the page may have less room than the window: what asks for the window's width asks for the page's instead.
const roomNotWindow = (css: string) => css.replaceAll(/@media \((max|min)-width/g, '@container ($1-width');

// Styles stand in the script as they are written, and nobody else takes their spaces out.
const packed = (css: string) => css.replaceAll(/\/\*.*?\*\//gs, '').replaceAll(/\s+/g, ' ').replaceAll(/ ?([{};,>]) ?/g, '$1');

export default defineConfig({
  plugins: [
    svelte({
      configFile: false,
      emitCss: false,
      compilerOptions: { css: 'injected', cssHash },
      preprocess: { style: ({ content }) => ({ code: packed(roomNotWindow(content)) }) },
    }),
  ],
  build: {
    outDir: '../src/glassformer/inspection/explorer',
    emptyOutDir: false, // the Python files beside it stay
    target: 'es2022',
    modulePreload: { polyfill: false },
    copyPublicDir: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: 'src/page/embedded.ts',
      preserveEntrySignatures: 'strict', // a notebook takes what it exports
      output: { entryFileNames: 'explorer.js', format: 'es' },
    },
  },
});
