// Value of the latest promise; the last value is kept until the next one is ready.
// Callers pass all inputs as arguments: after an `await` the component may be gone, and its values stale.
export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  /** Whether a newer value is being loaded. */
  busy = $state(false);
  private latest = 0;

  load(promise: Promise<T>): void {
    const number = ++this.latest;
    this.busy = true;
    promise.then(
      (value) => {
        if (number === this.latest) [this.value, this.error, this.busy] = [value, null, false];
      },
      (error: unknown) => {
        if (number === this.latest)
          [this.error, this.busy] = [error instanceof Error ? error.message : String(error), false];
      },
    );
  }
}
