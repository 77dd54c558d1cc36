// Texts of the screen `decoding`: decoding step by step.
import { plural } from '../../figures/formatting';

export const decoding = {
  title: 'Decoding step by step',
  intro:
    'A translation is generated token by token. Each step computes one decoder position; keys and values of earlier positions come from the KV cache, and those of the source are computed once.',
  slider: 'Decoding step',
  step: (before: string, next: string) => `after ${before}, predicting ${next}`,
  back: 'Previous step',
  forth: 'Next step',
  play: 'Play',
  pause: 'Pause',
  counter: (cached: number, without: number) =>
    `Positions computed so far in each layer: ${cached} with the cache, ${without} without it.`,
  layer: (layer: number) => `Decoder layer ${layer}`,
  self: 'Self-attention cache',
  grown: (reused: number) => `1 computed now, ${reused} reused`,
  cross: 'Cross-attention cache',
  once: (n: number) => `${plural(n, 'column')}, computed once before the first step`,
};
