// Entry point of the explorer without its server, as one script: in a saved file, and in a notebook cell.
import { mount, unmount } from 'svelte';
import App from './App.svelte';
import { httpApi, type Fetcher } from './data/api';
import type { Host, SavedTrace } from './data/host';
import { messageFetch, type Messages } from './data/messages';
import { fromBase64, openSavedTrace, type SavedTraceInfo } from './data/savedTrace';
import type { Selection } from './state/selection';
import { fitFrameHeight } from './state/frame';
import { adoptTheme } from './theme/theme.svelte';
import './theme/page.css';

/** The style sheet of all components; inserted by vite.embedded.ts. */
const styles = 'STYLES STAND HERE';

function addStyles(root: Document | ShadowRoot): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  adoptTheme(root);
}

/** A page of `Trace.to_html`: description and tensors are in two elements of the page. */
function openSaved(about: HTMLElement): void {
  const text = (id: string) => document.getElementById(id)?.textContent ?? '';
  const ownsWindow = location.protocol !== 'about:'; // otherwise it is in a frame, whose URL is not its own
  const saved = () =>
    openSavedTrace(JSON.parse(about.textContent ?? '') as SavedTraceInfo, fromBase64(text('glassformer-trace')));
  addStyles(document);
  mount(App, {
    target: document.getElementById('page') as HTMLElement,
    props: { host: { api: null, saved, start: {}, ownsWindow, keys: window } },
  });
  if (!ownsWindow) fitFrameHeight(document);
}

interface Widget extends Messages {
  get(name: 'start' | 'saved'): unknown;
}

async function savedTraceFrom(fetcher: Fetcher): Promise<SavedTrace> {
  const about = (await (await fetcher('/saved.json')).json()) as SavedTraceInfo;
  const packed = await (await fetcher('/saved.gz')).arrayBuffer();
  return openSavedTrace(about, new Uint8Array(packed));
}

/** Keeps key presses from JupyterLab, except with Ctrl: Ctrl+S still saves the notebook. */
function isolateKeys(event: KeyboardEvent, place: HTMLElement): void {
  if (event.ctrlKey || event.metaKey) return void delete place.dataset.lmSuppressShortcuts;
  place.dataset.lmSuppressShortcuts = 'true';
  event.stopPropagation();
}

/** anywidget's entry point: isolated from the notebook's styles by a shadow root, with the kernel as its server. */
function render({ model, el }: { model: Widget; el: HTMLElement }): () => void {
  const place = document.createElement('div');
  el.append(place);
  const root = place.attachShadow({ mode: 'open' });
  const target = document.createElement('div');
  target.className = 'page';
  root.append(target);
  addStyles(root);
  const { fetch: fetcher, close } = messageFetch(model);
  const host: Host = {
    api: model.get('saved') ? null : httpApi('', fetcher),
    saved: model.get('saved') ? () => savedTraceFrom(fetcher) : null,
    start: model.get('start') as Partial<Selection>,
    ownsWindow: false,
    keys: target,
  };
  const app = mount(App, { target, props: { host } });
  for (const kind of ['keydown', 'keyup', 'keypress'])
    target.addEventListener(kind, (event) => isolateKeys(event as KeyboardEvent, place));
  return () => {
    close();
    void unmount(app);
  };
}

export default { render };

const about = document.getElementById('glassformer-saved');
if (about !== null) openSaved(about);
