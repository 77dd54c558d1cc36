// Something that comes later: the last one stays on the page until the next is there.
// Whoever asks hands over what is needed: after an `await` the screen that asked may be gone, and its values stale.
export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  private turn = 0;

  ask(coming: Promise<T>): void {
    const turn = ++this.turn;
    coming.then(
      (value) => {
        if (turn === this.turn) [this.value, this.error] = [value, null];
      },
      (error: unknown) => {
        if (turn === this.turn) this.error = error instanceof Error ? error.message : String(error);
      },
    );
  }
}
