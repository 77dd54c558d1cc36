// Builds the explorer into the one file that saved pages and notebooks carry, styles and all. `npm run build`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';
import { cssHash } from './styles';

// There the page may have less room than the window: what asks for the window's width asks for the page's instead.
const roomNotWindow = (css: string) => css.replaceAll(/@media ?\((max|min)-width/g, '@container ($1-width');

/** The one sheet of all components takes its place in the script: see `styles` in src/page/embedded.ts. */
function carryStyles(): Plugin {
  return {
    name: 'carry-styles',
    enforce: 'post',
    generateBundle(_, bundle) {
      const sheet = Object.values(bundle).find(({ fileName }) => fileName.endsWith('.css'));
      const script = Object.values(bundle).find(({ fileName }) => fileName.endsWith('.js'));
      if (sheet?.type !== 'asset' || script?.type !== 'chunk') return this.error('There is no sheet, or no script.');
      const css = JSON.stringify(roomNotWindow(String(sheet.source).trim()));
      const parts = script.code.split(/["'`]STYLES STAND HERE["'`]/);
      if (parts.length !== 2) return this.error('There must be one place for the styles.');
      script.code = parts.join(css);
      delete bundle[sheet.fileName];
    },
  };
}

export default defineConfig({
  plugins: [svelte({ configFile: false, compilerOptions: { cssHash } }), carryStyles()],
  build: {
    outDir: '../src/glassformer/inspection/explorer',
    emptyOutDir: false, // the Python files beside it stay
    target: 'es2022',
    modulePreload: { polyfill: false },
    copyPublicDir: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rolldownOptions: {
      input: 'src/page/embedded.ts',
      preserveEntrySignatures: 'strict', // a notebook takes what it exports
      output: { entryFileNames: 'explorer.js', format: 'es' },
    },
  },
});
