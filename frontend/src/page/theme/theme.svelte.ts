// The figures' colours as CSS custom properties; light or dark as the reader has it.
import { DARK, LIGHT, type Role, type Theme } from '../../figures/theme';

const dark = matchMedia('(prefers-color-scheme: dark)');

/** JupyterLab and VS Code say on their body what they look like; a frame of theirs looks like them. */
function around(): HTMLElement[] {
  try {
    return [document.body, parent.document.body];
  } catch {
    return [document.body]; // the page around is another's
  }
}

function isDark(): boolean {
  for (const { dataset, classList } of around()) {
    if (dataset.jpThemeLight !== undefined) return dataset.jpThemeLight === 'false';
    if (classList.contains('vscode-light') || classList.contains('vscode-high-contrast-light')) return false;
    if (classList.contains('vscode-dark') || classList.contains('vscode-high-contrast')) return true;
  }
  return dark.matches;
}

class Themed {
  now = $state.raw<Theme>(isDark() ? DARK : LIGHT);
  private readonly sheet = new CSSStyleSheet();

  constructor() {
    const look = () => this.look();
    dark.addEventListener('change', look);
    const observer = new MutationObserver(look);
    for (const body of around())
      observer.observe(body, { attributes: true, attributeFilter: ['class', 'data-jp-theme-light'] });
    look();
  }

  private look(): void {
    this.now = isDark() ? DARK : LIGHT;
    this.sheet.replaceSync(`:root,:host{${declarations(this.now)}}`);
  }

  /** Its colours for a page, or for what stands apart in one. */
  adoptedBy(root: Document | ShadowRoot): void {
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, this.sheet];
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

export const adoptTheme = (root: Document | ShadowRoot): void => theme.adoptedBy(root);
