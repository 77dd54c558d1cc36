// What every screen gets: the same trace, the same selection, and ways to change it.
import type { Snippet } from 'svelte';
import type { Api } from '../data/api';
import type { ModelInfo } from '../data/manifest';
import type { Exploration } from '../data/trace';
import type { Bench } from '../state/bench.svelte';
import type { Selection } from '../state/selection';

export interface ScreenProps {
  exploration: Exploration;
  selection: Selection;
  /** A step that Back undoes. */
  go: (patch: Partial<Selection>) => void;
  /** A small move, which Back need not undo. */
  move: (patch: Partial<Selection>) => void;
  /** Whom to ask for more; null where there is only what was saved. */
  api: Api | null;
  model: ModelInfo;
  /** The same sentence before the changes, where the difference to it is wanted. */
  other?: Exploration | null;
  bench: Bench;
  /** The view of B, for a difference that cannot be had. */
  plain?: Snippet;
}
