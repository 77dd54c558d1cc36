// ESLint: the recommended rules, type-checked where there are types. Formatting is left to prettier.
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
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_$' }], // `_` is an unused value
      '@typescript-eslint/require-await': 'off', // `async` also turns an exception into a rejected promise
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { globals: globals.browser, parserOptions: { parser: ts.parser } },
  },
  {
    files: ['**/*.svelte'],
    rules: {
      // ESLint sees the properties of components as `any`; svelte-check checks their types.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['src/figures/svg.ts'],
    rules: { 'no-control-regex': 'off' }, // it replaces control characters, which XML forbids
  },
  {
    files: ['*.mjs', '*.ts'], // build and check scripts, which no tsconfig includes
    extends: [ts.configs.disableTypeChecked],
    languageOptions: { globals: globals.node },
  },
);
