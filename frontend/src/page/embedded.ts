// Entry point of the explorer without its server, as one script: in a saved file, and in a notebook cell.
import { mount, unmount } from 'svelte';
import App from './App.svelte';
import { httpApi } from './data/api';
import type { Host } from './data/host';
import { messageFetch, type Messages } from './data/messages';
import { fromBase64, openSavedTrace } from './data/savedTrace';
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

/** A page of `Trace.to_html`: the packed trace is in an element of the page. */
function openSaved(packed: HTMLElement): void {
  const ownsWindow = location.protocol !== 'about:'; // otherwise it is in a frame, whose URL is not its own
  const saved = () => openSavedTrace(fromBase64(packed.textContent ?? ''));
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
  const saved = async () => openSavedTrace(new Uint8Array(await (await fetcher('/trace.gz')).arrayBuffer()));
  const host: Host = {
    api: model.get('saved') ? null : httpApi('', fetcher),
    saved: model.get('saved') ? saved : null,
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

const packed = document.getElementById('glassformer-trace');
if (packed !== null) openSaved(packed);
