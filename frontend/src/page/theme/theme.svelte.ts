// Colours of the figures as CSS custom properties; light or dark as the system or the notebook is.
import { DARK, LIGHT, type Role, type Theme } from '../../figures/theme';

const dark = matchMedia('(prefers-color-scheme: dark)');

/** JupyterLab and VS Code mark their theme on the body, also for a frame inside them. */
function bodies(): HTMLElement[] {
  try {
    return [document.body, parent.document.body];
  } catch {
    return [document.body]; // the outer page has another origin
  }
}

function isDark(): boolean {
  for (const { dataset, classList } of bodies()) {
    if (dataset.jpThemeLight !== undefined) return dataset.jpThemeLight === 'false';
    if (classList.contains('vscode-light') || classList.contains('vscode-high-contrast-light')) return false;
    if (classList.contains('vscode-dark') || classList.contains('vscode-high-contrast')) return true;
  }
  return dark.matches;
}

class CurrentTheme {
  now = $state.raw<Theme>(isDark() ? DARK : LIGHT);
  private readonly sheet = new CSSStyleSheet();

  constructor() {
    const update = () => this.update();
    dark.addEventListener('change', update);
    const observer = new MutationObserver(update);
    for (const body of bodies())
      observer.observe(body, { attributes: true, attributeFilter: ['class', 'data-jp-theme-light'] });
    update();
  }

  private update(): void {
    this.now = isDark() ? DARK : LIGHT;
    this.sheet.replaceSync(`:root,:host{${declarations(this.now)}}`);
  }

  /** Adds the colours to a document or a shadow root. */
  adoptedBy(root: Document | ShadowRoot): void {
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, this.sheet];
  }
}

export const theme = new CurrentTheme();

function declarations(one: Theme): string {
  const plain = ['ground', 'text', 'quiet', 'faint', 'mat', 'accent'] as const;
  const base = plain.map((name) => `--${name}:${one[name]}`);
  const roles = (Object.keys(one.roles) as Role[]).flatMap((role) => [
    `--${role}-text:${one.roles[role].text}`,
    `--${role}-fill:${one.roles[role].fill}`,
    `--${role}-on-fill:${one.roles[role].onFill}`,
  ]);
  return [...base, ...roles, `color-scheme:${one.name}`].join(';');
}

export const adoptTheme = (root: Document | ShadowRoot): void => theme.adoptedBy(root);
