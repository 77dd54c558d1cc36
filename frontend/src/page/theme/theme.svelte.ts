// The figures' colours as CSS custom properties, and as tables for canvases; light or dark as the reader has it.
import { palette, type Rgb, type Scale } from '../../figures/scales';
import { DARK, LIGHT, type Role, type Theme } from '../../figures/theme';

const dark = matchMedia('(prefers-color-scheme: dark)');

class Themed {
  now = $state<Theme>(dark.matches ? DARK : LIGHT);

  constructor() {
    dark.addEventListener('change', () => (this.now = dark.matches ? DARK : LIGHT));
  }
}

export const theme = new Themed();

function declarations(one: Theme): string {
  const plain = ['ground', 'text', 'quiet', 'faint', 'mat', 'accent'] as const;
  const own = plain.map((name) => `--${name}:${one[name]}`);
  const roles = (Object.keys(one.roles) as Role[]).flatMap((role) => [
    `--${role}-text:${one.roles[role].text}`,
    `--${role}-fill:${one.roles[role].fill}`,
    `--${role}-on-fill:${one.roles[role].onFill}`,
  ]);
  return [...own, ...roles, `color-scheme:${one.name}`].join(';');
}

export function adoptTheme(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `:root{${declarations(LIGHT)}}@media(prefers-color-scheme:dark){:root{${declarations(DARK)}}}`,
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

const tables = new Map<string, Rgb[]>();

/** The 255 colours of a scale, made once. */
export function coloursOf(kind: Scale['kind'], one: Theme): Rgb[] {
  const key = `${kind} ${one.name}`;
  let found = tables.get(key);
  if (found === undefined) tables.set(key, (found = palette({ kind, limit: 1 }, one)));
  return found;
}
