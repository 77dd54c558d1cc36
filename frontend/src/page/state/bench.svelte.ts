// A and B: a sentence as the model gives it, and the same under what-ifs. Asked for when either changes.
import type { Api, WhatIf } from '../data/api';
import { httpSource } from '../data/source';
import { Exploration } from '../data/trace';
import { changesFrom } from './changes';

interface Answer {
  /** Of which trace it is the what-if. */
  of: Exploration;
  exploration: Exploration;
  found: WhatIf;
}

export class Bench {
  /** A: without any change. */
  before = $state.raw<Exploration | null>(null);
  error = $state<string | null>(null);
  busy = $state(false);
  private answer = $state.raw<Answer | null>(null);
  private asking: AbortController | null = null;

  /** B; the last one stays until the next is there, but not when the sentence is another. */
  get after(): Exploration | null {
    return this.answer?.of === this.before ? (this.answer?.exploration ?? null) : null;
  }

  get found(): WhatIf | null {
    return this.answer?.of === this.before ? (this.answer?.found ?? null) : null;
  }

  /** `written`: the changes as the address has them. */
  async ask(api: Api, before: Exploration, written: string, reference: string): Promise<void> {
    this.asking?.abort(); // who asks anew does not wait for the old answer
    this.error = null;
    const changes = changesFrom(written);
    if (changes.length === 0) {
      [this.answer, this.busy] = [null, false];
      return;
    }
    const asking = (this.asking = new AbortController());
    this.busy = true;
    try {
      const found = await api.whatIf(before.manifest.id, changes, reference, asking.signal);
      if (asking.signal.aborted) return;
      this.answer = {
        of: before,
        exploration: new Exploration(found.manifest, httpSource(api, found.manifest.id)),
        found,
      };
    } catch (failure) {
      if (asking.signal.aborted) return;
      [this.answer, this.error] = [null, (failure as Error).message];
    }
    this.busy = false;
  }
}
