// The explorer outside its server, as one script: in a file that carries its trace, and in a notebook's cell.
import { mount, unmount } from 'svelte';
import App from './App.svelte';
import { httpApi, type Fetcher } from './data/api';
import type { Host, Saved } from './data/host';
import { messageFetch, type Messages } from './data/messages';
import { fromBase64, savedTrace, type SavedAbout } from './data/saved';
import type { Selection } from './state/selection';
import { growWithin } from './state/frame';
import { adoptTheme } from './theme/theme.svelte';
import './theme/page.css';

/** Of all components and of the page; vite.embedded.ts puts them here. */
const styles = 'STYLES STAND HERE';

function dress(root: Document | ShadowRoot): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  adoptTheme(root);
}

/** A page of `Trace.to_html`: what it is of and its numbers stand in two elements that are no scripts. */
function openSaved(about: HTMLElement): void {
  const text = (id: string) => document.getElementById(id)?.textContent ?? '';
  const alone = location.protocol !== 'about:'; // else it stands in a frame, whose address is not its own
  const saved = () =>
    savedTrace(JSON.parse(about.textContent ?? '') as SavedAbout, fromBase64(text('glassformer-trace')));
  dress(document);
  mount(App, {
    target: document.getElementById('page') as HTMLElement,
    props: { host: { api: null, saved, start: {}, alone, keys: window } },
  });
  if (!alone) growWithin(document);
}

interface Widget extends Messages {
  get(name: 'start' | 'saved'): unknown;
}

async function overMessages(fetcher: Fetcher): Promise<Saved> {
  const about = (await (await fetcher('/saved.json')).json()) as SavedAbout;
  const packed = await (await fetcher('/saved.gz')).arrayBuffer();
  return savedTrace(about, new Uint8Array(packed));
}

/** Keys that are pressed here are not JupyterLab's, save those with Ctrl: Ctrl+S still saves the notebook. */
function keep(event: KeyboardEvent, place: HTMLElement): void {
  if (event.ctrlKey || event.metaKey) return void delete place.dataset.lmSuppressShortcuts;
  place.dataset.lmSuppressShortcuts = 'true';
  event.stopPropagation();
}

/** In a notebook: apart from its styles, asking its kernel. */
function render({ model, el }: { model: Widget; el: HTMLElement }): () => void {
  const place = document.createElement('div');
  el.append(place);
  const root = place.attachShadow({ mode: 'open' });
  const target = document.createElement('div');
  target.className = 'page';
  root.append(target);
  dress(root);
  const { fetch: fetcher, close } = messageFetch(model);
  const host: Host = {
    api: model.get('saved') ? null : httpApi('', fetcher),
    saved: model.get('saved') ? () => overMessages(fetcher) : null,
    start: model.get('start') as Partial<Selection>,
    alone: false,
    keys: target,
  };
  const app = mount(App, { target, props: { host } });
  for (const kind of ['keydown', 'keyup', 'keypress'])
    target.addEventListener(kind, (event) => keep(event as KeyboardEvent, place));
  return () => {
    close();
    void unmount(app);
  };
}

export default { render };

const about = document.getElementById('glassformer-saved');
if (about !== null) openSaved(about);
