// The selection in the URL: written when it changes, read on Back and Forward.
import { fromHash, DEFAULTS, toHash, type Selection } from './selection';

export class Address {
  selection = $state<Selection>({ ...DEFAULTS });
  private readonly ownsWindow: boolean;

  /** In a frame or a notebook the URL is not the explorer's: there the selection is only kept in memory. */
  constructor(ownsWindow = true, start: Partial<Selection> = {}) {
    this.ownsWindow = ownsWindow;
    this.selection = ownsWindow ? fromHash(location.hash) : { ...DEFAULTS, ...start };
    if (ownsWindow) addEventListener('hashchange', () => (this.selection = fromHash(location.hash)));
  }

  /** A change of the selection that Back undoes. */
  go(patch: Partial<Selection>): void {
    this.set(patch, true);
  }

  /** A small move, such as an arrow key in a grid, which adds no history entry. */
  move(patch: Partial<Selection>): void {
    this.set(patch, false);
  }

  private set(patch: Partial<Selection>, step: boolean): void {
    const next = { ...this.selection, ...patch };
    const hash = toHash(next);
    this.selection = next;
    if (!this.ownsWindow || hash === location.hash) return;
    if (step) history.pushState(null, '', hash);
    else history.replaceState(null, '', hash);
  }
}
