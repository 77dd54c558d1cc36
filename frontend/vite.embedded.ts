// Build of the explorer as one script, styles included, for saved files and notebooks. `npm run build`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';
import { cssHash } from './styles';

// In a notebook the explorer may be narrower than the window: media queries become container queries.
const containerQueries = (css: string) => css.replaceAll(/@media ?\((max|min)-width/g, '@container ($1-width');

/** Inserts the style sheet of all components into the script: see `styles` in src/page/embedded.ts. */
function inlineStyles(): Plugin {
  return {
    name: 'inline-styles',
    enforce: 'post',
    generateBundle(_, bundle) {
      const sheet = Object.values(bundle).find(({ fileName }) => fileName.endsWith('.css'));
      const script = Object.values(bundle).find(({ fileName }) => fileName.endsWith('.js'));
      if (sheet?.type !== 'asset' || script?.type !== 'chunk')
        return this.error('The build has no style sheet or no script.');
      const css = JSON.stringify(containerQueries(String(sheet.source).trim()));
      const parts = script.code.split(/["'`]STYLES STAND HERE["'`]/);
      if (parts.length !== 2) return this.error('The script must contain the placeholder of the styles exactly once.');
      script.code = parts.join(css);
      delete bundle[sheet.fileName];
    },
  };
}

export default defineConfig({
  plugins: [svelte({ configFile: false, compilerOptions: { cssHash } }), inlineStyles()],
  build: {
    outDir: '../src/glassformer/inspection/explorer',
    emptyOutDir: false, // keep the Python files in this directory
    target: 'es2022',
    modulePreload: { polyfill: false },
    copyPublicDir: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rolldownOptions: {
      input: 'src/page/embedded.ts',
      preserveEntrySignatures: 'strict', // notebooks use its exports
      output: { entryFileNames: 'explorer.js', format: 'es' },
    },
  },
});
