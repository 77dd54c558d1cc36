// State of the what-if: A, the trace of the unchanged model, and B, the trace with the changes.
import type { Api, WhatIfResponse } from '../data/api';
import { httpSource } from '../data/source';
import { Exploration } from '../data/trace';
import { parseChanges } from './changes';

interface Result {
  /** A. */
  of: Exploration;
  /** B. */
  exploration: Exploration;
  response: WhatIfResponse;
}

export class WhatIfState {
  /** A: without changes. */
  before = $state.raw<Exploration | null>(null);
  error = $state<string | null>(null);
  busy = $state(false);
  private result = $state.raw<Result | null>(null);
  private running: AbortController | null = null;

  /** B; the last one is kept until the next one is ready, unless the sentence has changed. */
  get after(): Exploration | null {
    return this.result?.of === this.before ? (this.result?.exploration ?? null) : null;
  }

  get response(): WhatIfResponse | null {
    return this.result?.of === this.before ? (this.result?.response ?? null) : null;
  }

  /** `serialised`: the changes as in the URL. */
  async update(api: Api, before: Exploration, serialised: string, reference: string): Promise<void> {
    this.running?.abort(); // a new request replaces the one that is running
    this.error = null;
    const changes = parseChanges(serialised);
    if (changes.length === 0) {
      [this.result, this.busy] = [null, false];
      return;
    }
    const running = (this.running = new AbortController());
    this.busy = true;
    try {
      const response = await api.whatIf(before.manifest.id, changes, reference, running.signal);
      if (running.signal.aborted) return;
      this.result = {
        of: before,
        exploration: new Exploration(response.manifest, httpSource(api, response.manifest.id)),
        response,
      };
    } catch (failure) {
      if (running.signal.aborted) return;
      [this.result, this.error] = [null, (failure as Error).message];
    }
    this.busy = false;
  }
}
