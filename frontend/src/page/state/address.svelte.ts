// The selection as the page's address: written when it changes, read when somebody goes back or forward.
import { fromHash, START, toHash, type Selection } from './selection';

export class Address {
  selection = $state<Selection>({ ...START });
  private readonly alone: boolean;

  /** In a frame or a notebook the address is another's: there the selection is only remembered. */
  constructor(alone = true, start: Partial<Selection> = {}) {
    this.alone = alone;
    this.selection = alone ? fromHash(location.hash) : { ...START, ...start };
    if (alone) addEventListener('hashchange', () => (this.selection = fromHash(location.hash)));
  }

  /** A step that Back undoes. */
  go(patch: Partial<Selection>): void {
    this.put(patch, true);
  }

  /** A small move, such as an arrow key in a grid, which Back need not undo. */
  move(patch: Partial<Selection>): void {
    this.put(patch, false);
  }

  private put(patch: Partial<Selection>, step: boolean): void {
    const next = { ...this.selection, ...patch };
    const hash = toHash(next);
    this.selection = next;
    if (!this.alone || hash === location.hash) return;
    if (step) history.pushState(null, '', hash);
    else history.replaceState(null, '', hash);
  }
}
