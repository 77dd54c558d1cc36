// What the linter looks for: the recommended rules, with types where there are any. Layout is left to prettier.
import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import { defineConfig } from 'eslint/config';
import globals from 'globals';
import ts from 'typescript-eslint';

export default defineConfig(
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  {
    languageOptions: {
      parserOptions: {
        project: ['tsconfig.json', 'tsconfig.page.json'],
        tsconfigRootDir: import.meta.dirname,
        extraFileExtensions: ['.svelte'],
      },
    },
    rules: {
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_$' }], // `_` is a value that nobody needs
      '@typescript-eslint/require-await': 'off', // `async` also makes of a throw a promise that fails
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { globals: globals.browser, parserOptions: { parser: ts.parser } },
  },
  {
    files: ['**/*.svelte'],
    rules: {
      // The linter takes the properties of components for `any`; svelte-check knows their types and checks them.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['src/figures/svg.ts'],
    rules: { 'no-control-regex': 'off' }, // XML may not hold control characters, so they are looked for
  },
  {
    files: ['*.mjs', '*.ts'], // what builds and checks: part of no tsconfig
    extends: [ts.configs.disableTypeChecked],
    languageOptions: { globals: globals.node },
  },
);
