// Where the page stands: behind a server, in a file that carries its trace, or in a notebook.
import type { Selection } from '../state/selection';
import { httpApi, type Api } from './api';
import type { Manifest, ModelInfo } from './manifest';
import type { Source } from './source';

/** A trace that need not be asked for. */
export interface Saved {
  manifest: Manifest;
  model: ModelInfo;
  source: Source;
  /** Whether its numbers were rounded to float16. */
  half: boolean;
}

export interface Host {
  /** Whom to ask for sentences and changes; null where there is only what was saved. */
  api: Api | null;
  saved: (() => Promise<Saved>) | null;
  /** What is looked at first, where the address does not say. */
  start: Partial<Selection>;
  /** Whether address, title and scrolling are this page's: not in a frame, nor in a notebook. */
  alone: boolean;
  /** Whose keys are heard: all of the page's, or those pressed within. */
  keys: EventTarget;
}

export function serverHost(): Host {
  return { api: httpApi(), saved: null, start: {}, alone: true, keys: window };
}
