// Something that comes later: the last one stays on the page until the next is there.
// The caller passes what is needed: after an `await` the screen that asked may be gone, and its values stale.
export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  /** Whether something newer is under way. */
  busy = $state(false);
  private turn = 0;

  ask(coming: Promise<T>): void {
    const turn = ++this.turn;
    this.busy = true;
    coming.then(
      (value) => {
        if (turn === this.turn) [this.value, this.error, this.busy] = [value, null, false];
      },
      (error: unknown) => {
        if (turn === this.turn)
          [this.error, this.busy] = [error instanceof Error ? error.message : String(error), false];
      },
    );
  }
}
